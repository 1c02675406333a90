-- The broker's clock that was set back: moments that now lie further ahead than any could be would be waited for until
-- the clock has come that far again.
-- include: batches

-- A sweep that is so much (us) before the last one shows it. Between servers of one set clocks differ by less.
local STEP = 1000000

-- Returns true if the clock was set back since the last sweep, and remembers this one. now: us.
local function was_set_back(of, now)
  local swept = number(redis.call('HGET', of.meta, 'swept'))
  if math.abs(now - swept) >= STEP then
    redis.call('HSET', of.meta, 'swept', now)
  end
  return swept - now > STEP
end

-- Brings the lane's moments back to the latest that they can be. Bookings stay: they name moments of the calendar.
-- lease, cap: us.
local function bring_back(of, now, lease, cap)
  for field, latest in pairs({ opens = now + lease, claimed = now, repaired = now }) do
    if number(redis.call('HGET', of.meta, field)) > latest then
      redis.call('HSET', of.meta, field, latest)
    end
  end
  local leases = {}
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', of.leases, string.format('(%.0f', now + lease), '+inf')) do
    leases[#leases + 1] = now + lease
    leases[#leases + 1] = key
  end
  write_many('ZADD', of.leases, leases)
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', of.failures, cursor, 'COUNT', 1000)
    cursor = page[1]
    local keys, later = {}, {}
    for i = 1, #page[2], 2 do
      keys[#keys + 1] = page[2][i]
    end
    for i, due in ipairs(read_many('ZMSCORE', of.later, keys)) do
      if due and tonumber(due) > now + cap then
        later[#later + 1] = now + cap
        later[#later + 1] = keys[i]
      end
    end
    write_many('ZADD', of.later, later)
  until cursor == '0'
end
