-- A kind's field of the freshness hash: '<us> <epoch> <relist>'. us: all changes before this moment are stored (0: none
-- yet). epoch: of the reflector that may write. relist: the id of the last relist that was begun.

local function freshness(key, kind)
  local value = redis.call('HGET', key, kind)
  if not value then
    return nil
  end
  local fresh, epoch, listing = string.match(value, '^(%d+) (%d+) (%d+)$')
  return { us = tonumber(fresh), epoch = tonumber(epoch), listing = listing }
end

local function set_freshness(key, kind, f)
  redis.call('HSET', key, kind, string.format('%.0f %.0f %s', f.us, f.epoch, f.listing))
end

-- Returns nil if a reflector of this epoch may write, 'deposed' if one of a later epoch leads, or 'lost' if the store
-- was flushed and must be filled again. This check in every writing script is the fence: a leader that was stopped, and
-- runs on after its Lease was taken, can overwrite nothing. listing: '' or the relist it is in the middle of.
local function refused(f, epoch, listing)
  if f and f.epoch > epoch then
    return 'deposed'
  end
  if not f or f.epoch < epoch or (listing ~= '' and f.listing ~= listing) then
    return 'lost'
  end
  return nil
end
