-- Begins one run of a periodic entry: of all beats that want to emit it, one may.
--
-- A run is known by the run before it. Whoever begins a run has it to itself for a while; a beat that dies before it
-- has emitted (or before it could say so) leaves the run to the next one that asks after that.
--
-- KEYS  1  HASH entry name -> moment of its last run (us)
--       2  who is emitting this entry, if anybody
-- ARGV  1  entry name
--       2  moment of the last run as the caller knows it (us)
--       3  the caller's id for this attempt
--       4  how long the caller has it to itself (ms)
-- Answer: 1 it is the caller's; 0 somebody else is at it; or, as text, the moment of a last run the caller missed (us)
-- Replay: answers the same again.

local runs, emitting = KEYS[1], KEYS[2]
local name, last, attempt, patience = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local known = redis.call('HGET', runs, name)
if known and known ~= last then
  return known
end
if redis.call('SET', emitting, attempt, 'NX', 'PX', patience) then
  return 1
end
return redis.call('GET', emitting) == attempt and 1 or 0
