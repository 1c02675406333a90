-- Purpose: keeps an object's order, and in the same step marks the object in the lane of those who carry it out.
-- KEYS: 1 the hash of orders; 2..11 the lane in which orders are carried out
-- ARGV: 1 clock override (us) or '', 2 most notifications outstanding, 3 the object's key, 4 the order's id, 5 the order as JSON
-- Answer: notifications to send
-- Replay: the same order again changes nothing and marks again, which coalesces. An order older than the one that is
-- kept comes from a decision that lost its lease, and is dropped.
-- include: clock
-- include: marking

local orders, key = KEYS[1], ARGV[3]
local stored = redis.call('HGET', orders, key)
local last = stored and tonumber(string.match(stored, '^(%d+) ')) or 0
if tonumber(ARGV[4]) >= last then
  redis.call('HSET', orders, key, ARGV[4] .. ' ' .. ARGV[5])
end
local carrying = lane(KEYS, 1)
mark(carrying, key, clock(ARGV[1]), 0, false)
local _, notifications = settle(carrying, tonumber(ARGV[2]))
return notifications
