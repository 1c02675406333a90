-- Renews leases: each ends one whole lease from now. A lease whose token is not the current one is lost.
--
-- KEYS  1..10  the lane
-- ARGV  1      clock override: '' or us (tests)
--       2      lease (us)
--       3..    pairs: key, token
-- Answer: the lost ones, as their places among the pairs, from 0
-- Replay: renewing again is harmless.
-- include: clock
-- include: fair_queueing

local now = clock(ARGV[1])
local lease = tonumber(ARGV[2])
local of = lane(KEYS, 0)

local keys = {}
for i = 3, #ARGV, 2 do
  keys[#keys + 1] = ARGV[i]
end
local leases, lost = {}, {}
for i, holder in ipairs(read_many('HMGET', of.leased, keys)) do
  if holder == ARGV[2 * i + 2] then
    leases[#leases + 1] = now + lease
    leases[#leases + 1] = keys[i]
  else
    lost[#lost + 1] = i - 1
  end
end
write_many('ZADD', of.leases, leases)
return lost
