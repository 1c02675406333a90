-- Returns the lane in numbers, as of one moment.
--
-- KEYS  1..10  the lane
-- ARGV  1      clock override: '' or us (tests)
-- Answer: {ready, later, of these due, leased, of these expired, dirty, failing, notifications under way,
--          age of the key that has been ready for longest (us; -1: none is)}
-- include: clock
-- include: fair_queueing

local now = clock(ARGV[1])
local of = lane(KEYS, 0)
local oldest = redis.call('ZRANGE', of.since, 0, 0, 'WITHSCORES')
return {
  redis.call('ZCARD', of.ready),
  redis.call('ZCARD', of.later),
  redis.call('ZCOUNT', of.later, '-inf', now),
  redis.call('HLEN', of.leased),
  redis.call('ZCOUNT', of.leases, '-inf', now),
  redis.call('SCARD', of.dirty),
  redis.call('HLEN', of.failures),
  number(redis.call('HGET', of.meta, 'notifications')),
  oldest[2] and math.max(0, now - tonumber(oldest[2])) or -1,
}
