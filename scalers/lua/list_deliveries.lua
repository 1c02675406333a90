-- Purpose: reads deliveries of some states, the newest first.
-- KEYS: 1 to 18 as `deliveries`
-- ARGV: 1 the number of arrival to go on after, or '', 2 most deliveries to answer, 3 most to look at, 4 bytes of
--       attributes to answer at most, 5 the events' type behind 't', or '', 6 since and 7 until (µs, '' for any), then
--       the states
-- Answer: {the number to go on after, or '' at the end, then per delivery: entry, record, attributes}
-- Replay: reads only.

-- include: deliveries

local before, most, look = ARGV[1] ~= '' and '(' .. ARGV[1] or '+inf', tonumber(ARGV[2]), tonumber(ARGV[3])
local budget, type_ = tonumber(ARGV[4]), ARGV[5] ~= '' and string.sub(ARGV[5], 2)
local since, before_time = tonumber(ARGV[6]) or 0, tonumber(ARGV[7]) or math.huge

local found = {}
for i = 8, #ARGV do
  local each = redis.call('ZREVRANGEBYSCORE', STATES[ARGV[i]], before, '-inf', 'WITHSCORES', 'LIMIT', 0, look)
  for place = 1, #each, 2 do
    found[#found + 1] = { tonumber(each[place + 1]), each[place] }
  end
end
table.sort(found, function(one, other) return one[1] > other[1] end)

local answer, last, looked, complete = { '' }, nil, 0, #found < look
for _, pair in ipairs(found) do
  if looked == look or (#answer - 1) / 3 >= most or budget <= 0 then
    complete = false
    break
  end
  local entry = pair[2]
  local arrived = tonumber(string.match(entry, '^%d+')) * 1000
  last, looked = pair[1], looked + 1
  -- Arrivals rise with their numbers.
  if arrived < since then
    complete = true
    break
  end
  if arrived < before_time then
    local text = redis.call('HGET', attributes, entry)
    if text and (not type_ or cjson.decode(text).type == type_) then
      budget = budget - #text
      for _, value in ipairs({ entry, redis.call('HGET', records, entry), text }) do answer[#answer + 1] = value end
    end
  end
end
if not complete then answer[1] = whole(last) end
return answer
