-- Purpose: how many entries lists, sorted sets, sets or hashes of a measured server have. It writes nothing.
-- KEYS: the keys to measure
-- ARGV: none
-- Answer: for each key the number of entries, 0 when there is no such key, or an error: a key of any other type, or one
--         that the user may not read, fails alone
local commands = { list = 'LLEN', zset = 'ZCARD', set = 'SCARD', hash = 'HLEN' }
local answers = {}
for place, key in ipairs(KEYS) do
  local kind = redis.pcall('TYPE', key)
  kind = type(kind) == 'table' and (kind.ok or kind) or kind
  if type(kind) == 'table' then
    answers[place] = kind
  elseif kind == 'none' then
    answers[place] = 0
  elseif commands[kind] then
    answers[place] = redis.pcall(commands[kind], key)
  else
    answers[place] = { err = 'WRONGTYPE a ' .. kind .. ' has no length to measure' }
  end
end
return answers
