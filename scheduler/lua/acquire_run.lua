-- Leases one run of a periodic entry to the calling beat: of all beats that see it due, one emits it.
--
-- A run is identified by the run before it. The lease is a key with an expiry: a beat that dies before it has emitted,
-- or before it could record that, leaves the run to the first beat that asks after the expiry.
--
-- KEYS  1  HASH entry name -> moment of its last run (us)
--       2  STRING id of the lease, while a beat emits this entry
-- ARGV  1  entry name
--       2  moment of the last run as the caller knows it (us)
--       3  id of the caller's lease
--       4  duration of the lease (ms)
--       5  clock override: '' or us (tests)
-- Answer: 1 leased to the caller; 0 leased to another beat; or, as text, the moment of a later last run (us)
-- Replay: returns the same answer again.
-- include: clock

local runs, lease = KEYS[1], KEYS[2]
local name, last, id, duration = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local known = redis.call('HGET', runs, name)
-- What is no whole number is no moment, although Lua may read one: the caller's counts.
local moment = tonumber(string.match(known or '', '^%d+$') or 0)
-- An earlier one comes from older data that the broker was restored to: the caller knows better. One that is still to
-- come was recorded before the clock was set back.
if moment > tonumber(last) and moment <= clock(ARGV[5]) then
  return known
end
if redis.call('SET', lease, id, 'NX', 'PX', duration) then
  return 1
end
return redis.call('GET', lease) == id and 1 or 0
