-- What a kind's field of the freshness hash says: '<us> <epoch> <listing>'. us: everything that happened in the cluster
-- before this moment is in the store (0: nothing is known yet). epoch: of the one informer that may write.
-- listing: the last relist that was begun.

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

-- Why an informer of this epoch may not write: 'deposed' if a later one leads, 'lost' if the store does not know it
-- (it was flushed) and must be filled again; nil if it may. listing: '' or the relist it is in the middle of.
local function refused(f, epoch, listing)
  if f and f.epoch > epoch then
    return 'deposed'
  end
  if not f or f.epoch < epoch or (listing ~= '' and f.listing ~= listing) then
    return 'lost'
  end
  return nil
end
