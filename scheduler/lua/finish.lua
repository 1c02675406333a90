-- Settles leases with their outcomes. A lease whose token is not the current one is stale and changes nothing.
--
-- KEYS  1      this call's answer, kept for one lease
--       2..11  the lane
-- ARGV  1      clock override: '' or us (tests)
--       2      most notifications under way
--       3      lease (us)
--       4, 5   backoff: base and cap (us)
--       6..10  numbers of leases that are done, requeue, requeue at, failed and postponed; they follow in that order:
--         done        key, token
--         requeue     key, token
--         requeue at  key, token, due moment (us)
--         failed      key, token, part of the backoff to wait (0..1), shortest and longest wait (us), reason
--         postponed   key, token, wait (us): the key was not worked on; its failures stay as they are
-- Answer: {notifications to send, the stale ones, as their places in the order above, from 0, ...}
-- Replay: returns the kept answer: after the first call the tokens are gone, and all leases would look stale.
-- include: clock
-- include: backoff
-- include: fair_queueing

local call = KEYS[1]
local of = lane(KEYS, 1)
local now = clock(ARGV[1])
local slots = tonumber(ARGV[2])
local lease = tonumber(ARGV[3])
local base, cap = tonumber(ARGV[4]), tonumber(ARGV[5])
of.now = now

local kept = redis.call('GET', call)
if kept then
  local answer = {}
  for number in string.gmatch(kept, '%d+') do
    answer[#answer + 1] = tonumber(number)
  end
  return answer
end

-- The position of each lease in ARGV, and the last lease of each kind.
local keys, places, ends = {}, {}, {}
local place = 11
for kind, stride in ipairs({ 2, 2, 3, 6, 3 }) do
  for _ = 1, tonumber(ARGV[5 + kind]) do
    keys[#keys + 1] = ARGV[place]
    places[#places + 1] = place
    place = place + stride
  end
  ends[kind] = #keys
end

local holders = read_many('HMGET', of.leased, keys)
local dirty = read_many('SMISMEMBER', of.dirty, keys)
local causes = read_many('HMGET', of.causes, keys)

local released, clean, forgiven, unbooked, later, failing = {}, {}, {}, {}, {}, {}
local answer = { 0 }

local function book(key, moment)
  later[#later + 1] = moment
  later[#later + 1] = key
end

local function back_off(key, at)
  local known = redis.call('HGET', of.failures, key)
  local remembered, wait = failed(known, ARGV[at + 5], base, math.min(cap, tonumber(ARGV[at + 4])))
  failing[#failing + 1] = key
  failing[#failing + 1] = remembered
  book(key, now + math.max(wait * tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])))
end

for i, key in ipairs(keys) do
  local at = places[i]
  if holders[i] ~= ARGV[at + 1] then
    answer[#answer + 1] = i - 1
  else
    released[#released + 1] = key
    if dirty[i] == 1 then
      clean[#clean + 1] = key
    end
    -- Failed and postponed keys wait even if dirty: that bounds the attempts, and a later decision sees all changes.
    if i > ends[4] then
      book(key, now + tonumber(ARGV[at + 2]))
    elseif i > ends[3] then
      back_off(key, at)
    else
      forgiven[#forgiven + 1] = key
      if i <= ends[1] then
        unbooked[#unbooked + 1] = key
      elseif i > ends[2] then
        book(key, ARGV[at + 2])
      end
      if dirty[i] == 1 or caused(causes[i], holders[i]) or (i > ends[1] and i <= ends[2]) then
        requeue(of, key, now)
      end
    end
  end
end

write_many('HDEL', of.leased, released)
write_many('ZREM', of.leases, released)
write_many('SREM', of.dirty, clean)
write_many('HDEL', of.causes, released)
write_many('HDEL', of.failures, forgiven)
write_many('HSET', of.failures, failing)
write_many('ZREM', of.later, unbooked)
write_many('ZADD', of.later, later)
local _, notifications = settle(of, slots)
answer[1] = notifications
redis.call('SET', call, table.concat(answer, ' '), 'PX', math.ceil(lease / 1000))
return answer
