-- Purpose: starts ended deliveries anew, or gives unfinished ones up, as a user asks.
-- KEYS: 1 to 18 as `deliveries`, 19 the channel's unfinished deliveries (a hash)
-- ARGV: 1 the EventJob's uid, 2 'replay' or 'drop', then entries, the oldest first
-- Answer: how many were changed
-- Replay: deliveries in another state than the verb's are left alone.
-- `asked` is written last of all: its change wakes the EventJob's poll.

-- include: deliveries

local asked, uid, verb = KEYS[18], ARGV[1], ARGV[2]
local FROM = {
  replay = { parked = true, done = true, dropped = true },
  drop = { waiting = true, delayed = true, retrying = true, parked = true }
}
if redis.call('HEXISTS', meta, 'closed') == 1 then return 0 end
local now, changed = clock(''), 0

local function replay(entry, record)
  redis.call('ZREM', ended, entry)
  record.r, record.t, record.a, record.x, record.d = (record.r or 0) + 1, (record.t or 0) + 1, nil, nil, nil
  -- Behind all that arrived: others of its key may have run since.
  record.p = redis.call('HINCRBY', meta, 'arrivals', 1)
  if record.k then redis.call('ZADD', keyed, 0, queued(entry, record)) end
  await(entry, record)
end

for i = 3, #ARGV do
  local entry = ARGV[i]
  local record = load(entry)
  if record and FROM[verb][record.s] then
    if verb == 'replay' then replay(entry, record) else finish(entry, record, 'dropped', 'dropped by a user', now) end
    keep(entry, record)
    changed = changed + 1
  end
end
if changed > 0 then
  tell(KEYS[19], uid)
  redis.call('HSET', asked, verb, whole(now))
end
return changed
