-- Stores readings, and marks the objects whose reading asks for a decision.
-- KEYS: 1 the hash of readings; 2..11 the lane in which decisions are made
-- ARGV: 1 clock override (us) or '', 2 most notifications under way, then four per reading: key, id, '1' if it asks for
--       a decision, else '0', the reading as JSON
-- Answer: {notifications to send, then the positions (from 0) of refused readings: a later one is stored}
-- Replay: the same readings again change nothing and mark again, which coalesces.
-- include: clock
-- include: fair_queueing

local hash = KEYS[1]
local now = clock(ARGV[1])
local slots = tonumber(ARGV[2])
local deciding = lane(KEYS, 1)
local answer = { 0 }

for i = 3, #ARGV, 4 do
  local key, id, asks, reading = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local stored = redis.call('HGET', hash, key)
  local last = stored and tonumber(string.match(stored, '^(%d+) ')) or 0
  if tonumber(id) < last then
    table.insert(answer, (i - 3) / 4)
  else
    redis.call('HSET', hash, key, id .. ' ' .. reading)
    if asks == '1' then
      mark(deciding, key, now, 0, false)
    end
  end
end
deciding.now = now
local _, notifications = settle(deciding, slots)
answer[1] = notifications
return answer
