-- Purpose: adds events that are valid already to a channel: those that are new are accepted at once, each request's all
--          or none of them, and the objects that take them are marked for a poll.
-- KEYS: 1 the intake, 2 the accepted events (streams), 3 what was seen (a sorted set of digests by time), 4 the counts
--       (a hash), 5 the unfinished deliveries of each EventJob (a hash), 6 signed events that were accepted (a sorted
--       set by when they may be forgotten); then the poll lane, on our own broker alone
-- ARGV: 1 the group, '' for a channel of EventJobs, 2 most events that may be not done, 3 milliseconds and 4 most
--       events that are remembered as seen, 5 most notifications under way, 6 how many objects are marked, then their
--       keys, how many requests there are, and of each its signature and for how many milliseconds that is remembered
--       ('' and 0 without one), the number of its events, and of each event its digest, the number of its texts, and
--       its names and values
-- Answer: {events that are not done, accepted since the beginning, notifications to send, then for each request an
--         array of its events' entries, '' for an event that was seen before, or -1 if there was no room for it, or
--         how many of its events are new if there never is room for so many}
-- Replay: what the first run accepted is a duplicate in the second; without remembering (3, 4) and without a signature
--         it is accepted twice.

-- include: events
-- include: channel
-- include: clock
-- include: fair_queueing

local intake, accepted, seen, counts, signed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6]
local group, room_for, window, remembered = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local micros = clock('')
local now = math.floor(micros / 1000)
local remembers = window > 0 and remembered > 0

local function not_done()
  if group ~= '' then
    local waiting, held = backlog(accepted, group)
    return waiting + held
  end
  local waiting, unfinished = undone(accepted, KEYS[5])
  return waiting + unfinished
end

-- The member that stands for an event of a signed request; false without a signature.
local function proof_of(events, event)
  return events.signature ~= '' and events.signature .. event.digest
end

local function seen_before(events, event)
  local proof = proof_of(events, event)
  if proof and redis.call('ZSCORE', signed, proof) then return true end
  return remembers and redis.call('ZSCORE', seen, event.digest) ~= false
end

-- The place after a request that begins there, and its events: of each its digest and the places of its texts.
local function request_at(place)
  local events = {signature = ARGV[place], milliseconds = tonumber(ARGV[place + 1])}
  local number_of = tonumber(ARGV[place + 2])
  if events.signature ~= '' then redis.call('ZREMRANGEBYSCORE', signed, '-inf', now) end
  place = place + 3
  for i = 1, number_of do
    local last = place + 1 + tonumber(ARGV[place + 1])
    events[i] = {digest = ARGV[place], first = place + 2, last = last}
    place = last + 1
  end
  return place, events
end

local function new_ones(events)
  local new, within = 0, {}
  for _, event in ipairs(events) do
    local again = within[event.digest] and (remembers or events.signature ~= '')
    if not again and not seen_before(events, event) then new = new + 1 end
    within[event.digest] = true
  end
  return new
end

-- Notes that an event is accepted; false if it was before. A channel may forget events sooner than their signatures are
-- valid: those are remembered by themselves.
local function note(events, event)
  local proof = proof_of(events, event)
  if proof then
    if redis.call('ZADD', signed, 'NX', now + events.milliseconds, proof) == 0 then return false end
    if redis.call('PTTL', signed) < events.milliseconds then redis.call('PEXPIRE', signed, events.milliseconds) end
  end
  return not remembers or redis.call('ZADD', seen, 'NX', now, event.digest) == 1
end

-- A server without memory refuses the first write of a script alone, and not one that frees memory.
redis.call('HINCRBY', counts, 'accepted', 0)
if remembers then redis.call('ZREMRANGEBYSCORE', seen, '-inf', now - window) end
local waiting = not_done() + redis.call('XLEN', intake)
local marked = tonumber(ARGV[6])
local place = 7 + marked
local answer = {0, 0, 0}
local did = {accepted = 0, duplicates = 0}
local requests = tonumber(ARGV[place])
place = place + 1
for _ = 1, requests do
  local events
  place, events = request_at(place)
  local new = waiting + #events > room_for and new_ones(events) or 0
  if new > room_for then
    answer[#answer + 1] = new
  elseif waiting + new > room_for and new > 0 then
    answer[#answer + 1] = -1
  else
    local entries = {}
    for i, event in ipairs(events) do
      if note(events, event) then
        entries[i] = redis.call('XADD', accepted, '*', unpack(ARGV, event.first, event.last))
        did.accepted = did.accepted + 1
        waiting = waiting + 1
      else
        entries[i] = ''
        did.duplicates = did.duplicates + 1
      end
    end
    answer[#answer + 1] = entries
  end
end
if remembers and did.accepted > 0 then
  redis.call('ZREMRANGEBYRANK', seen, 0, -remembered - 1)
  redis.call('PEXPIRE', seen, window)
end
for name, times in pairs(did) do
  if times > 0 then redis.call('HINCRBY', counts, name, times) end
end
answer[1], answer[2] = waiting, number(redis.call('HGET', counts, 'accepted'))
if marked > 0 and did.accepted > 0 then
  local poll = lane(KEYS, 6)
  for i = 1, marked do
    mark(poll, ARGV[6 + i], micros, 0, false)
  end
  local _, notifications = settle(poll, tonumber(ARGV[5]))
  answer[3] = notifications
end
return answer
