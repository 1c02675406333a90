-- Stores the claim order of an object, and marks the object in the lane whose workers carry orders out.
-- KEYS: 1 the hash of orders; 2..11 the lane
-- ARGV: 1 clock override (us) or '', 2 most notifications under way, 3 the object's key, 4 the order's id, 5 the order
--       as JSON
-- Answer: notifications to send
-- Replay: the same order again changes nothing and marks again, which coalesces. An order older than the stored one is
-- dropped: it comes from a decision that lost its lease.
-- include: clock
-- include: fair_queueing

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
