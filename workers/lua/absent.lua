-- After every page of a listing was applied: objects that were not in it, and are no newer than it, are gone. Newer is
-- a higher version, unless it came in before the listing was begun: such versions belong to another history.
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
-- Answer: {'ok', next cursor, {moved, lane name, notifications, ...}}, or {'deposed'} or {'lost'}
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
m.relisting(tonumber(ARGV[5]))
local page = redis.call('HSCAN', KEYS[3], ARGV[6], 'COUNT', ARGV[7])
local fields, found = {}, {}
for i = 1, #page[2], 2 do
  fields[#fields + 1] = page[2][i]
  found[#found + 1] = m.offer(page[2][i], page[2][i + 1])
end
local listed = ask('SMISMEMBER', KEYS[2], fields)
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
