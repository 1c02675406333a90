-- Records a reflector's progress: all changes before a moment are stored. Also deletes a bounded number of tombstones
-- that are older than any late version of their object can be.
--
-- KEYS  1      freshness
--       2..4   objects, owners, gone of the kind
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      epoch
--       4      the moment, us on the broker's clock; '' leaves it unchanged
--       5      age after which a tombstone is deleted, us
-- Answer: {'ok', now}, or {'deposed'} or {'lost'}
-- Replay: harmless; the moment never goes back.
-- include: clock
-- include: batches
-- include: freshness
-- include: entries

local now = clock(ARGV[1])
local kind = ARGV[2]
local f = freshness(KEYS[1], kind)
local refusal = refused(f, tonumber(ARGV[3]), '')
if refusal then
  return { refusal }
end
if ARGV[4] ~= '' then
  f.us = math.max(f.us, math.min(tonumber(ARGV[4]), now))
  set_freshness(KEYS[1], kind, f)
end

local old = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - tonumber(ARGV[5]), 'LIMIT', 0, 100)
local members = {}
for i, value in ipairs(read_many('HMGET', KEYS[2], old)) do
  local e = entry(value)
  if e and e.owner ~= '-' then
    members[#members + 1] = e.owner .. ' ' .. old[i]
  end
end
write_many('ZREM', KEYS[3], members)
write_many('HDEL', KEYS[2], old)
write_many('ZREM', KEYS[4], old)
return { 'ok', string.format('%.0f', now) }
