-- Records that a leased run of a periodic entry was emitted, or gives it back.
--
-- KEYS  1  HASH entry name -> moment of its last run (us)
--       2  STRING id of the lease, while a beat emits this entry
-- ARGV  1  entry name
--       2  id of the caller's lease
--       3  moment of this run (us), or '' to give it back so that it is tried again
-- Answer: 1, or 0 if the lease has expired or is another beat's, and nothing changed
-- Replay: changes nothing more.

local runs, lease = KEYS[1], KEYS[2]
local name, id, run = ARGV[1], ARGV[2], ARGV[3]

-- Fencing: a beat that stalled past its expiry must not overwrite the run that another beat has emitted since.
if redis.call('GET', lease) ~= id then
  return 0
end
if run ~= '' then
  redis.call('HSET', runs, name, run)
end
redis.call('DEL', lease)
return 1
