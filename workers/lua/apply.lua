-- Stores versions of objects of one kind; the later version wins, in any order of arrival. A stored version marks the
-- object's key, its owner's, and that of the object it names, in the same transaction: no change is stored unmarked.
--
-- KEYS  1      generation
--       2      freshness
--       3      names of the relist in progress
--       4..    objects, owners, gone, child log of the kind, then the routes' (see store_versions.lua)
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      the number of writes that the reflector knows
--       4      the id to give a new generation
--       5      routes
--       6      epoch of the reflector that writes, or '' for a worker's write-through
--       7      '<id> <us>' of the relist these objects are a page of, and of its beginning, or ''
--       8      the moment after which these objects were read from the API server, one by one (us), or '': they replace
--              what was stored before it, whatever its version
--       9..    per object 11: key whose plan changed it, and which is not marked for that, or ''; field,
--              resourceVersion (0: unknown), uid, owner uid or '-', owner key or '-', key of the object it refers to or
--              '-', generation, stamp, two flags (watched, deleting), JSON or '-'
-- Answer: {'ok', number of writes, now, {awaited, lane name, notifications, ...}}, or {'deposed'} or {'lost'}
--         (freshness.lua), unchanged
-- Replay: the same versions again change nothing.
-- include: clock
-- include: freshness
-- include: store_versions

local now = clock(ARGV[1])
local kind = ARGV[2]
local listing, begun = string.match(ARGV[7], '^(%d*) ?(%d*)$')
local writes = 0
if ARGV[6] ~= '' then
  local f = freshness(KEYS[2], kind)
  local writer =
    { epoch = tonumber(ARGV[6]), listing = listing, writes = tonumber(ARGV[3]), candidate = ARGV[4] }
  local refusal = refused(KEYS[1], f, writer, now)
  if refusal then
    return { refusal }
  end
  writes = set_freshness(KEYS[2], kind, f)
end

local m = mover(KEYS, 3, kind, now, ARGV[5])
if ARGV[8] ~= '' then
  m.overruling(tonumber(ARGV[8]))
elseif ARGV[6] ~= '' and listing == '' then
  m.watching()
end
local fields = {}
for i = 10, #ARGV, 11 do
  fields[#fields + 1] = ARGV[i]
end
m.known(fields)
if listing ~= '' then
  m.relisting(tonumber(begun))
  write_many('SADD', KEYS[3], fields)
  redis.call('EXPIRE', KEYS[3], 3600)
end
for i = 10, #ARGV, 11 do
  m.acting(ARGV[i - 1])
  local new = {
    version = tonumber(ARGV[i + 1]),
    uid = ARGV[i + 2],
    owner = ARGV[i + 3],
    owner_key = ARGV[i + 4],
    refers_to = ARGV[i + 5],
    generation = ARGV[i + 6],
    stamp = ARGV[i + 7],
    watched = string.sub(ARGV[i + 8], 1, 1) == '1',
    deleting = string.sub(ARGV[i + 8], 2, 2) == '1',
    gone = ARGV[i + 9] == '-',
  }
  m.take(ARGV[i], new, ARGV[i + 9])
  if listing ~= '' then
    m.remind(ARGV[i])
  end
end
return { 'ok', writes, string.format('%.0f', now), m.settle() }
