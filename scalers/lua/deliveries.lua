-- Shared: the deliveries of one EventJob. Needs KEYS 1 to 18, those of scheduler.keys.DeliveryKeys.
--
-- A record is JSON: s state, o number of arrival, p place in the order where it is another one than o, t how often it
-- left the ledger (a claim's id is the entry's, and behind it this number), a attempt, r replays, k ordering key, d due
-- (µs), x reason, h ended attempts: Job, instant, outcome and reason of each.
-- A delivery is in exactly one of the sets of states, by its number of arrival. `due` has those that wait for their
-- time. `keyed` has the unfinished ones with an ordering key, by key and place: only the first of a key may run.
-- `ready` has those that may be claimed at once, by place.

local meta, records, attributes, data, ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local STATES = {
  waiting = KEYS[6], delayed = KEYS[7], running = KEYS[8], retrying = KEYS[9], parked = KEYS[10], done = KEYS[11],
  dropped = KEYS[12]
}
local due, ready, keyed, seen, ended = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
-- Deliveries that one script moves by itself; ended attempts that a record keeps, and entries of one event's id.
local MANY, ATTEMPTS, NAMESAKES = 1000, 50, 16

-- include: clock

local function whole(number)
  return string.format('%.0f', number)
end

local function load(entry)
  local text = redis.call('HGET', records, entry)
  return text and cjson.decode(text)
end

local function keep(entry, record)
  redis.call('HSET', records, entry, cjson.encode(record))
end

local function queue_of(key)
  return string.sub(redis.sha1hex(key), 1, 20)
end

-- The member of `keyed`: digest of the key, place with 16 digits, entry.
local function queued(entry, record)
  return queue_of(record.k) .. string.format('%016.0f', record.p or record.o) .. entry
end

local function head_of(key)
  local queue = queue_of(key)
  local found = redis.call('ZRANGEBYLEX', keyed, '[' .. queue, '(' .. queue .. ':', 'LIMIT', 0, 1)
  return found[1] and string.sub(found[1], 37)
end

local function move(entry, record, state)
  if record.s then redis.call('ZREM', STATES[record.s], entry) end
  record.s = state
  redis.call('ZADD', STATES[state], whole(record.o), entry)
end

-- Makes a delivery wait for room. Its key must be queued.
local function await(entry, record)
  move(entry, record, 'waiting')
  if not record.k or head_of(record.k) == entry then
    redis.call('ZADD', ready, whole(record.p or record.o), entry)
  end
end

local function await_until(entry, record, state, instant)
  move(entry, record, state)
  record.d = whole(instant)
  redis.call('ZADD', due, record.d, entry)
end

-- Ends a delivery's part in the order, so that the next one of its key may run.
local function unqueue(entry, record)
  redis.call('ZREM', due, entry)
  redis.call('ZREM', ready, entry)
  if not record.k then return end
  redis.call('ZREM', keyed, queued(entry, record))
  local next_entry = head_of(record.k)
  local following = next_entry and load(next_entry)
  if following and following.s == 'waiting' then
    redis.call('ZADD', ready, whole(following.p or following.o), next_entry)
  end
end

local function finish(entry, record, state, reason, now)
  unqueue(entry, record)
  move(entry, record, state)
  record.x = reason ~= '' and reason or nil
  if state ~= 'parked' then redis.call('ZADD', ended, whole(now), entry) end
end

-- Lets deliveries wait for room whose time has come. Returns whether more are due.
local function wake(now)
  local found = redis.call('ZRANGEBYSCORE', due, '-inf', whole(now), 'LIMIT', 0, MANY)
  for _, entry in ipairs(found) do
    redis.call('ZREM', due, entry)
    local record = load(entry)
    record.d = nil
    await(entry, record)
    keep(entry, record)
  end
  return #found == MANY
end

local function index_of(id)
  return string.sub(redis.sha1hex(id), 1, 16)
end

local function forget(entry)
  local record, text = load(entry), redis.call('HGET', attributes, entry)
  if text then
    local index, left = index_of(cjson.decode(text).id), {}
    for each in string.gmatch(redis.call('HGET', ids, index) or '', '%S+') do
      if each ~= entry then left[#left + 1] = each end
    end
    if #left > 0 then redis.call('HSET', ids, index, table.concat(left, ' ')) else redis.call('HDEL', ids, index) end
  end
  if record then redis.call('ZREM', STATES[record.s], entry) end
  redis.call('ZREM', ended, entry)
  redis.call('HDEL', records, entry)
  redis.call('HDEL', attributes, entry)
  redis.call('HDEL', data, entry)
end

-- Forgets ended deliveries: the oldest beyond the limit, and those that ended before an instant.
local function forget_ended(limit, before)
  local over = redis.call('ZCARD', ended) - limit
  local old = over > 0 and redis.call('ZRANGE', ended, 0, math.min(over, MANY) - 1) or {}
  for _, entry in ipairs(old) do forget(entry) end
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', ended, '-inf', whole(before), 'LIMIT', 0, MANY)) do
    forget(entry)
  end
end

local function number_of(state)
  return redis.call('ZCARD', STATES[state])
end

-- Tells the channel how many deliveries are not finished.
local function tell(unfinished, uid)
  local number = number_of('waiting') + number_of('delayed') + number_of('running') + number_of('retrying')
  if number ~= tonumber(redis.call('HGET', unfinished, uid) or -1) then
    redis.call('HSET', unfinished, uid, number)
  end
end
