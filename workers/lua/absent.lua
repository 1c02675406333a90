-- Ends a relist whose pages were all applied: objects not in it, and no newer, become tombstones. Newer is a higher
-- version, but versions stored before the relist began do not count as newer: after a restore from a backup, or with
-- another cluster behind the broker, they belong to another history.
-- Checks a bounded number of objects; call again with the cursor until it is 0.
--
-- KEYS  1      freshness
--       2      names of the relist
--       3..    objects, owners, gone of the kind, then the routes' (see store_versions.lua)
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      routes
--       4      epoch
--       5      id of the relist
--       6      cursor, '0' to begin
--       7      number of objects to check, about
--       8..    pairs: namespace ('' stands for all), resourceVersion of its list. Objects of namespaces that were not
--              listed become tombstones, too: their namespace is not followed any more
-- Answer: {'ok', next cursor, {changed, lane name, notifications, ...}}, or {'deposed'} or {'lost'}
-- Replay: a tombstone stays one.
-- include: clock
-- include: freshness
-- include: store_versions

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
m.relisting(tonumber(ARGV[5]))
local page = redis.call('HSCAN', KEYS[3], ARGV[6], 'COUNT', ARGV[7])
local fields, found = {}, {}
for i = 1, #page[2], 2 do
  fields[#fields + 1] = page[2][i]
  found[#found + 1] = m.offer(page[2][i], page[2][i + 1])
end
local listed = read_many('SMISMEMBER', KEYS[2], fields)
for i, field in ipairs(fields) do
  local e = found[i]
  local version = versions[''] or versions[string.match(field, '^([^/]*)/')] or e.version
  if listed[i] == 0 and (e.version <= version or m.outdated(e)) then
    m.bury(field, version)
  end
end
if page[1] == '0' then
  redis.call('DEL', KEYS[2])
end
return { 'ok', page[1], m.settle() }
