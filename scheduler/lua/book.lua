-- Books keys in the table of due times. Of two bookings the earlier one stays. A key in backoff is not booked: its
-- failures bound its attempts, and it is decided afresh after the wait. A booking of a leased key outlives the lease.
--
-- KEYS  1..10  the lane
-- ARGV  1..    pairs: due moment (us), key
-- Answer: nothing
-- Replay: booking again changes nothing.
-- include: fair_queueing

local into = lane(KEYS, 0)
local keys = {}
for i = 2, #ARGV, 2 do
  keys[#keys + 1] = ARGV[i]
end
local leased = read_many('HMGET', into.leased, keys)
local scores = read_many('ZMSCORE', into.ready, keys)
local failures = read_many('HMGET', into.failures, keys)
local later, booked = {}, {}
for i, key in ipairs(keys) do
  if leased[i] then
    booked[#booked + 1] = key
  end
  if leased[i] or scores[i] or not failures[i] then
    later[#later + 1] = ARGV[2 * i - 1]
    later[#later + 1] = key
  end
end
write_many('SADD', into.booked, booked)
write_many('ZADD', into.later, later, 'LT')
return redis.status_reply('OK')
