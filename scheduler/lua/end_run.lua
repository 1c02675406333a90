-- Remembers that a run of a periodic entry was emitted, or gives it up.
--
-- KEYS  1  HASH entry name -> moment of its last run (us)
--       2  who is emitting this entry, if anybody
-- ARGV  1  entry name
--       2  the id of the attempt
--       3  moment of this run (us), or '' to give it up so that it is tried again
-- Answer: 1, or 0 if the attempt is not the current one any more and nothing changed
-- Replay: changes nothing more.

local runs, emitting = KEYS[1], KEYS[2]
local name, attempt, run = ARGV[1], ARGV[2], ARGV[3]

if redis.call('GET', emitting) ~= attempt then
  return 0
end
if run ~= '' then
  redis.call('HSET', runs, name, run)
end
redis.call('DEL', emitting)
return 1
