-- Writes a batch of object versions, all or nothing, if nobody else has written since.
--
-- KEYS[1]  STRING  version of the last batch and its writer: '<version> <writer>'
-- KEYS[2]  HASH    resource id -> version of the last change of that resource
-- KEYS[3..] HASH   object key -> object as JSON; one hash per touched resource
-- ARGV[1]  what this writer expects to find in KEYS[1]; ARGV[2] what is to stand there after this batch
-- ARGV[3]  number of touched resources T, then T pairs: resource id, version of its last change in this batch
-- then     triples: index into KEYS (1-based), object key, JSON or '' to delete
--
-- Answers 1: written now or by an earlier call of the same batch; 0: the store is empty (flushed);
-- -1: another writer has taken the store over.
-- Replaying a call is harmless: the version, with the writer, tells that it has been done.

local state, changed = KEYS[1], KEYS[2]
local expected, new = ARGV[1], ARGV[2]

local found = redis.call('GET', state)
if found == new then return 1 end
if not found then return 0 end
if found ~= expected then return -1 end

local touched = tonumber(ARGV[3])
local at = 4
for _ = 1, touched do
  redis.call('HSET', changed, ARGV[at], ARGV[at + 1])
  at = at + 2
end
for i = at, #ARGV, 3 do
  local objects, key, json = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]
  if json == '' then
    redis.call('HDEL', objects, key)
  else
    redis.call('HSET', objects, key, json)
  end
end
redis.call('SET', state, new)
return 1
