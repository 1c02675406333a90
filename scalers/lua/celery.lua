-- What Celery keeps on one Redis server, at one moment: messages that wait in lists, and those that workers hold.
--
-- KEYS: the hash of held messages, then the lists. ARGV: how many of the oldest messages of each list are looked into;
-- how many held messages are looked into at most; what stands before an exchange's name in its table's key.
-- Answers {lists, groups, tables}: per list {length, later, soonest}, or why it cannot be counted; per exchange and
-- routing key of held messages {exchange, key, number, later, soonest}; per exchange {name, entries}.
-- later: messages whose eta lies in the future. soonest: milliseconds until the first of those is due, or -1.

-- include: clock

local now = math.floor(clock('') / 1000)

-- Days from 1970-01-01 in the Gregorian calendar, with years that begin in March.
local function days(year, month, day)
  if month <= 2 then year = year - 1 end
  local era = math.floor(year / 400)
  local of_era = year - era * 400
  local of_year = math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  return era * 146097 + of_era * 365 + math.floor(of_era / 4) - math.floor(of_era / 100) + of_year - 719468
end

-- Milliseconds since the epoch of an instant in ISO 8601, or nil; one without a zone is UTC.
local function instant(text)
  local year, month, day, hour, minute, second, rest =
    string.match(text, '^(%d%d%d%d)-(%d%d)-(%d%d)[T ](%d%d):(%d%d):(%d%d)(.*)$')
  if not year then return nil end
  local fraction, zone = string.match(rest, '^(%.%d+)(.*)$')
  local sign, hours, minutes = string.match(zone or rest, '^([+-])(%d%d):?(%d%d)')
  local away = 0
  if sign then away = (tonumber(hours) * 60 + tonumber(minutes)) * (sign == '-' and -1 or 1) end
  local date = days(tonumber(year), tonumber(month), tonumber(day))
  local seconds = date * 86400 + tonumber(hour) * 3600 + (tonumber(minute) - away) * 60 + tonumber(second)
  return seconds * 1000 + math.floor(tonumber(fraction or 0) * 1000)
end

-- Milliseconds until a message is due; nil if it is, or has no eta. Most have none, and are not decoded to see that.
local function wait(text, message_of)
  if not (string.find(text, '"eta": "', 1, true) or string.find(text, '"eta":"', 1, true)) then return nil end
  local well, decoded = pcall(cjson.decode, text)
  local message = well and message_of(decoded)
  local headers = type(message) == 'table' and message.headers
  local eta = type(headers) == 'table' and type(headers.eta) == 'string' and instant(headers.eta)
  return eta and eta > now and eta - now or nil
end

local function itself(decoded) return decoded end
local function first(decoded) return type(decoded) == 'table' and decoded[1] end

local function note(count, due_in)
  if due_in then
    count.later = count.later + 1
    if count.soonest < 0 or due_in < count.soonest then count.soonest = due_in end
  end
end

local function listed(key)
  local length = redis.pcall('LLEN', key)
  if type(length) == 'table' then return length.err end
  local count = {later = 0, soonest = -1}
  for _, message in ipairs(redis.call('LRANGE', key, -tonumber(ARGV[1]), -1)) do
    note(count, wait(message, itself))
  end
  return {length, count.later, count.soonest}
end

-- Exchange and routing key stand at the end of a held message.
local function address(text)
  local exchange, key = string.match(string.sub(text, -600), ', ?"([^"\\]*)", ?"([^"\\]*)"%]$')
  if exchange then return exchange, key end
  local well, decoded = pcall(cjson.decode, text)
  if well and type(decoded) == 'table' then return tostring(decoded[2]), tostring(decoded[3]) end
  return nil
end

local function held()
  local size = redis.call('HLEN', KEYS[1])
  if size > tonumber(ARGV[2]) then
    return redis.error_reply('ERR workers hold ' .. size .. ' messages, too many to look into')
  end
  local groups, order = {}, {}
  for _, text in ipairs(redis.call('HVALS', KEYS[1])) do
    local exchange, key = address(text)
    if exchange then
      local name = exchange .. '\n' .. key
      local count = groups[name]
      if not count then
        count = {exchange = exchange, key = key, number = 0, later = 0, soonest = -1}
        groups[name] = count
        order[#order + 1] = count
      end
      count.number = count.number + 1
      note(count, wait(text, first))
    end
  end
  return order
end

local groups = held()
if groups.err then return groups end
local lists, found, tables, seen = {}, {}, {}, {}
for place = 2, #KEYS do lists[#lists + 1] = listed(KEYS[place]) end
for _, count in ipairs(groups) do
  found[#found + 1] = {count.exchange, count.key, count.number, count.later, count.soonest}
  if count.exchange ~= '' and not seen[count.exchange] then
    seen[count.exchange] = true
    tables[#tables + 1] = {count.exchange, redis.call('SMEMBERS', ARGV[3] .. count.exchange)}
  end
end
return {lists, found, tables}
