-- Reads the format of the data, and makes it the caller's own where that one lays out data alike.
--
-- KEYS  1    the format of the data
-- ARGV  1    the format that the caller writes
--       2..  formats whose number it replaces; data without a number has format 0
-- Answer: the format that was found
-- Replay: finds the caller's own format.

local found = redis.call('GET', KEYS[1]) or '0'
for i = 2, #ARGV do
  if found == ARGV[i] then
    redis.call('SET', KEYS[1], ARGV[1])
  end
end
return found
