-- Ends a relist whose pages were all applied: objects not in it, and no newer, become tombstones. Newer is a higher
-- version, but versions stored before the relist began do not count as newer: after a restore from a backup, or with
-- another cluster behind the broker, they belong to another history.
-- Checks a bounded number of objects; call again with the cursor until it is 0.
--
-- KEYS  1      generation
--       2      freshness
--       3      names of the relist
--       4..    objects, owners, gone, child log of the kind, then the routes' (see store_versions.lua)
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      the number of writes that the reflector knows
--       4      the id to give a new generation
--       5      routes
--       6      epoch
--       7      '<id> <us>' of the relist, and of its beginning
--       8      cursor, '0' to begin
--       9      number of objects to check, about
--       10..   pairs: namespace ('' stands for all), resourceVersion of its list. Objects of namespaces that were not
--              listed become tombstones, too: their namespace is not followed any more
-- Answer: {'ok', number of writes, next cursor, {awaited, lane name, notifications, ...}}, or {'deposed'} or {'lost'};
--         'lost', too, when the names of the relist are gone: every object would look deleted
-- Replay: a tombstone stays one, and the names stay until the reflector deletes them.
-- include: clock
-- include: freshness
-- include: store_versions

local now = clock(ARGV[1])
local kind = ARGV[2]
local f = freshness(KEYS[2], kind)
local listing, begun = string.match(ARGV[7], '^(%d+) (%d+)$')
local writer = { epoch = tonumber(ARGV[6]), listing = listing, writes = tonumber(ARGV[3]), candidate = ARGV[4] }
local refusal = refused(KEYS[1], f, writer, now)
if refusal then
  return { refusal }
end
if redis.call('SMISMEMBER', KEYS[3], '')[1] == 0 then
  return { 'lost' }
end
local writes = set_freshness(KEYS[2], kind, f)
local versions = {}
for i = 10, #ARGV, 2 do
  versions[ARGV[i]] = tonumber(ARGV[i + 1])
end

local m = mover(KEYS, 3, kind, now, ARGV[5])
m.relisting(tonumber(begun))
local page = redis.call('HSCAN', KEYS[4], ARGV[8], 'COUNT', ARGV[9])
local fields, found = {}, {}
for i = 1, #page[2], 2 do
  fields[#fields + 1] = page[2][i]
  found[#found + 1] = m.offer(page[2][i], page[2][i + 1])
end
local listed = read_many('SMISMEMBER', KEYS[3], fields)
for i, field in ipairs(fields) do
  local e = found[i]
  if not e then
    -- It cannot be read, and the relist did not replace it.
    redis.call('HDEL', KEYS[4], field)
  elseif listed[i] == 0 then
    local version = versions[''] or versions[string.match(field, '^([^/]*)/')] or e.version
    if e.version <= version or m.outdated(e) then
      m.bury(field, version)
    end
  end
end
return { 'ok', writes, page[1], m.settle() }
