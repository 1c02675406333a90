-- Shared: a channel, the accepted events that several EventJobs take over, each as a group of its own. Needs nothing.
--
-- A group has no pending entries: what it was given last is what its EventJob has taken over.

local GROUP = 'eventjob:'

-- How many events are not done: those that some EventJob has not taken over, and the most that one has not finished.
local function undone(accepted, unfinished)
  local most = 0
  for _, number in ipairs(redis.call('HVALS', unfinished)) do
    most = math.max(most, tonumber(number))
  end
  return redis.call('XLEN', accepted), most
end

-- The last entry that each EventJob has taken over, by its group.
local function cursors(accepted)
  local found, groups = {}, redis.pcall('XINFO', 'GROUPS', accepted)
  for _, each in ipairs(groups.err and {} or groups) do
    local known = {}
    for i = 1, #each, 2 do known[each[i]] = each[i + 1] end
    if string.sub(known.name, 1, #GROUP) == GROUP then found[known.name] = known['last-delivered-id'] end
  end
  return found
end

local function parts_of(id)
  local time, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(time), tonumber(number)
end

-- Removes the entries that every EventJob has taken over.
local function trim(accepted)
  local first_time, first_number
  for _, last in pairs(cursors(accepted)) do
    local time, number = parts_of(last)
    if not first_time or time < first_time or (time == first_time and number < first_number) then
      first_time, first_number = time, number
    end
  end
  if first_time then
    redis.call('XTRIM', accepted, 'MINID', string.format('%.0f-%.0f', first_time, first_number + 1))
  end
end

-- Takes an EventJob out of a channel; with the last one everything goes but the events that were not taken in.
-- channel: accepted, unfinished, intake, parked, seen, counts.
local function leave(uid, channel)
  redis.pcall('XGROUP', 'DESTROY', channel[1], GROUP .. uid)
  redis.call('HDEL', channel[2], uid)
  if next(cursors(channel[1])) then
    trim(channel[1])
    return
  end
  local groups = redis.pcall('XINFO', 'GROUPS', channel[1])
  if groups.err or #groups == 0 then
    redis.call('UNLINK', channel[1], channel[2], channel[4], channel[5], channel[6])
    if redis.call('XLEN', channel[3]) == 0 then redis.call('DEL', channel[3]) end
  end
end
