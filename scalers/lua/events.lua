-- Shared: how many accepted events are not done. Needs nothing.

-- What the group was not given yet, and what it was given and did not acknowledge; what is done is trimmed away.
local function backlog(stream, group)
  redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
  local last, lag = '0-0', nil
  for _, each in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local known = {}
    for i = 1, #each, 2 do known[each[i]] = each[i + 1] end
    if known.name == group then
      last, lag = known['last-delivered-id'], known.lag
    end
  end
  local pending = redis.call('XPENDING', stream, group)
  if pending[1] > 0 then
    redis.call('XTRIM', stream, 'MINID', pending[2])
    return lag or #redis.call('XRANGE', stream, '(' .. last, '+'), pending[1]
  end
  local time, number = string.match(last, '^(%d+)-(%d+)$')
  redis.call('XTRIM', stream, 'MINID', time .. '-' .. string.format('%.0f', tonumber(number) + 1))
  return redis.call('XLEN', stream), 0
end
