-- Purpose: adds one event to an intake, unless as many as it may hold are waiting already.
-- KEYS: 1 the intake, 2 the accepted events (streams)
-- ARGV: 1 the group, 2 most events that may be not done, then the event's names and values
-- Answer: the entry's id, or an error FULL, or OOM on a server without memory
-- Replay: a second run adds a second entry, which is a duplicate and counts once.

-- include: events

-- A server without memory refuses the first write of a script alone, and only one that frees no memory.
local tried = redis.pcall('XGROUP', 'CREATE', KEYS[2], ARGV[1], '0', 'MKSTREAM')
if tried.err and string.find(tried.err, 'OOM', 1, true) then return tried end

local waiting, held = backlog(KEYS[2], ARGV[1])
if waiting + held + redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[2]) then
  return redis.error_reply('FULL ' .. ARGV[2] .. ' events are waiting or being worked on, as many as maxEvents allows')
end
return redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
