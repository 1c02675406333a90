-- Marking keys of a lane, for every script that makes work: collect with mark(), then settle() once.
--
--   local news = lane(KEYS, offset)                   -- offset: how many KEYS come before the lane's first
--   mark(news, key, now_us, priority, forgive)        -- as often as you like; the same key twice costs nothing
--   local newly_ready, notifications = settle(news, slots)    -- decides and writes; the caller sends so many notifications
--
-- Fairness is start-time fair queueing over namespaces in the one ready set: a key's score is its virtual start, the
-- later of the lane's virtual time (the start of what was claimed last) and of its namespace's virtual finish, which
-- moves on by one per key. A priority is a head start of so many keys, bounded, and so nothing waits for ever.
-- include: batches

-- How many keys a lane has; the next lane's offset is that much further.
local LANE_KEYS = 10
-- Virtual time of one step of priority: that many keys of the own namespace are overtaken.
local HEAD_START = 1000
-- Priorities beyond this many steps count as this many.
local MOST_STEPS = 10
-- One more notification per so many ready keys: a notification claims many, and one that finds nothing costs as much as a full one.
local KEYS_PER_NOTIFICATION = 8

local function lane(keys, offset)
  return {
    ready = keys[offset + 1],
    since = keys[offset + 2],
    tenants = keys[offset + 3],
    later = keys[offset + 4],
    leased = keys[offset + 5],
    leases = keys[offset + 6],
    dirty = keys[offset + 7],
    booked = keys[offset + 8],
    failures = keys[offset + 9],
    meta = keys[offset + 10],
    now = 0,
    news = {},
    marks = {},
  }
end

-- Something about this key is new. priority: whole steps, higher is sooner. forgive: forget its failures, so that it
-- does not wait for its backoff (somebody changed the object).
local function mark(into, key, now_us, priority, forgive)
  into.now = now_us
  local known = into.marks[key]
  if not known then
    into.news[#into.news + 1] = key
    into.marks[key] = { priority = priority, forgive = forgive }
  else
    known.priority = math.max(known.priority, priority)
    known.forgive = known.forgive or forgive
  end
end

-- This key, which nobody holds, is to be ready now, whatever it waited for.
local function requeue(into, key, now_us)
  mark(into, key, now_us, 0, false)
  into.marks[key].due = true
end

local function tenant_of(key)
  return string.match(key, '^[^/]*/([^/]*)/') or ''
end

-- Virtual finishes of namespaces, read when first needed. Those that virtual time has passed are not stored.
local function finishes(into, virtual)
  return setmetatable({}, {
    __index = function(known, tenant)
      local finish = math.max(tonumber(redis.call('ZSCORE', into.tenants, tenant) or 0), virtual)
      rawset(known, tenant, finish)
      return finish
    end,
  })
end

local function head_start(priority)
  return math.max(-MOST_STEPS, math.min(MOST_STEPS, priority)) * HEAD_START
end

-- How many notifications to send so that enough are on their way for what is ready. None while claims are refused.
local function notifications_missing(into, slots, outstanding, opens)
  if into.now < opens then
    return 0
  end
  local wanted = math.min(math.ceil(redis.call('ZCARD', into.ready) / KEYS_PER_NOTIFICATION), slots)
  local missing = wanted - outstanding
  if missing <= 0 then
    return 0
  end
  redis.call('HSET', into.meta, 'notifications', outstanding + missing)
  return missing
end

-- Decides for every marked key, writes all of it, and answers how many keys became ready and how many notifications to send.
local function settle(into, slots)
  local meta = redis.call('HMGET', into.meta, 'virtual', 'notifications', 'opens')
  local keys = into.news
  local newly = 0
  if #keys > 0 then
    local leased = ask('HMGET', into.leased, keys)
    local scores = ask('ZMSCORE', into.ready, keys)
    local failures = ask('HMGET', into.failures, keys)
    local finish = finishes(into, tonumber(meta[1] or 0))
    local dirty, ready, since, forgiven, awaited, charged = {}, {}, {}, {}, {}, {}
    for i, key in ipairs(keys) do
      local mark = into.marks[key]
      if mark.forgive and failures[i] then
        forgiven[#forgiven + 1] = key
      end
      if leased[i] then
        dirty[#dirty + 1] = key
      elseif scores[i] then
        -- Waiting already: it is still one reconcile, but a higher priority may move it forward.
        local sooner = finish[tenant_of(key)] - head_start(mark.priority)
        if sooner < tonumber(scores[i]) then
          ready[#ready + 1] = sooner
          ready[#ready + 1] = key
        end
      elseif failures[i] and not mark.due and not mark.forgive and redis.call('ZSCORE', into.later, key) then
        -- In backoff: what is new is seen when the wait is over.
      else
        local tenant = tenant_of(key)
        local start = finish[tenant]
        finish[tenant] = start + 1
        charged[tenant] = true
        ready[#ready + 1] = start - head_start(mark.priority)
        ready[#ready + 1] = key
        since[#since + 1] = into.now
        since[#since + 1] = key
        newly = newly + 1
        if failures[i] and not mark.due then
          awaited[#awaited + 1] = key
        end
      end
    end
    local tenants = {}
    for tenant in pairs(charged) do
      tenants[#tenants + 1] = finish[tenant]
      tenants[#tenants + 1] = tenant
    end
    tell('SADD', into.dirty, dirty)
    tell('ZADD', into.ready, ready)
    tell('ZADD', into.since, since)
    tell('ZADD', into.tenants, tenants)
    tell('HDEL', into.failures, forgiven)
    tell('ZREM', into.later, awaited)
    into.news, into.marks = {}, {}
  end
  return newly, notifications_missing(into, slots, tonumber(meta[2] or 0), tonumber(meta[3] or 0))
end
