-- Purpose: carries out an order on the ledger of a list, and tells what is claimed then.
-- KEYS: 1 the list, 2 the ledger (a hash), 3 the stream of parked items
-- ARGV: 1 the order's id, or '' to look only, 2 most claims, 3 '1' to take from the tail, 4 bytes of items to answer at
--       most, 5 bytes of the largest item to answer, 6 the owner's name, 7 how many settlements, then four per
--       settlement: claim, how, reason, attempt; the rest: claims whose items are not to be answered
-- Answer: {items waiting, '1' if the order was carried out, items parked, then four per claim: id, attempt, size, item
--         or nil}
-- Replay: an order's settlements are carried out once, and its number of claims is a target. An order older than one
-- seen before comes from a holder that lost its lease, and is refused.
--
-- The ledger's fields: `order` the newest order's id, `last` the last id given, `i:<id>` an item, `a:<id>` its
-- attempts.

-- include: clock

local list, ledger, parked = KEYS[1], KEYS[2], KEYS[3]
local order, limit, tail = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local budget, largest, owner = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
-- An order lives as long as this (seconds) at the utmost; an empty ledger remembers that it is closed for longer.
local CLOSED = 86400

-- A key of another type ends the script here, before anything is written.
redis.call('XLEN', parked)
local waiting = redis.call('LLEN', list)

local ids, held = {}, {}
for _, field in ipairs(redis.call('HKEYS', ledger)) do
  local id = string.match(field, '^i:(.+)$')
  if id then
    ids[#ids + 1] = id
    held[id] = true
  end
end

local function forget(id)
  redis.call('HDEL', ledger, 'i:' .. id, 'a:' .. id)
  held[id] = nil
end

local function settle(id, how, reason, attempt)
  local item = redis.call('HGET', ledger, 'i:' .. id)
  if how == 'retried' then
    redis.call('HSET', ledger, 'a:' .. id, attempt)
    return
  elseif how == 'returned' then
    redis.call(tail and 'RPUSH' or 'LPUSH', list, item)
  elseif how == 'parked' then
    redis.call('XADD', parked, '*', 'claim', id, 'owner', owner, 'reason', reason, 'item', item)
  end
  forget(id)
end

local function take()
  local number = 0
  for _ in pairs(held) do
    number = number + 1
  end
  local now = clock('')
  -- Seeded with the time: a ledger that was lost gives none of its ids again.
  local last = math.max(tonumber(redis.call('HGET', ledger, 'last') or 0), now)
  while number < limit do
    local item = redis.call(tail and 'RPOP' or 'LPOP', list)
    if not item then
      break
    end
    last = last + 1
    number = number + 1
    local id = string.format('%.0f', last)
    redis.call('HSET', ledger, 'i:' .. id, item, 'last', id)
    ids[#ids + 1] = id
    held[id] = true
  end
end

local settlements = tonumber(ARGV[7])
local known = tonumber(redis.call('HGET', ledger, 'order') or 0)
local obeyed = order and order >= known
if obeyed then
  -- A server without memory refuses the first write of a script alone, unless it frees memory. What is carried out here
  -- frees some in the end: items are done.
  redis.call('HDEL', ledger, '')
  for i = 8, order > known and 7 + 4 * settlements or 0, 4 do
    if held[ARGV[i]] then
      settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
    end
  end
  -- After the settlements: what an error left of them is carried out when the order comes again.
  redis.call('HSET', ledger, 'order', ARGV[1])
  take()
  if limit == 0 and not next(held) then
    redis.call('EXPIRE', ledger, CLOSED)
  else
    redis.call('PERSIST', ledger)
  end
  waiting = redis.call('LLEN', list)
end

local bound = {}
for i = 8 + 4 * settlements, #ARGV do
  bound[ARGV[i]] = true
end
table.sort(ids, function(one, other)
  return tonumber(one) < tonumber(other)
end)
local answer = { waiting, obeyed and '1' or '0', redis.call('XLEN', parked) }
for _, id in ipairs(ids) do
  if held[id] then
    local size = redis.call('HSTRLEN', ledger, 'i:' .. id)
    local item = false
    if not bound[id] and size <= largest and size <= budget then
      item = redis.call('HGET', ledger, 'i:' .. id)
      budget = budget - size
    end
    answer[#answer + 1] = id
    answer[#answer + 1] = redis.call('HGET', ledger, 'a:' .. id) or '0'
    answer[#answer + 1] = size
    answer[#answer + 1] = item
  end
end
return answer
