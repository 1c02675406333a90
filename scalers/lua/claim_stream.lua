-- Purpose: carries out an order on a group's pending entries of a stream, which are the ledger, and tells what is
--          claimed.
-- KEYS: 1 the stream, 2 what else is known of the claims (a hash), 3 the stream of parked items
-- ARGV: as of claim_list, with the group and the consumer (the ledger's owner) before the settlements:
--       1 the order's id, or '' to look only, 2 most claims, 3 not used, 4 bytes of items to answer at most, 5 bytes of
--       the largest item to answer, 6 the owner's name, 7 group, 8 consumer, 9 how many settlements, then four per
--       settlement: claim, how, reason, attempt; the rest: claims whose items are not to be answered
-- Answer: {entries waiting, '1' if the order was carried out, items parked, then four per claim: id, attempt, size or
--       -1 if the entry is gone, its fields and values or nil}
-- Replay: an order's settlements are carried out once, and its number of claims is a target. An order older than one
-- seen before comes from a holder that lost its lease, and is refused.
--
-- What is returned stays pending under a consumer of its own, and is taken before what is new. It is another claim
-- then: a claim's id is the entry's, and behind it how often the entry was returned.
-- The hash's fields: `order` the newest order's id, `a:<entry>` its attempts, `r:<entry>` how often it was returned.
local stream, ledger, parked = KEYS[1], KEYS[2], KEYS[3]
local order, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local budget, largest, owner = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local group, consumer, settlements = ARGV[7], ARGV[8], tonumber(ARGV[9])
local RETURNED = 'penstock:returned'
local CLOSED = 86400
-- Names and values that are parked as fields of their own: Lua passes a command some 8,000 arguments at most.
local FIELDS = 2000
-- More claims than any object may have; and as far as what waits is counted where the server does not count itself.
local MANY = 100000

-- A key of another type ends the script here, before anything is written.
redis.call('XLEN', parked)
local length = redis.call('XLEN', stream)
local known = tonumber(redis.call('HGET', ledger, 'order') or 0)
local obeyed = order and order >= known
if obeyed then
  -- A server without memory refuses the first write of a script alone, unless it frees memory. What is carried out here
  -- frees some in the end: items are done.
  redis.call('HDEL', ledger, '')
end
if obeyed and length > 0 then
  redis.pcall('XGROUP', 'CREATE', stream, group, '0')
end

local function pending(of, most)
  local found = redis.pcall('XPENDING', stream, group, '-', '+', most, of)
  local ids = {}
  if found.err then
    return ids
  end
  for _, entry in ipairs(found) do
    ids[#ids + 1] = entry[1]
  end
  return ids
end

local function fields_of(id)
  local found = redis.call('XRANGE', stream, id, id)
  return found[1] and found[1][2]
end

local function claim_of(entry)
  local returned = redis.call('HGET', ledger, 'r:' .. entry)
  return returned and entry .. '-' .. returned or entry
end

local function park(id, reason)
  local entry = { 'claim', claim_of(id), 'owner', owner, 'reason', reason }
  local fields = fields_of(id) or {}
  if #fields > FIELDS then
    fields = { 'item', cmsgpack.pack(fields) }
  else
    for i = 1, #fields, 2 do
      fields[i] = 'item.' .. fields[i]
    end
  end
  for _, text in ipairs(fields) do
    entry[#entry + 1] = text
  end
  redis.call('XADD', parked, '*', unpack(entry))
end

local function settle(id, how, reason, attempt)
  if how == 'retried' then
    redis.call('HSET', ledger, 'a:' .. id, attempt)
    return
  end
  redis.call('HDEL', ledger, 'a:' .. id)
  if how == 'returned' and fields_of(id) then
    redis.call('XCLAIM', stream, group, RETURNED, 0, id, 'JUSTID')
    redis.call('HINCRBY', ledger, 'r:' .. id, 1)
    return
  elseif how == 'parked' then
    park(id, reason)
  end
  redis.call('XACK', stream, group, id)
  redis.call('HDEL', ledger, 'r:' .. id)
end

local function take(number)
  for _, id in ipairs(pending(RETURNED, math.max(limit - number, 1))) do
    if number < limit then
      redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID')
      number = number + 1
    end
  end
  if number < limit and length > 0 then
    redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', limit - number, 'STREAMS', stream, '>')
  end
end

if obeyed then
  local held = {}
  for _, entry in ipairs(pending(consumer, MANY)) do
    held[claim_of(entry)] = entry
  end
  for i = 10, order > known and 9 + 4 * settlements or 0, 4 do
    if held[ARGV[i]] then
      settle(held[ARGV[i]], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    end
  end
  -- After the settlements: what an error left of them is carried out when the order comes again.
  redis.call('HSET', ledger, 'order', ARGV[1])
  take(#pending(consumer, MANY))
  if limit == 0 and #pending(consumer, 1) == 0 then
    redis.call('EXPIRE', ledger, CLOSED)
  else
    redis.call('PERSIST', ledger)
  end
end

-- What the group was not given yet, and what was returned.
local function waiting()
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, each in ipairs(groups.err and {} or groups) do
    local known = {}
    for i = 1, #each, 2 do
      known[each[i]] = each[i + 1]
    end
    if known.name == group then
      local after = '(' .. known['last-delivered-id']
      local new = known.lag or #redis.call('XRANGE', stream, after, '+', 'COUNT', MANY)
      return new + #pending(RETURNED, MANY)
    end
  end
  return length
end

local bound = {}
for i = 10 + 4 * settlements, #ARGV do
  bound[ARGV[i]] = true
end
local answer = { waiting(), obeyed and '1' or '0', redis.call('XLEN', parked) }
for _, entry in ipairs(pending(consumer, MANY)) do
  local id, fields, size = claim_of(entry), fields_of(entry), -1
  if fields then
    size = 0
    for _, text in ipairs(fields) do
      size = size + #text
    end
  end
  local item = false
  if fields and not bound[id] and size <= largest and size <= budget then
    item = fields
    budget = budget - size
  end
  answer[#answer + 1] = id
  answer[#answer + 1] = redis.call('HGET', ledger, 'a:' .. entry) or '0'
  answer[#answer + 1] = size
  answer[#answer + 1] = item
end
return answer
