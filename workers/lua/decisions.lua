-- Logs decisions, the newest first, a bounded number per object and of a bounded number of objects of one kind.
-- KEYS: 1 the kind's index: ZSET of lists by time of the last write; then one list per decision
-- ARGV: 1 clock override (us) or '', 2 most decisions per object, 3 most objects, 4 seconds that a list is kept, then
--       three per decision: a digest, of its words and figures in the first 16 characters, '1' if it changed something,
--       else '0', the decision as JSON
-- Values of a list: '<digest> <how often in a row> <us of the last time> <decision>'
-- Answer: number of lists written
-- Replay: counts a decision that changed something once more.
-- include: clock

local index = KEYS[1]
local now = clock(ARGV[1])
local most, objects, seconds = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local written = 0

for i = 2, #KEYS do
  local list = KEYS[i]
  local first = 5 + (i - 2) * 3
  local digest, changed, decision = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local newest = redis.call('LINDEX', list, 0)
  local known, times = string.match(newest or '', '^(%S+) (%d+) ')
  local same = known == digest
  local news = string.sub(known or '', 1, 16) ~= string.sub(digest, 1, 16)
  if news or changed == '1' then
    local value = string.format('%s %d %.0f %s', digest, same and times + 1 or 1, now, decision)
    if same then
      redis.call('LSET', list, 0, value)
    else
      redis.call('LPUSH', list, value)
      redis.call('LTRIM', list, 0, most - 1)
    end
    redis.call('EXPIRE', list, seconds)
    redis.call('ZADD', index, now, list)
    written = written + 1
  end
end

local surplus = redis.call('ZCARD', index) - objects
if surplus > 0 then
  for i, member in ipairs(redis.call('ZPOPMIN', index, surplus)) do
    if i % 2 == 1 then
      redis.call('DEL', member)
    end
  end
end
redis.call('EXPIRE', index, seconds)
return written
