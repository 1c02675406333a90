-- The keyspace's generation, created by the first caller after a start or a FLUSHALL. A lane that meets a new one
-- refuses claims for one lease: holders of erased leases may still write until their own deadlines pass.

-- Returns the generation's id and the moment (us) from which claims are allowed.
-- candidate: the id to give a new generation. lease: us.
local function adopt(generation, meta, candidate, now, lease)
  local id = redis.call('GET', generation)
  if not id then
    redis.call('SET', generation, candidate)
    id = candidate
  end
  local known = redis.call('HMGET', meta, 'generation', 'opens')
  if known[1] == id then
    return id, tonumber(known[2])
  end
  redis.call('HSET', meta, 'generation', id, 'opens', now + lease)
  return id, now + lease
end
