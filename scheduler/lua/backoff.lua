-- The backoff of a failing key.

-- Returns the key's new entry of the failures hash and its wait (us): the base, doubled by every failure in a row but
-- the first, at most the cap. known: the entry so far, or false. reason: of this failure.
local function failed(known, reason, base, cap)
  local failures = (known and tonumber(string.match(known, '^%d+')) or 0) + 1
  -- The exponent is bounded: 2^1024 would be infinite, and the cap applies long before.
  local wait = math.min(base * 2 ^ math.min(failures - 1, 52), cap)
  return string.format('%d %s', failures, reason), wait
end
