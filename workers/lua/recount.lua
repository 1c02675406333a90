-- Brings a limit's ledger in line with the Jobs counted in the store.
-- KEYS: 1 the generation, 2 the ledger (see reserve.lua)
-- ARGV: 1 clock override (us) or '', 2 seconds after which an unused reservation is dropped, 3 seconds that the
--       ledger is kept, 4 when the counting began (us), then three per object that is covered or has Jobs: its key, its
--       uid ('': deleted), its Jobs
-- Answer: number of Jobs fewer that are reserved
-- Replay: the same counts again change nothing more.
-- include: clock
-- include: generation

local now = clock(ARGV[1])
local generation, ledger = generation_of(KEYS[1]) or '', KEYS[2]
local settled, began = tonumber(ARGV[2]) * 1000000, tonumber(ARGV[4])
local freed = 0
local counted = {}
for i = 5, #ARGV, 3 do
  counted[ARGV[i]] = { uid = ARGV[i + 1], alive = tonumber(ARGV[i + 2]) }
end
-- Reservations of an earlier generation may lack Jobs that were granted since. Lanes were closed for a lease: no plan
-- of that time is still under way.
if redis.call('HGET', ledger, '#') ~= generation then
  redis.call('DEL', ledger)
end
local all = redis.call('HGETALL', ledger)
local known = {}
for f = 1, #all, 2 do
  local key = all[f]
  local uid, reserved, wanted, us = string.match(all[f + 1], '^(%S*) (%d+) (%d+) (%d+)$')
  if uid then
    known[key] = true
    local one = counted[key] or { uid = '', alive = 0 }
    local alive = one.alive
    if tonumber(us) > now then
      -- The clock was set back since: it counts as made now, and is counted again.
      us = string.format('%.0f', now)
      redis.call('HSET', ledger, key, string.format('%s %s %s %s', uid, reserved, wanted, us))
    end
    -- A plan of an existing object may still be creating the reserved Jobs: its reservation stands until it is old. So
    -- does one that was made since the counting began, which may have missed the object.
    local kept = tonumber(us) >= began or (one.uid ~= '' and one.uid == uid and now - tonumber(us) <= settled)
    if not kept and alive < tonumber(reserved) then
      freed = freed + tonumber(reserved) - alive
      if alive == 0 and one.uid == '' then
        redis.call('HDEL', ledger, key)
      else
        redis.call('HSET', ledger, key, string.format('%s %d %d %s', one.uid, alive, alive, us))
      end
    end
  elseif key ~= '#' then
    -- An entry that cannot be read would keep the ledger unusable.
    redis.call('HDEL', ledger, key)
  end
end
for key, one in pairs(counted) do
  if not known[key] and one.alive > 0 then
    redis.call('HSET', ledger, key, string.format('%s %d %d %.0f', one.uid, one.alive, one.alive, now))
  end
end
redis.call('HSET', ledger, '#', generation)
redis.call('EXPIRE', ledger, tonumber(ARGV[3]))
return freed
