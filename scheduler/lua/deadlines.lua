-- Leased keys without a deadline would stay leased for ever: one is lost with a broken or deleted set of deadlines.
-- include: batches

-- Gives each leased key that has no deadline this one (us). of: the lane.
local function restore_deadlines(of, deadline)
  if redis.call('HLEN', of.leased) <= redis.call('ZCARD', of.leases) then
    return
  end
  local keys = redis.call('HKEYS', of.leased)
  local missing = {}
  for i, known in ipairs(read_many('ZMSCORE', of.leases, keys)) do
    if not known then
      missing[#missing + 1] = deadline
      missing[#missing + 1] = keys[i]
    end
  end
  write_many('ZADD', of.leases, missing)
end
