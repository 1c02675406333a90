-- Claims the first ready keys: each is leased to the caller, all under one fencing token.
--
-- KEYS  1      generation
--       2      this call's answer, kept for one lease
--       3..12  the lane
--       13     the format of the data
-- ARGV  1      clock override: '' or us (tests)
--       2      most keys to claim
--       3      lease (us)
--       4      '1' if the caller consumes a notification, which is then no longer under way; else '0'
--       5      the id to give a new generation
--       6, 7   the last generation and token that the caller has seen: a lower token in the lane, in the same
--              generation, reveals that data was lost
--       8      the format that the caller writes: data of a newer one is left alone
--       9      how many ready keys the lane's consumers want a notification for; '' leaves it at the default
-- Answer: {now (us), still ready, us until claims are allowed (0: they are), generation, token, key, failure, ...}
--         failure: '' or '<failures in a row> <reason of the last>'
--         or an error FORMAT with the format that was found
-- Replay: returns the keys that the first call claimed, as far as the caller still holds them.
-- include: clock
-- include: generation
-- include: fair_queueing

local generation = KEYS[1]
local call = KEYS[2]
local from = lane(KEYS, 2)
local now = clock(ARGV[1])
local most = tonumber(ARGV[2])
local lease = tonumber(ARGV[3])
local notified = ARGV[4] == '1'
local candidate = ARGV[5]

local format = redis.call('GET', KEYS[13]) or '0'
if not (tonumber(format) and tonumber(format) <= tonumber(ARGV[8])) then
  return redis.error_reply('FORMAT ' .. format)
end

local seen = redis.call('HMGET', from.meta, 'generation', 'token')
local lost = seen[1] == ARGV[6] and number(seen[2]) < tonumber(ARGV[7])
local id, opens = adopt(generation, from.meta, candidate, now, lease, lost)

local function answer(token, keys)
  local answered = { now, redis.call('ZCARD', from.ready), math.max(0, opens - now), id, token }
  local failures = read_many('HMGET', from.failures, keys)
  for i, key in ipairs(keys) do
    answered[#answered + 1] = key
    answered[#answered + 1] = failures[i] or ''
  end
  return answered
end

-- Token and deadline identify the claim's keys: keys that were claimed together share the deadline until they are
-- renewed, and a caller that repeats its claim has not seen the answer, so it has renewed none.
local function replayed(kept)
  local token, deadline = string.match(kept, '^(%d+) (%d+)$')
  local keys = redis.call('ZRANGEBYSCORE', from.leases, deadline, deadline)
  local held = {}
  for i, holder in ipairs(read_many('HMGET', from.leased, keys)) do
    if holder == token then
      held[#held + 1] = keys[i]
    end
  end
  return answer(tonumber(token), held)
end

local kept = redis.call('GET', call)
if kept then
  return replayed(kept)
end

local meta = redis.call('HMGET', from.meta, 'virtual', 'token', 'notifications')
if notified then
  redis.call('HSET', from.meta, 'notifications', math.max(0, number(meta[3]) - 1))
end
if now < opens then
  return answer(0, {})
end
-- A consumer is alive: sweep starts to wait for the next lost notification from here.
redis.call('HSET', from.meta, 'claimed', now, 'repairs', 0, 'spread', ARGV[9] or '')

local first = redis.call('ZPOPMIN', from.ready, most)
if #first == 0 then
  return answer(0, {})
end
-- Seeded with the time, so that tokens keep rising after a FLUSHALL has erased the last one.
local token = math.max(number(meta[2]) + 1, now)
local virtual = math.max(number(meta[1]), tonumber(first[#first]))
local deadline = now + lease
local keys, leased, leases = {}, {}, {}
for i = 1, #first, 2 do
  keys[#keys + 1] = first[i]
  leased[#leased + 1] = first[i]
  leased[#leased + 1] = token
  leases[#leases + 1] = deadline
  leases[#leases + 1] = first[i]
end
write_many('ZREM', from.since, keys)
write_many('HSET', from.leased, leased)
write_many('HSET', from.causes, leased)
write_many('ZADD', from.leases, leases)
redis.call('HSET', from.meta, 'virtual', virtual, 'token', token)
-- A namespace whose finish virtual time has passed is charged like a new one: its entry can go.
redis.call('ZREMRANGEBYSCORE', from.tenants, '-inf', virtual)
redis.call('SET', call, string.format('%.0f %.0f', token, deadline), 'PX', math.ceil(lease / 1000))
return answer(token, keys)
