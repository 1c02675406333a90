-- Purpose: carries out an order on the deliveries of an EventJob, and tells which are claimed and what waits.
-- KEYS: 1 to 18 as `deliveries`, 19 to 24 the channel: accepted, unfinished, intake, parked, seen, counts; 25 the
--       intake that parked events are pushed to, if there is one
-- ARGV: 1 the order's id, or '' to look only, 2 most claims, 3 bytes of items to answer at most, 4 bytes of the largest
--       item to answer, 5 the EventJob's uid, 6 its namespace/name, 7 most parked events, 8 most ended events that are
--       kept and 9 for how long (µs), 10 Jobs per period (0: any number), 11 the period (µs), 12 the burst, 13 '1' if
--       the EventJob is being deleted, 14 '1' to do nothing while the channel has events that are to be routed first,
--       15 how many settlements, then six per settlement: claim, how, reason, attempt, delay (ms), Job; the rest:
--       claims whose items are not to be answered
-- Answer: {'1' if the order was carried out, milliseconds until a delivery may be claimed or '', arrival of the newest
--       event as its entry or '', then waiting, delayed, running, retrying, parked, done, filtered, duplicates, then
--       five per claim: id, attempt, size (0 of an item that is not to be answered), attributes or nil, data behind 't'
--       or 'b' or nil}
--         {'unrouted'} if it did nothing for ARGV 14
-- Replay: an order's settlements are carried out once, and its number of claims is a target. An order older than one
--       seen before comes from a holder that lost its lease, and is refused. What leaves the ledger in any way and
--       comes back is another claim, so that no settlement meets it.
-- While the EventJob is being deleted an order to claim nothing removes everything once no claim is left; the order's
-- id is kept for a while, for polls that are late.

-- include: channel
-- include: deliveries
-- include: dead_letter

local channel = { KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23], KEYS[24] }
local dead_letters = KEYS[25]
local order, limit, budget, largest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local uid, owner, settlements = ARGV[5], ARGV[6], tonumber(ARGV[15])
local FIRST, CLOSED, PIECE = 16, 3600, 16
local state = redis.call('HMGET', meta, 'order', 'closed', 'taken')
local known = tonumber(state[1] or 0)
local obeyed = order and order >= known
if state[2] then return { obeyed and '1' or '0', '', '', 0, 0, 0, 0, 0, 0, 0, 0 } end
local now = clock('')

-- The caller comes again once it has routed them: what is answered now would be read twice. With too many parked events
-- nothing is routed.
if ARGV[14] == '1' and number_of('parked') < tonumber(ARGV[7]) then
  if redis.call('XRANGE', channel[1], '(' .. (state[3] or '0-0'), '+', 'COUNT', 1)[1] then return { 'unrouted' } end
end

local function claim_of(entry, record)
  return record.t and entry .. '-' .. record.t or entry
end

