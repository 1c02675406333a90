-- Failures in a row of a key, and how long it waits after the latest.

-- Answers what to remember of the key and its wait (us): the base, doubled with every failure in a row but the first,
-- at most the cap.
-- known: what is remembered so far, or false. reason: of this failure.
local function failed(known, reason, base, cap)
  local failures = (known and tonumber(string.match(known, '^%d+')) or 0) + 1
  -- Beyond 2^52 a doubling changes nothing any more but the risk of infinity.
  local wait = math.min(base * 2 ^ math.min(failures - 1, 52), cap)
  return string.format('%d %s', failures, reason), wait
end
