-- A kind's field of the freshness hash: '<us> <epoch> <relist> <generation> <writes>'. us: all changes before this
-- moment are stored (0: none yet). epoch: of the reflector that may write. relist: the id of the last relist that was
-- begun. generation: the one in which it was begun (generation.lua). writes: how often reflectors wrote, in all
-- generations.
-- include: generation

-- Returns nil for a kind that was never listed, or whose field cannot be read: it is listed again.
local function freshness(key, kind)
  local value = redis.call('HGET', key, kind)
  local fresh, epoch, listing, generation, writes =
    string.match(value or '', '^(%d+) (%d+) (%d+) (%S+) (%d+)$')
  return fresh
    and { us = tonumber(fresh), epoch = tonumber(epoch), listing = listing, generation = generation,
      writes = tonumber(writes) }
end

-- Counts one write and stores the field. Returns the number of writes, which the writer repeats with its next one.
local function set_freshness(key, kind, f)
  f.writes = f.writes + 1
  local value = string.format('%.0f %.0f %s %s %.0f', f.us, f.epoch, f.listing, f.generation, f.writes)
  redis.call('HSET', key, kind, value)
  return f.writes
end

-- Returns nil if a reflector of this epoch may write, 'deposed' if one of a later epoch leads, or 'lost' if the store
-- must be filled again: it was flushed, or has older data than this writer wrote. This check in every writing script is
-- the fence: a leader that was stopped, and runs on after its Lease was taken, can overwrite nothing. writer: the
-- fields epoch, listing ('' or the relist it is in the middle of), writes (the number it knows) and candidate (the id
-- of a new generation).
local function refused(generation, f, writer, now)
  if f and f.epoch > writer.epoch then
    return 'deposed'
  end
  local id = generation_for(generation, writer.candidate, now, f and f.writes < writer.writes)
  if not f or f.epoch < writer.epoch or f.generation ~= id or f.writes < writer.writes then
    return 'lost'
  end
  if writer.listing ~= '' and f.listing ~= writer.listing then
    return 'lost'
  end
  return nil
end
