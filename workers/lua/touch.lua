-- The informer says how far it is: all that happened before a moment is in the store. Tombstones that are old enough
-- to have outlived every late echo are forgotten on the way, a bounded number each time.
--
-- KEYS  1      freshness
--       2..4   objects, owners, gone of the kind
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      epoch
--       4      the moment, us on the broker's clock; '' says nothing of the kind
--       5      age after which a tombstone is forgotten, us
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
for i, value in ipairs(ask('HMGET', KEYS[2], old)) do
  local e = entry(value)
  if e and e.owner ~= '-' then
    members[#members + 1] = e.owner .. ' ' .. old[i]
  end
end
tell('ZREM', KEYS[3], members)
tell('HDEL', KEYS[2], old)
tell('ZREM', KEYS[4], old)
return { 'ok', string.format('%.0f', now) }
