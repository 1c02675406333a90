-- Commands over lists of any length. Lua passes at most some 8,000 values to one call, so long lists go in pieces.

local PIECE = 4000

-- One answer per item of a command that takes many (HMGET, ZMSCORE, SMISMEMBER), in order.
local function ask(command, key, items)
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

-- A command that takes many items, or many pairs, and whose answer does not matter. option: a word before the items.
local function tell(command, key, items, option)
  for first = 1, #items, PIECE do
    local last = math.min(first + PIECE - 1, #items)
    if option then
      redis.call(command, key, option, unpack(items, first, last))
    else
      redis.call(command, key, unpack(items, first, last))
    end
  end
end
