-- The keyspace's generation: '<id> <run id of the server> <us of its beginning, 0 of the first>', or missing after a
-- FLUSHALL. A new one begins when data may have been lost: the key is missing, another server answers than the one that
-- began it (a restart or a fail-over, which may bring back older data: nothing shows that it lost nothing), or a writer
-- finds less than it wrote. What belongs to an earlier generation must not be believed: lanes refuse claims for one
-- lease, because holders of lost leases may still write until their own deadlines pass, and reflectors list their kinds
-- again.
-- include: batches

-- Returns the run id of this server, '-' where the account may not ask for it.
local function run_id()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '-'
end

-- Returns the id of the generation and its beginning (us), or nil if a new one must begin.
local function generation_of(key)
  local id, server, began = string.match(redis.call('GET', key) or '', '^(%S+) (%S+) (%d+)$')
  local here = run_id()
  if id and (server == here or server == '-' or here == '-') then
    return id, tonumber(began)
  end
  return nil
end

-- Returns the id of the generation; a missing or lost one is replaced. candidate: the id of a new one.
local function generation_for(key, candidate, now, lost)
  local id, began = generation_of(key)
  if id and not lost then
    if began > now then
      -- The clock was set back: all that is measured until it has come that far would count as from before the loss.
      redis.call('SET', key, string.format('%s %s %.0f', id, run_id(), now))
    end
    return id
  end
  -- An empty keyspace has nothing from before that readers must tell apart.
  local began = redis.call('EXISTS', key) == 1 and now or 0
  redis.call('SET', key, string.format('%s %s %.0f', candidate, run_id(), began))
  return candidate
end

-- Returns the generation's id and the moment (us) from which the lane allows claims. lease: us.
local function adopt(generation, meta, candidate, now, lease, lost)
  local id = generation_for(generation, candidate, now, lost)
  local known = redis.call('HMGET', meta, 'generation', 'opens')
  if known[1] == id then
    return id, number(known[2])
  end
  redis.call('HSET', meta, 'generation', id, 'opens', now + lease)
  return id, now + lease
end
