-- Reserves Jobs for one object in all of its limits: as many as every limit allows, never more in total than a limit,
-- and no more than a fair share where objects compete.
-- KEYS: the generation, then one ledger per limit: HASH object's key -> '<uid> <reserved> <wanted> <us>'; the field '#' is the generation in
--       which the ledger was filled from the store (recount.lua): one of another generation must be filled again
-- ARGV: 1 clock override (us) or '', 2 the object's key, 3 its uid, 4 its Jobs now, 5 Jobs wanted, 6 Jobs whose grant
--       is never taken back, 7 '1' to give back nothing, else '0', 8 seconds that an unused ledger is kept, 9 seconds
--       for which what others wanted counts, then per ledger its limit
-- Answer: {'unknown', position of a ledger that must be filled first (from 0)} or {'granted', Jobs it may have, keys of
--       objects that wait for what was given back}
-- Replay: reserving again changes nothing.
-- include: clock
-- include: generation

local now = clock(ARGV[1])
local me, uid, alive, wanted = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local held, keep = tonumber(ARGV[6]), ARGV[7] == '1'
local seconds, believed = tonumber(ARGV[8]), tonumber(ARGV[9]) * 1000000

local function parse(value)
  local of, reserved, wants, us = string.match(value, '^(%S*) (%d+) (%d+) (%d+)$')
  return of and { uid = of, reserved = tonumber(reserved), wanted = tonumber(wants), us = tonumber(us) }
end

-- Max-min fairness: returns the share to which all wishes can be granted, and how many above it may have one more.
local function level(wishes, limit)
  table.sort(wishes)
  local left, count = limit, #wishes
  for _, wish in ipairs(wishes) do
    local share = math.floor(left / count)
    if wish > share then
      return share, left - share * count
    end
    left = left - wish
    count = count - 1
  end
  return nil, 0
end

local grants, waiting, before = {}, {}, 0
local generation = generation_of(KEYS[1]) or ''
local ledgers = { unpack(KEYS, 2) }
for i, key in ipairs(ledgers) do
  local limit = tonumber(ARGV[9 + i])
  local all = redis.call('HGETALL', key)
  local seeded, others, above, wishes, mine = false, 0, 0, { wanted }, nil
  local known = {}
  for f = 1, #all, 2 do
    if all[f] == '#' then
      seeded = all[f + 1] == generation
    elseif not parse(all[f + 1]) then
      -- recount.lua drops what cannot be read.
      return { 'unknown', i - 1 }
    elseif all[f] == me then
      mine = parse(all[f + 1])
    else
      local entry = parse(all[f + 1])
      others = others + entry.reserved
      local wish = now - entry.us < believed and math.max(entry.wanted, entry.reserved) or entry.reserved
      wishes[#wishes + 1] = wish
      known[#known + 1] = entry
      if wish > entry.reserved then
        waiting[#waiting + 1] = all[f]
      end
    end
  end
  if not seeded then
    return { 'unknown', i - 1 }
  end
  local share, extra = level(wishes, limit)
  if share then
    for _, entry in ipairs(known) do
      if entry.reserved > share then
        above = above + 1
      end
    end
    share = above < extra and share + 1 or share
  end
  local reserved = mine and mine.uid == uid and mine.reserved or 0
  before = math.max(before, reserved)
  -- A grant for claimed items or existing Jobs stays, even beyond a fair share: they cannot be given back.
  share = math.max(share or wanted, math.min(held, reserved))
  grants[i] = math.max(alive, math.min(wanted, share, limit - others))
end
local granted = math.max(alive, math.min(unpack(grants)))
local reserved = keep and math.max(granted, before) or granted
for i, key in ipairs(ledgers) do
  -- Jobs that another limit refuses are not kept free in this one.
  local wish = wanted
  for j, grant in ipairs(grants) do
    wish = j ~= i and math.min(wish, grant) or wish
  end
  redis.call('HSET', key, me, string.format('%s %d %d %.0f', uid, reserved, math.max(wish, reserved), now))
  redis.call('EXPIRE', key, seconds)
end
return { 'granted', granted, reserved < before and waiting or {} }
