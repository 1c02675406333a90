-- Marks keys of a lane, in the transaction of the calling script: collect with mark(), then settle() once.
--
--   local news = lane(KEYS, offset)                   -- offset: how many KEYS come before the lane's first
--   mark(news, key, now_us, priority, forgive, cause) -- any number of times; marks of one key coalesce
--   withdraw(news, key, cause)                        -- also any number of times
--   local newly_ready, notifications = settle(news, slots)    -- writes; the caller sends the notifications
--
-- Fairness is start-time fair queueing over namespaces in one ready set: a key's score is its virtual start, the later
-- of the lane's virtual time (the start of the last claimed key) and its namespace's virtual finish, which rises by one
-- per key. A priority is a head start of so many keys; it is bounded, and so every key's wait is.
-- include: batches
-- include: causes

-- How many keys a lane has; the next lane's offset is that much further.
local LANE_KEYS = 10
-- Virtual time of one step of priority: the number of keys of its own namespace that a key overtakes.
local HEAD_START = 1000
-- Priorities beyond this many steps count as this many.
local MOST_STEPS = 10
-- Ready keys per notification, unless the lane's consumers want another number (claim.lua): one claim takes many keys,
-- and a notification that finds none costs a message, too.
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
    failures = keys[offset + 8],
    meta = keys[offset + 9],
    causes = keys[offset + 10],
    now = 0,
    news = {},
    marks = {},
    changing = {},
    changes = {},
  }
end

-- Marks a key. priority: whole steps, higher is sooner. forgive: drops failures and backoff, because a user changed the
-- object and the next attempt may succeed. A change ends no wait for what may still take effect, and a lease that
-- expired stays the reason until a decision has been made: what its holder did must be known before. cause: names the
-- change, if the key's holder may have made it (causes.lua); else nil.
local function mark(into, key, now_us, priority, forgive, cause)
  into.now = now_us
  local known = into.marks[key]
  if not known then
    into.news[#into.news + 1] = key
    into.marks[key] = { priority = priority, forgive = forgive, causes = cause and { cause } }
  else
    known.priority = math.max(known.priority, priority)
    known.forgive = known.forgive or forgive
    if cause and known.causes then
      table.insert(known.causes, cause)
    else
      known.causes = nil
    end
  end
end

-- Returns what changes in the causes of a key (causes.lua).
local function change_of(into, key)
  if not into.changes[key] then
    into.changes[key] = { added = {}, withdrawn = {} }
    table.insert(into.changing, key)
  end
  return into.changes[key]
end

-- Withdraws a cause: the key's holder has made the change, and has stored it now.
local function withdraw(into, key, cause)
  change_of(into, key).withdrawn[cause] = true
end

-- Returns what a forgiven key keeps of its failures, nil for nothing, and whether its wait goes on.
local function unforgiven(failure)
  local reason = string.match(failure, '^%d+ (.*)$') or ''
  if string.find(reason, 'it may have taken effect: ', 1, true) == 1 then
    return failure, true
  end
  return string.find(reason, 'the lease expired at ', 1, true) == 1 and '1 ' .. reason or nil, false
end

-- Makes a key that is not leased ready, even one in backoff: its wait is over.
local function requeue(into, key, now_us)
  mark(into, key, now_us, 0, false)
  into.marks[key].due = true
end

local function tenant_of(key)
  return string.match(key, '^[^/]*/([^/]*)/') or ''
end

-- Returns a table of the namespaces' virtual finishes, read on first use. Passed ones are not stored (claim.lua).
local function finishes(into, virtual)
  return setmetatable({}, {
    __index = function(known, tenant)
      local finish = math.max(number(redis.call('ZSCORE', into.tenants, tenant)), virtual)
      rawset(known, tenant, finish)
      return finish
    end,
  })
end

local function head_start(priority)
  return math.max(-MOST_STEPS, math.min(MOST_STEPS, priority)) * HEAD_START
end

-- Returns the number of notifications to send for the ready keys; 0 while claims are refused, for they would be wasted.
-- repairs: how often one was repeated since a consumer claimed last (sweep.lua).
local function notifications_missing(into, slots, outstanding, opens, spread, repairs)
  if into.now < opens then
    return 0
  end
  local each = spread >= 1 and spread or KEYS_PER_NOTIFICATION
  -- Until one of them is heard, more would pile up.
  local most = repairs > 0 and 1 or slots
  local wanted = math.min(math.ceil(redis.call('ZCARD', into.ready) / each), most)
  local missing = wanted - outstanding
  if missing <= 0 then
    return 0
  end
  redis.call('HSET', into.meta, 'notifications', outstanding + missing)
  return missing
end

-- Writes all marks. Returns the number of keys that became ready and of notifications to send.
local function settle(into, slots)
  local meta = redis.call('HMGET', into.meta, 'virtual', 'notifications', 'opens', 'spread', 'repairs')
  local keys = into.news
  local newly = 0
  local dirty = {}
  if #keys > 0 then
    local leased = read_many('HMGET', into.leased, keys)
    local scores = read_many('ZMSCORE', into.ready, keys)
    local failures = read_many('HMGET', into.failures, keys)
    local finish = finishes(into, number(meta[1]))
    local ready, since, forgiven, kept, awaited, charged = {}, {}, {}, {}, {}, {}
    for i, key in ipairs(keys) do
      local mark = into.marks[key]
      local forgive = mark.forgive
      if forgive and failures[i] then
        local failure, waits = unforgiven(failures[i])
        forgive = not waits
        if not failure then
          forgiven[#forgiven + 1] = key
        elseif not waits then
          kept[#kept + 1] = key
          kept[#kept + 1] = failure
        end
      end
      if leased[i] and mark.causes then
        change_of(into, key).added = mark.causes
      elseif leased[i] then
        dirty[#dirty + 1] = key
      elseif scores[i] then
        -- Ready already: marks coalesce, but a higher priority may move the key forward.
        local sooner = finish[tenant_of(key)] - head_start(mark.priority)
        if sooner < tonumber(scores[i]) then
          ready[#ready + 1] = sooner
          ready[#ready + 1] = key
        end
      elseif failures[i] and not mark.due and not forgive and redis.call('ZSCORE', into.later, key) then
        -- In backoff: the attempt after the wait sees all changes.
      else
        local tenant = tenant_of(key)
        local start = finish[tenant]
        finish[tenant] = start + 1
        charged[tenant] = finish[tenant]
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
    for tenant, charge in pairs(charged) do
      tenants[#tenants + 1] = charge
      tenants[#tenants + 1] = tenant
    end
    write_many('ZADD', into.ready, ready)
    write_many('ZADD', into.since, since)
    write_many('ZADD', into.tenants, tenants)
    write_many('HDEL', into.failures, forgiven)
    write_many('HSET', into.failures, kept)
    write_many('ZREM', into.later, awaited)
    into.news, into.marks = {}, {}
  end
  for _, key in ipairs(change_causes(into, into.changing, into.changes)) do
    dirty[#dirty + 1] = key
  end
  write_many('SADD', into.dirty, dirty)
  into.changing, into.changes = {}, {}
  return newly, notifications_missing(into, slots, number(meta[2]), number(meta[3]), number(meta[4]), number(meta[5]))
end
