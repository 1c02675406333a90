-- Marks keys: each becomes ready, or dirty if it is leased, or stays ready or in backoff.
--
-- KEYS  1..10  the lane
-- ARGV  1      clock override: '' or us (tests)
--       2      most notifications under way
--       3      priority: whole steps, 0 is normal, higher is sooner
--       4      forgive: '1' or '0'
--       5..    the keys
-- Answer: {newly ready, notifications to send}
-- Replay: marking again is harmless.
-- include: clock
-- include: fair_queueing

local now = clock(ARGV[1])
local slots = tonumber(ARGV[2])
local priority = tonumber(ARGV[3])
local forgive = ARGV[4] == '1'

local into = lane(KEYS, 0)
into.now = now
for i = 5, #ARGV do
  mark(into, ARGV[i], now, priority, forgive)
end
return { settle(into, slots) }
