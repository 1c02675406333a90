-- Returns the broker's time in microseconds since the epoch: the one clock that all processes share.
-- override: '' or, in tests, the time to return instead.
local function clock(override)
  if override ~= '' then
    return tonumber(override)
  end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
