-- The keyspace's generation. Whoever finds none (first start, or everything was flushed) makes a new one; a lane that
-- meets a generation it does not know refuses claims for one lease, because holders from before may still be at work.

-- Answers the generation's id and the moment (us) from which the lane may be claimed from.
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
