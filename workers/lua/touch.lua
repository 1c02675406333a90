-- Records a reflector's progress: all changes before a moment are stored. Also deletes a bounded number of tombstones
-- that are older than any late version of their object can be.
--
-- KEYS  1      generation
--       2      freshness
--       3..6   objects, owners, gone, child log of the kind
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      the number of writes that the reflector knows
--       4      the id to give a new generation
--       5      epoch
--       6      the moment, us on the broker's clock; '' leaves it unchanged
--       7      age after which a tombstone is deleted, us
-- Answer: {'ok', number of writes, now, tombstones of that age that are left}, or {'deposed'} or {'lost'}
-- Replay: harmless; the moment goes back only if the broker's clock was set back.
-- include: clock
-- include: batches
-- include: freshness
-- include: entries
-- include: child_log

local now = clock(ARGV[1])
local kind = ARGV[2]
local f = freshness(KEYS[2], kind)
local writer = { epoch = tonumber(ARGV[5]), listing = '', writes = tonumber(ARGV[3]), candidate = ARGV[4] }
local refusal = refused(KEYS[1], f, writer, now)
if refusal then
  return { refusal }
end
-- ZRANGEBYLEX reads the index of owners, and finds children only while all its scores are 0. One of another score is a
-- stranger's: the index is not believed, and a relist makes it again.
if redis.call('ZCOUNT', KEYS[4], 0, 0) ~= redis.call('ZCARD', KEYS[4]) then
  redis.call('UNLINK', KEYS[4])
  redis.call('HDEL', KEYS[2], kind)
  return { 'lost' }
end
if ARGV[6] ~= '' then
  local claimed = math.min(tonumber(ARGV[6]), now)
  -- A moment to come is one of before the clock was set back.
  f.us = f.us > now and claimed or math.max(f.us, claimed)
end
local writes = set_freshness(KEYS[2], kind, f)

local old = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now - tonumber(ARGV[7]), 'LIMIT', 0, 100)
local members = {}
for i, value in ipairs(read_many('HMGET', KEYS[3], old)) do
  local e = entry(value)
  if e and e.owner ~= '-' then
    members[#members + 1] = e.owner .. ' ' .. old[i]
  end
end
log_children(KEYS[6], members)
write_many('ZREM', KEYS[4], members)
write_many('HDEL', KEYS[3], old)
write_many('ZREM', KEYS[5], old)
local left = redis.call('ZCOUNT', KEYS[5], '-inf', now - tonumber(ARGV[7]))
return { 'ok', writes, string.format('%.0f', now), left }
