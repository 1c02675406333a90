-- Reserves Jobs for one object in all of its limits: as many as every limit allows, never more in total than a limit,
-- and no more than a fair share where objects compete. What remains of even shares goes round: an object that has used
-- one more than its share lets those go first that have waited longer.
-- KEYS: the generation, then one ledger per limit: HASH object's key -> '<uid> <reserved> <wanted> <us>'; the field '#'
--       is the generation in which the ledger was filled from the store (recount.lua): one of another generation must
--       be filled again; then as many tables of turns: HASH object's key -> '<us> <decision>', when and by which
--       decision it last took one more than its share
-- ARGV: 1 clock override (us) or '', 2 the object's key, 3 its uid, 4 its Jobs now, 5 Jobs wanted, 6 Jobs whose grant
--       is never taken back, 7 '1' to give back nothing, else '0', 8 seconds that an unused ledger is kept, 9 seconds
--       for which what others wanted counts, 10 the decision, then per ledger its limit
-- Answer: {'unknown', position of a ledger that must be filled first (from 0)} or {'granted', Jobs it may have, keys of
--       objects that wait for what was given back, those that have waited longest first}
-- Replay: reserving again for the same decision changes nothing.
-- include: clock
-- include: generation

local now = clock(ARGV[1])
local me, uid, alive, wanted = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local held, keep = tonumber(ARGV[6]), ARGV[7] == '1'
local seconds, believed, decision = tonumber(ARGV[8]), tonumber(ARGV[9]) * 1000000, ARGV[10]

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

-- Returns by object when it had its last turn (us, 0: never), and the decision that took our own.
local function turns_of(key, known)
  local turns, by = {}, nil
  local all = redis.call('HGETALL', key)
  for f = 1, #all, 2 do
    local us, of = string.match(all[f + 1], '^(%d+) (.*)$')
    if all[f] == me or known[all[f]] then
      local turn = tonumber(us) or 0
      -- One that is still to come was taken before the clock was set back: it counts as the longest ago.
      turns[all[f]] = turn <= now and turn or 0
      by = all[f] == me and of or by
    else
      redis.call('HDEL', key, all[f])
    end
  end
  return turns, by
end

-- Appends the objects that wish for more than they have, those whose turn was longest ago first.
local function add_waiting(waiting, known, turns)
  local found = {}
  for other, entry in pairs(known) do
    if entry.wish > entry.reserved then
      found[#found + 1] = other
    end
  end
  table.sort(found, function(one, other)
    local first, second = turns[one] or 0, turns[other] or 0
    return first < second or (first == second and one < other)
  end)
  for _, other in ipairs(found) do
    waiting[#waiting + 1] = other
  end
end

local limits = (#KEYS - 1) / 2
local generation = generation_of(KEYS[1]) or ''
local grants, takes, competitors, turns_in, before, fades = {}, {}, {}, {}, 0, false
for i = 1, limits do
  local key, limit = KEYS[1 + i], tonumber(ARGV[10 + i])
  local all = redis.call('HGETALL', key)
  local seeded, others, wishes, mine = false, 0, { wanted }, nil
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
      entry.wish = now - entry.us < believed and math.max(entry.wanted, entry.reserved) or entry.reserved
      wishes[#wishes + 1] = entry.wish
      known[all[f]] = entry
    end
  end
  if not seeded then
    return { 'unknown', i - 1 }
  end
  competitors[i] = known
  local share, extra = level(wishes, limit)
  local reserved = mine and mine.uid == uid and mine.reserved or 0
  before = math.max(before, reserved)
  if share then
    fades = fades or (mine and mine.wanted > share and wanted <= share)
    for _, entry in pairs(known) do
      extra = entry.reserved > share and extra - 1 or extra
    end
    if share < wanted and extra > 0 then
      local turns, by = turns_of(KEYS[1 + limits + i], known)
      turns_in[i] = turns
      local earlier = 0
      for other, entry in pairs(known) do
        if entry.reserved <= share and entry.wish > share and (turns[other] or 0) < (turns[me] or 0) then
          earlier = earlier + 1
        end
      end
      local uses = alive > share or math.min(held, reserved) > share or (keep and reserved > share) or by == decision
      takes[i] = (uses or earlier < extra) and { share = share, again = uses and turns[me] }
      share = takes[i] and share + 1 or share
    end
  end
  -- A grant for claimed items or existing Jobs stays, even beyond a fair share: they cannot be given back.
  share = math.max(share or wanted, math.min(held, reserved))
  grants[i] = math.max(alive, math.min(wanted, share, limit - others))
end
local granted = math.max(alive, math.min(unpack(grants)))
local reserved = keep and math.max(granted, before) or granted
local waiting = {}
for i = 1, limits do
  local key, turns = KEYS[1 + i], KEYS[1 + limits + i]
  -- Jobs that another limit refuses are not kept free in this one.
  local wish = wanted
  for j, grant in ipairs(grants) do
    wish = j ~= i and math.min(wish, grant) or wish
  end
  redis.call('HSET', key, me, string.format('%s %d %d %.0f', uid, reserved, math.max(wish, reserved), now))
  redis.call('EXPIRE', key, seconds)
  if takes[i] and granted > takes[i].share and not takes[i].again then
    redis.call('HSET', turns, me, string.format('%.0f %s', now, decision))
  end
  redis.call('EXPIRE', turns, seconds)
  if reserved < before or fades then
    add_waiting(waiting, competitors[i], turns_in[i] or turns_of(turns, competitors[i]))
  end
end
return { 'granted', granted, waiting }
