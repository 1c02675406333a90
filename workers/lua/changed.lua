-- Reads the objects of one kind whose versions were stored since a moment, tombstones included. Values of other objects
-- do not leave the broker. Checks a bounded number of objects; call again with the cursor until it is 0.
--
-- KEYS  1      objects of the kind
-- ARGV  1      cursor, '0' to begin
--       2      number of objects to check, about
--       3      the moment, us on the broker's clock; 0 for all
-- Answer: {next cursor, {field, value, ...}}; a field may come twice
-- Replay: harmless, it only reads.
-- include: entries

local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local since = tonumber(ARGV[3])
local answer = {}
for i = 1, #page[2], 2 do
  local e = entry(page[2][i + 1])
  if e and tonumber(e.seen) >= since then
    answer[#answer + 1] = page[2][i]
    answer[#answer + 1] = page[2][i + 1]
  end
end
return { page[1], answer }
