-- Opens the lane at once, for a caller that knows that no process holds a lease: no quarantine, and the keys of leases
-- that were left behind become ready.
--
-- KEYS  1      generation
--       2..11  the lane
-- ARGV  1      clock override: '' or us (tests)
--       2      most leases to take back in this call
--       3      the id to give a new generation
-- Answer: how many leases are left to take back: call again until 0
-- Replay: what was taken back is not there to be taken back again.
-- include: clock
-- include: generation
-- include: deadlines
-- include: fair_queueing

local generation = KEYS[1]
local of = lane(KEYS, 1)
local now = clock(ARGV[1])
local most = tonumber(ARGV[2])
local candidate = ARGV[3]

adopt(generation, of.meta, candidate, now, 0, false)
redis.call('HSET', of.meta, 'opens', 0, 'notifications', 0)

restore_deadlines(of, now)
local keys = redis.call('ZRANGE', of.leases, 0, most - 1)
for _, key in ipairs(keys) do
  requeue(of, key, now)
end
write_many('HDEL', of.leased, keys)
write_many('ZREM', of.leases, keys)
write_many('SREM', of.dirty, keys)
write_many('HDEL', of.causes, keys)
-- Who opens the lane sends no notifications: the next sweep does.
settle(of, 0)
return redis.call('ZCARD', of.leases)
