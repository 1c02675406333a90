-- Purpose: gives the staged keys of one object their names, all or none of them.
-- KEYS: 1 the marker of the restore (a hash), then pairs: a staged key and its name
-- ARGV: 1 the run of the restore, 2 the object's field in the marker
-- Answer: 1 if they have their names now or had them before, 0 if another run has begun, or the name of a key
--         that is there already. A staged key that has expired is left out: RENAME would fail between the others.
-- Replay: the object is in the marker, and nothing happens.

if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return 1 end
for i = 3, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then return KEYS[i] end
end
for i = 2, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('RENAME', KEYS[i], KEYS[i + 1]) end
end
redis.call('HSET', KEYS[1], ARGV[2], '1')
return 1
