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
--       a few objects that wait for what was given back, those that have waited longest first}
-- Replay: reserving again for the same decision changes nothing.
-- include: clock
-- include: generation

local now = clock(ARGV[1])
local me, uid, alive, wanted = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local held, keep = tonumber(ARGV[6]), ARGV[7] == '1'
local seconds, believed, decision = tonumber(ARGV[8]), tonumber(ARGV[9]) * 1000000, ARGV[10]
-- Waiting objects that are answered: one waits for a place, and thousands would have to be sorted and sent.
local WOKEN = 16

-- Returns the entries of a ledger but our own: names, and by their places what is reserved and wished for; and our own.
-- Nothing if it must be filled first. A ledger may have thousands of entries, and a table for each costs most of all.
local function read(key, generation)
  local names, reserved, wishes, seeded, mine = {}, {}, {}, false, nil
  local all = redis.call('HGETALL', key)
  for f = 1, #all, 2 do
    local name, value = all[f], all[f + 1]
    if name == '#' then
      seeded = value == generation
    else
      local has, wants, us = string.match(value, '^%S* (%d+) (%d+) (%d+)$')
      -- recount.lua drops what cannot be read.
      if not has then return nil end
      has, wants = tonumber(has), tonumber(wants)
      if name == me then
        mine = { uid = string.match(value, '^%S*'), reserved = has, wanted = wants }
      else
        local place = #names + 1
        names[place], reserved[place] = name, has
        wishes[place] = now - us < believed and math.max(wants, has) or has
      end
    end
  end
  if not seeded then return nil end
  return { names = names, reserved = reserved, wishes = wishes, mine = mine }
end

-- Max-min fairness: returns the share to which all wishes can be granted, and how many above it may have one more.
local function level(others, limit)
  -- Many objects have few different wishes.
  local times, different = { [wanted] = 1 }, { wanted }
  for _, wish in ipairs(others) do
    if not times[wish] then different[#different + 1] = wish end
    times[wish] = (times[wish] or 0) + 1
  end
  table.sort(different)
  local left, count = limit, #others + 1
  for _, wish in ipairs(different) do
    local share = math.floor(left / count)
    if wish > share then
      return share, left - share * count
    end
    left = left - wish * times[wish]
    count = count - times[wish]
  end
  return nil, 0
end

-- Returns by object when it had its last turn (us, 0: never), and the decision that took our own.
local function turns_of(key, names)
  local turns, kept, by = {}, {}, nil
  local all = redis.call('HGETALL', key)
  for f = 1, #all, 2 do
    local turn = tonumber(string.match(all[f + 1], '^%d+')) or 0
    -- One that is still to come was taken before the clock was set back: it counts as the longest ago.
    turns[all[f]] = turn <= now and turn or 0
    if all[f] == me then by = string.match(all[f + 1], '^%d+ (.*)$') end
  end
  local known = turns[me] and 1 or 0
  for _, name in ipairs(names) do
    if turns[name] then known = known + 1 end
  end
  if known < #all / 2 then
    for _, name in ipairs(names) do kept[name] = true end
    for name in pairs(turns) do
      if name ~= me and not kept[name] then redis.call('HDEL', key, name) end
    end
  end
  return turns, by
end

-- Appends the objects that wish for more than they have, those whose turn was longest ago first, as far as they are
-- answered.
local function add_waiting(waiting, others, turns)
  local first = #waiting + 1
  for place, name in ipairs(others.names) do
    if others.wishes[place] > others.reserved[place] then
      local turn, at = turns[name] or 0, math.min(#waiting, WOKEN) + 1
      while at > first do
        local other = waiting[at - 1]
        local its = turns[other] or 0
        if its < turn or (its == turn and other < name) then break end
        waiting[at] = other
        at = at - 1
      end
      waiting[at] = name
      waiting[WOKEN + 1] = nil
    end
  end
end

local limits = (#KEYS - 1) / 2
local generation = generation_of(KEYS[1]) or ''
local grants, takes, competitors, turns_in, before, fades = {}, {}, {}, {}, 0, false
for i = 1, limits do
  local key, limit = KEYS[1 + i], tonumber(ARGV[10 + i])
  local others = read(key, generation)
  if not others then
    return { 'unknown', i - 1 }
  end
  competitors[i] = others
  local mine, sum = others.mine, 0
  for _, has in ipairs(others.reserved) do sum = sum + has end
  local share, extra = level(others.wishes, limit)
  local reserved = mine and mine.uid == uid and mine.reserved or 0
  before = math.max(before, reserved)
  if share then
    fades = fades or (mine and mine.wanted > share and wanted <= share)
    for _, has in ipairs(others.reserved) do
      extra = has > share and extra - 1 or extra
    end
    if share < wanted and extra > 0 then
      local turns, by = turns_of(KEYS[1 + limits + i], others.names)
      turns_in[i] = turns
      local earlier = 0
      for place, name in ipairs(others.names) do
        local may = others.reserved[place] <= share and others.wishes[place] > share
        if may and (turns[name] or 0) < (turns[me] or 0) then
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
  grants[i] = math.max(alive, math.min(wanted, share, limit - sum))
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
    add_waiting(waiting, competitors[i], turns_in[i] or turns_of(turns, competitors[i].names))
  end
end
return { 'granted', granted, waiting }
