-- Commands over lists of any length, in pieces: unpack() of more than some 8,000 values fails in Lua 5.1.

local PIECE = 4000

-- Returns a stored number; 0 for a missing value, and for one that is no number: one broken field must stop no lane.
local function number(value)
  return tonumber(value or 0) or 0
end

-- Returns one answer per item of a command that takes many (HMGET, ZMSCORE, SMISMEMBER), in order.
local function read_many(command, key, items)
  if #items <= PIECE then
    return #items > 0 and redis.call(command, key, unpack(items)) or {}
  end
  local answers = {}
  for first = 1, #items, PIECE do
    for _, answer in ipairs(redis.call(command, key, unpack(items, first, math.min(first + PIECE - 1, #items)))) do
      answers[#answers + 1] = answer
    end
  end
  return answers
end

-- Calls a writing command with many items, or many pairs.
local function write_many(command, key, items)
  for first = 1, #items, PIECE do
    redis.call(command, key, unpack(items, first, math.min(first + PIECE - 1, #items)))
  end
end
