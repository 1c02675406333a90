-- Takes versions of objects of one kind into the store; the later version of two wins, whoever brings it when. What
-- moved marks the object's key, its owner's, and the key of the one it names.
--
-- KEYS  1      freshness
--       2      names of the listing that is under way
--       3..    objects, owners, gone of the kind, then the routes' (see moving.lua)
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      routes
--       4      key that is in somebody's hand and is not marked; or ''
--       5      epoch of the informer that writes, or '' for the write-through of what a worker did
--       6      id of the listing these objects were read in, or ''
--       7..    per object 10: field, resourceVersion (0: unknown), uid, owner uid or '-', owner key or '-', tie or '-',
--              generation, stamp, two flags (watched, deleting), JSON or '-'
-- Answer: {'ok', now, {moved, lane name, notifications, ...}}, or {'deposed'} or {'lost'} (see freshness.lua): nothing was done
-- Replay: the same versions again move nothing.
-- include: clock
-- include: freshness
-- include: moving

local now = clock(ARGV[1])
local kind = ARGV[2]
local listing = ARGV[6]
if ARGV[5] ~= '' then
  local refusal = refused(freshness(KEYS[1], kind), tonumber(ARGV[5]), listing)
  if refusal then
    return { refusal }
  end
end

local m = mover(KEYS, 2, kind, now, ARGV[4], ARGV[3])
local fields = {}
for i = 7, #ARGV, 10 do
  fields[#fields + 1] = ARGV[i]
end
m.known(fields)
if listing ~= '' then
  m.relisting(tonumber(listing))
  tell('SADD', KEYS[2], fields)
  redis.call('EXPIRE', KEYS[2], 3600)
end
for i = 7, #ARGV, 10 do
  local new = {
    version = tonumber(ARGV[i + 1]),
    uid = ARGV[i + 2],
    owner = ARGV[i + 3],
    owner_key = ARGV[i + 4],
    tie = ARGV[i + 5],
    generation = ARGV[i + 6],
    stamp = ARGV[i + 7],
    watched = string.sub(ARGV[i + 8], 1, 1) == '1',
    deleting = string.sub(ARGV[i + 8], 2, 2) == '1',
    gone = ARGV[i + 9] == '-',
  }
  if not m.take(ARGV[i], new, ARGV[i + 9]) and listing ~= '' then
    m.remind(ARGV[i])
  end
end
return { 'ok', string.format('%.0f', now), m.settle() }
