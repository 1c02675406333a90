-- Purpose: reads the accepted events of a channel that an EventJob has not taken over.
-- KEYS: 1 the EventJob's meta (a hash), 2 the accepted events (a stream)
-- ARGV: 1 its uid, 2 the channel's intake, 3 most entries and 4 bytes to read
-- Answer: {the last entry taken over, then the entries}; or {'MOVED', intake} while the EventJob still belongs to
--         another channel
-- Replay: reads only; it joins the channel once.

-- include: channel

local meta, accepted, uid, intake = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local most, budget = tonumber(ARGV[3]), tonumber(ARGV[4])
-- Entries that are read at a time, since their sizes are not known before.
local PIECE = 20

local known = redis.call('HMGET', meta, 'intake', 'closed', 'taken')
if known[2] then return { '0-0' } end
if known[1] and known[1] ~= intake then return { 'MOVED', known[1] } end
if not known[1] then redis.call('HSET', meta, 'intake', intake) end

local group = GROUP .. uid
local others = cursors(accepted)
local cursor = others[group]
if not cursor then
  -- A group that somebody has removed goes on where it was. Without any EventJob nobody has taken what is there.
  local start = known[3] or (next(others) and '$') or '0'
  redis.call('XGROUP', 'CREATE', accepted, group, start, 'MKSTREAM')
  cursor = cursors(accepted)[group]
  redis.call('HSET', meta, 'taken', cursor)
end
local answer, last = { cursor }, cursor
while #answer - 1 < most and budget > 0 do
  local piece = redis.call('XRANGE', accepted, '(' .. last, '+', 'COUNT', math.min(PIECE, most - #answer + 1))
  for _, entry in ipairs(piece) do
    if budget > 0 then
      for _, text in ipairs(entry[2]) do budget = budget - #text end
      answer[#answer + 1], last = entry, entry[1]
    end
  end
  if #piece == 0 then break end
end
return answer
