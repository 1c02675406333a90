-- Begins a relist of a kind: from now on reflectors of lower epochs, and earlier relists, may not write.
--
-- KEYS  1      freshness
--       2      names of the relist in progress
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      epoch
-- Answer: {'ok', now, relist id}, or {'deposed'}
-- Replay: begins once more; only the last relist counts.
-- include: clock
-- include: freshness

local now = clock(ARGV[1])
local kind, epoch = ARGV[2], tonumber(ARGV[3])
local f = freshness(KEYS[1], kind)
if f and f.epoch > epoch then
  return { 'deposed' }
end
local listing = string.format('%.0f', math.max(now, (f and tonumber(f.listing) or 0) + 1))
redis.call('DEL', KEYS[2])
set_freshness(KEYS[1], kind, { us = f and f.us or 0, epoch = epoch, listing = listing })
return { 'ok', string.format('%.0f', now), listing }
