-- Takes a store over: from now on only this writer's batches are written.
--
-- KEYS[1]  STRING  version of the last batch and its writer: '<version> <writer>'
-- KEYS[2]  HASH    resource id -> version of the last change of that resource
-- ARGV[1]  this writer; ARGV[2] version to begin with if the store is empty; ARGV[3] field of KEYS[2] that keeps it
--
-- Answers the version of the last batch.
-- Replaying a call is harmless: the same writer takes over again.

local state, changed = KEYS[1], KEYS[2]
local writer, first, born = ARGV[1], ARGV[2], ARGV[3]

local found = redis.call('GET', state)
local version = found and string.match(found, '^%d+')
if not version then
  version = first
  redis.call('HSET', changed, born, version)
end
redis.call('SET', state, version .. ' ' .. writer)
return version
