-- Purpose: takes routed events over: each becomes a delivery, or is counted as filtered or duplicate.
-- KEYS: 1 to 18 as `deliveries`, 19 the accepted events (a stream), 20 the channel's unfinished deliveries (a hash), 21
--       the intake that parked events are pushed to, if there is one
-- ARGV: 1 the EventJob's uid, 2 its namespace/name, 3 the last entry taken over before, 4 now, 5 how many were
--       filtered, 6 milliseconds and 7 most events that are remembered by `dedup`, then nine per event: entry, 'take'
--       or 'park', attributes as JSON, data behind 't' (text) or 'b' (base64) or '', ordering key behind 'k' or '',
--       digest of `dedup` or '', due (µs) or '', reason, the event's id
-- Answer: 1 if they were taken over, 0 if an earlier call did that
-- Replay: nothing happens unless the last entry taken over before is the one given.

-- include: channel
-- include: deliveries
-- include: dead_letter

local accepted, unfinished, dead_letters = KEYS[19], KEYS[20], KEYS[21]
local uid, owner, group = ARGV[1], ARGV[2], GROUP .. ARGV[1]
local window, remembered = tonumber(ARGV[6]), tonumber(ARGV[7])
if cursors(accepted)[group] ~= ARGV[3] then return 0 end
local now = clock('')
local milliseconds = math.floor(now / 1000)

local function is_new(digest)
  if digest == '' or window == 0 then return true end
  return redis.call('ZADD', seen, 'NX', milliseconds, digest) == 1
end

local function index(entry, id)
  local name = index_of(id)
  local all = { entry }
  for each in string.gmatch(redis.call('HGET', ids, name) or '', '%S+') do
    if #all < NAMESAKES then all[#all + 1] = each end
  end
  redis.call('HSET', ids, name, table.concat(all, ' '))
end

-- An entry of a former channel may have the same id.
local function free(entry)
  local time, number = parts_of(entry)
  while redis.call('HEXISTS', records, entry) == 1 do
    number = number + 1
    entry = whole(time) .. '-' .. whole(number)
  end
  return entry
end

local function deliver(entry, how, key, instant, reason)
  local record = { o = redis.call('HINCRBY', meta, 'arrivals', 1), k = key ~= '' and string.sub(key, 2) or nil }
  if how == 'park' then
    record.k = nil
    finish(entry, record, 'parked', reason, now)
    if dead_letters then push_parked(dead_letters, uid, owner, entry, record) end
  else
    if record.k then redis.call('ZADD', keyed, 0, queued(entry, record)) end
    if instant > now then await_until(entry, record, 'delayed', instant) else await(entry, record) end
  end
  keep(entry, record)
end

redis.call('ZREMRANGEBYSCORE', seen, '-inf', milliseconds - window)
local duplicates = 0
for i = 8, #ARGV, 9 do
  local entry, content = free(ARGV[i]), ARGV[i + 3]
  if ARGV[i + 1] == 'take' and not is_new(ARGV[i + 5]) then
    duplicates = duplicates + 1
  else
    redis.call('HSET', attributes, entry, ARGV[i + 2])
    if content ~= '' then redis.call('HSET', data, entry, content) end
    index(entry, ARGV[i + 8])
    deliver(entry, ARGV[i + 1], ARGV[i + 4], tonumber(ARGV[i + 6]) or 0, ARGV[i + 7])
  end
end
redis.call('ZREMRANGEBYRANK', seen, 0, -remembered - 1)
redis.call('PEXPIRE', seen, math.max(window, 1))
if tonumber(ARGV[5]) > 0 then redis.call('HINCRBY', meta, 'filtered', ARGV[5]) end
if duplicates > 0 then redis.call('HINCRBY', meta, 'duplicates', duplicates) end
redis.call('HSET', meta, 'last', ARGV[4], 'taken', ARGV[4])
redis.call('XGROUP', 'SETID', accepted, group, ARGV[4])
trim(accepted)
tell(unfinished, uid)
return 1