local function note(record, job, outcome, reason)
  if job == '' then return end
  local history = record.h or {}
  history[#history + 1] = { job, whole(now), outcome, reason }
  if #history > ATTEMPTS then table.remove(history, 1) end
  record.h = history
end

local function settle(entry, record, how, reason, attempt, delay, job)
  record.t = (record.t or 0) + 1
  if how == 'retried' then
    note(record, job, 'failed', reason)
    record.a = attempt
    await_until(entry, record, 'retrying', now + delay * 1000)
  elseif how == 'returned' then
    note(record, job, 'returned', reason)
    await(entry, record)
  elseif how == 'parked' then
    note(record, job, 'failed', reason)
    finish(entry, record, 'parked', reason, now)
    if dead_letters then push_parked(dead_letters, uid, owner, entry, record) end
  else
    note(record, job, 'done', reason)
    finish(entry, record, 'done', '', now)
    redis.call('HINCRBY', meta, 'done', 1)
  end
  keep(entry, record)
end

-- The bucket as the instant at which it is full again; a Job takes one interval of it.
local interval, slack, full
if tonumber(ARGV[10]) > 0 then
  interval = tonumber(ARGV[11]) / tonumber(ARGV[10])
  slack = interval * (tonumber(ARGV[12]) - 1)
  full = tonumber(redis.call('HGET', meta, 'full') or 0)
  -- It was emptied under another rate: it is empty under this one.
  if full > now + slack + interval then
    full = now + slack + interval
    redis.call('HSET', meta, 'full', string.format('%.3f', full))
  end
end

local function take()
  local number, taken = number_of('running'), 0
  if number >= limit or number_of('parked') >= tonumber(ARGV[7]) then return end
  for _, entry in ipairs(redis.call('ZRANGE', ready, 0, math.min(limit - number, MANY) - 1)) do
    if full and full - slack > now then break end
    if full then full = math.max(full, now) + interval end
    local record = load(entry)
    redis.call('ZREM', ready, entry)
    move(entry, record, 'running')
    keep(entry, record)
    taken = taken + 1
  end
  if full and taken > 0 then redis.call('HSET', meta, 'full', string.format('%.3f', full)) end
end

local more = false
if obeyed then
  -- A server without memory refuses the first write of a script alone, unless it frees memory. What is carried out here
  -- frees some in the end: events are done, or the EventJob goes.
  redis.call('ZREM', due, '')
  for i = FIRST, order > known and FIRST + 6 * settlements - 1 or 0, 6 do
    local entry = string.match(ARGV[i], '^%d+%-%d+')
    local record = entry and load(entry)
    if record and record.s == 'running' and claim_of(entry, record) == ARGV[i] then
      settle(entry, record, ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), ARGV[i + 5])
    end
  end
  if order > known then redis.call('HSET', meta, 'order', ARGV[1]) end
  if ARGV[13] == '1' and limit == 0 and number_of('running') == 0 then
    leave(uid, channel)
    redis.call('UNLINK', unpack(KEYS, 1, 18))
    redis.call('HSET', meta, 'order', ARGV[1], 'closed', '1')
    redis.call('EXPIRE', meta, CLOSED)
    return { '1', '', '', 0, 0, 0, 0, 0, 0, 0, 0 }
  end
  more = wake(now)
  take()
  forget_ended(tonumber(ARGV[8]), now - tonumber(ARGV[9]))
  tell(channel[2], uid)
end

-- When a delivery may be claimed that may not now: its time comes, or the bucket has room.
local function again()
  if more then return 0 end
  local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
  local soonest = first and tonumber(first)
  if full and full - slack > now and redis.call('ZCARD', ready) > 0 then
    soonest = math.min(soonest or math.huge, full - slack)
  end
  return soonest and math.max(0, math.ceil((soonest - now) / 1000)) or ''
end

local bound = {}
for i = FIRST + 6 * settlements, #ARGV do
  bound[ARGV[i]] = true
end
local sums = redis.call('HMGET', meta, 'done', 'filtered', 'duplicates', 'last')
local answer = {
  obeyed and '1' or '0', again(), sums[4] or '', number_of('waiting'), number_of('delayed'), number_of('running'),
  number_of('retrying'), number_of('parked'), tonumber(sums[1] or 0), tonumber(sums[2] or 0), tonumber(sums[3] or 0)
}

-- The values of these fields, nothing for no fields.
local function values(hash, fields)
  return #fields > 0 and redis.call('HMGET', hash, unpack(fields)) or {}
end

-- Returns a number of a record as text, without decoding the record. Quotes within its texts are escaped.
local function number_in(text, name)
  return string.match(text, '"' .. name .. '":(%d+)')
end

-- A few at a time: one call for all of them is several times as fast as a call for each, and an item may have a
-- megabyte.
local running = redis.call('ZRANGE', STATES.running, 0, -1)
for first = 1, #running, PIECE do
  local texts = redis.call('HMGET', records, unpack(running, first, math.min(first + PIECE - 1, #running)))
  local identifiers, wanted = {}, {}
  for i, text in ipairs(texts) do
    local entry = running[first + i - 1]
    identifiers[i] = claim_of(entry, { t = number_in(text, 't') })
    if not bound[identifiers[i]] then wanted[#wanted + 1] = entry end
  end
  local events, contents, place = values(attributes, wanted), values(data, wanted), 0
  for i, id in ipairs(identifiers) do
    local size, event, content = 0, false, false
    if not bound[id] then
      place = place + 1
      size = #(events[place] or '') + #(contents[place] or '')
      if size <= largest and size <= budget then
        event, content, budget = events[place], contents[place], budget - size
      end
    end
    for _, value in ipairs({ id, number_in(texts[i], 'a') or '0', size, event, content }) do
      answer[#answer + 1] = value
    end
  end
end
return answer
