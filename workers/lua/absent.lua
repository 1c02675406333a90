-- After every page of a listing was applied: objects that were not in it, and are no newer than it, are gone.
-- Looks at a bounded number of objects; call again with the cursor until it is 0.
--
-- KEYS  1      freshness
--       2      names of the listing
--       3..    objects, owners, gone of the kind, then the routes' (see moving.lua)
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      routes
--       4      epoch
--       5      id of the listing
--       6      cursor, '0' to begin
--       7      how many objects to look at, about
--       8..    pairs: namespace ('' stands for all), resourceVersion of its list. Objects of namespaces that were not
--              listed at all are gone too: nobody watches them any more
-- Answer: {'ok', next cursor, {moved, lane name, bells, ...}}, or {'deposed'} or {'lost'}
-- Replay: what is gone already does not go again.
-- include: clock
-- include: freshness
-- include: moving

local now = clock(ARGV[1])
local kind = ARGV[2]
local refusal = refused(freshness(KEYS[1], kind), tonumber(ARGV[4]), ARGV[5])
if refusal then
  return { refusal }
end
local versions = {}
for i = 8, #ARGV, 2 do
  versions[ARGV[i]] = tonumber(ARGV[i + 1])
end

local m = mover(KEYS, 2, kind, now, '', ARGV[3])
m.relisting()
local page = redis.call('HSCAN', KEYS[3], ARGV[6], 'COUNT', ARGV[7])
local found = page[2]
local live = {}
for i = 1, #found, 2 do
  local e = m.offer(found[i], found[i + 1])
  if not e.gone then
    live[#live + 1] = { found[i], e }
  end
end
local names = {}
for i, one in ipairs(live) do
  names[i] = one[1]
end
local listed = ask('SMISMEMBER', KEYS[2], names)
for i, one in ipairs(live) do
  local field, e = one[1], one[2]
  local version = versions[''] or versions[string.match(field, '^([^/]*)/')]
  if listed[i] == 0 and (not version or e.version <= version) then
    m.take(field, {
      version = version or e.version,
      uid = e.uid,
      owner = e.owner,
      owner_key = e.owner_key,
      generation = e.generation,
      stamp = e.stamp,
      watched = e.watched,
      deleting = e.deleting,
      gone = true,
    }, '-')
  end
end
if page[1] == '0' then
  redis.call('DEL', KEYS[2])
end
return { 'ok', page[1], m.settle() }
