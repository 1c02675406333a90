-- Purpose: how many entries a list, sorted set, set or hash of a measured server has. It writes nothing.
-- KEYS: 1 the key to measure
-- ARGV: none
-- Answer: the number of entries, 0 when there is no such key; an error for a key of any other type
local key = KEYS[1]
local command = { list = 'LLEN', zset = 'ZCARD', set = 'SCARD', hash = 'HLEN' }
local kind = redis.call('TYPE', key)
kind = kind.ok or kind
if kind == 'none' then
  return 0
end
if not command[kind] then
  return redis.error_reply('WRONGTYPE a ' .. kind .. ' has no length to measure')
end
return redis.call(command[kind], key)
