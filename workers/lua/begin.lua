-- Begins a relist of a kind: from now on reflectors of lower epochs, and earlier relists, may not write.
--
-- KEYS  1      generation
--       2      freshness
--       3      names of the relist in progress
-- ARGV  1      clock override: '' or us (tests)
--       2      kind
--       3      the number of writes that the reflector knows
--       4      the id to give a new generation
--       5      epoch
-- Answer: {'ok', number of writes, now, relist id}, or {'deposed'}
-- Replay: begins once more; only the last relist counts.
-- include: clock
-- include: freshness

local now = clock(ARGV[1])
local kind, epoch = ARGV[2], tonumber(ARGV[5])
local known = tonumber(ARGV[3])
local f = freshness(KEYS[2], kind)
if f and f.epoch > epoch then
  return { 'deposed' }
end
local listing = string.format('%.0f', math.max(now, (f and tonumber(f.listing) or 0) + 1))
redis.call('UNLINK', KEYS[3])
-- No object has this name: it shows that the names are those of this relist, also of one that finds no object.
redis.call('SADD', KEYS[3], '')
redis.call('EXPIRE', KEYS[3], 3600)
local id = generation_for(KEYS[1], ARGV[4], now, f and f.writes < known)
local writes = set_freshness(KEYS[2], kind, {
  -- What an earlier generation claimed is not believed before this relist has ended.
  us = f and f.generation == id and f.us or 0,
  epoch = epoch,
  listing = listing,
  generation = id,
  writes = math.max(f and f.writes or 0, known),
})
return { 'ok', writes, string.format('%.0f', now), listing }
