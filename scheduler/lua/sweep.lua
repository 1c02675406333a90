-- Makes due keys and those of expired leases ready, and replaces lost notifications.
--
-- An expired lease counts as a failure: its holder died, was stopped, or was killed by this very key. The time the
-- lease lasted counts as backoff, so that the key of a killed process is ready at once, and a key that kills its
-- holders again and again waits ever longer.
--
-- KEYS  1..10  the lane
-- ARGV  1      clock override: '' or us (tests)
--       2      most notifications under way
--       3      lease (us)
--       4, 5   backoff: base and cap (us)
--       6      most entries to move of each sort
--       7      patience: how long ready keys may go unclaimed before a notification counts as lost (us)
-- Answer: {moved, notifications to send, when the next entry is due or the next lease ends (us; 0: none), this moment
--         (us)}
-- Replay: what was moved is not there to be moved again.
-- include: clock
-- include: backoff
-- include: deadlines
-- include: fair_queueing
-- include: set_back

local of = lane(KEYS, 0)
local now = clock(ARGV[1])
local slots = tonumber(ARGV[2])
local lease = tonumber(ARGV[3])
local base, cap = tonumber(ARGV[4]), tonumber(ARGV[5])
local most = tonumber(ARGV[6])
local patience = tonumber(ARGV[7])
of.now = now

-- The patience doubles with each repeated notification: without workers notifications must not pile up.
local MOST_DOUBLINGS = 5

local function take(set)
  return redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, most)
end

-- Of more than one call can move, one half is the oldest and the other the newest: then no key waits behind a namespace
-- with a million that are due. At the same moment they stand by name, those of other namespaces before or after them.
local function take_from_both_ends(set)
  local oldest = take(set)
  local half = math.floor(most / 2)
  if #oldest < most or half == 0 then
    return oldest
  end
  local newest = redis.call('ZREVRANGEBYSCORE', set, now, '-inf', 'LIMIT', 0, half)
  for i = 1, half do
    oldest[most - half + i] = newest[i]
  end
  return oldest
end

local function expire(keys)
  -- With the moment: what the holder did until then must be known before the key is decided on (Lease.expired).
  local reason = string.format('the lease expired at %.0f: its holder died or stood still', now)
  local failures = read_many('HMGET', of.failures, keys)
  local failing, later = {}, {}
  for i, key in ipairs(keys) do
    local remembered, wait = failed(failures[i], reason, base, cap)
    failing[#failing + 1] = key
    failing[#failing + 1] = remembered
    if wait > lease then
      later[#later + 1] = now + wait - lease
      later[#later + 1] = key
    else
      requeue(of, key, now)
    end
  end
  write_many('HDEL', of.leased, keys)
  write_many('ZREM', of.leases, keys)
  write_many('SREM', of.dirty, keys)
  write_many('HDEL', of.causes, keys)
  write_many('HSET', of.failures, failing)
  write_many('ZADD', of.later, later)
end

-- Returns true if ready keys stayed unclaimed for longer than notifications under way explain.
local function notifications_lost()
  local oldest = redis.call('ZRANGE', of.since, 0, 0, 'WITHSCORES')
  if #oldest == 0 then
    return false
  end
  local meta = redis.call('HMGET', of.meta, 'claimed', 'repairs', 'repaired', 'opens')
  local repairs = math.min(number(meta[2]), MOST_DOUBLINGS)
  -- A clock that was set back does not say how long the oldest one waits.
  local since = tonumber(oldest[2]) <= now and tonumber(oldest[2]) or 0
  local quiet = now - math.max(since, number(meta[1]), number(meta[3]), number(meta[4]))
  if quiet < patience * 2 ^ repairs then
    return false
  end
  redis.call('HSET', of.meta, 'repaired', now, 'repairs', repairs + 1)
  return true
end

if was_set_back(of, now) then
  bring_back(of, now, lease, cap)
end
restore_deadlines(of, now + lease)
local expired = take(of.leases)
expire(expired)
-- After the expired ones: ZADD replaced the booking of a key that is in backoff now, so it is not due any more.
local due = take_from_both_ends(of.later)
write_many('ZREM', of.later, due)
for _, key in ipairs(due) do
  requeue(of, key, now)
end
local _, notifications = settle(of, slots)
if notifications == 0 and notifications_lost() then
  redis.call('HSET', of.meta, 'notifications', 1)
  notifications = 1
end
-- Of a lease that is renewed the end is always some seconds away: only that of a killed process is waited for.
local upcoming = math.huge
for _, set in ipairs({ of.later, of.leases }) do
  upcoming = math.min(upcoming, tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2] or math.huge))
end
return { #due + #expired, notifications, upcoming < math.huge and math.ceil(upcoming) or 0, now }
