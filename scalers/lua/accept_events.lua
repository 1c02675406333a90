-- Purpose: takes what was pushed out of the intake: what is an event and new is accepted, what is none is parked, what
--          was seen before or finds no room is gone; all of it is counted.
-- KEYS: 1 the intake, 2 the accepted events, 3 the parked entries (streams), 4 what was seen (a sorted set of digests
--       by time), 5 the counts (a hash); of a channel of EventJobs 6 their unfinished deliveries (a hash)
-- ARGV: 1 the group, '' for a channel, 2 most events that may be not done, 3 milliseconds and 4 most events that are
--       remembered as seen, 5 most parked entries, 6 most entries to take, 7 bytes of the largest event
-- Answer: {not given to the group yet, given and not acknowledged, entries left in the intake; and of what was taken
--         now: accepted, duplicates, parked, dropped}
-- Replay: what it took is gone from the intake; a second run finds the rest.
-- On a server without memory nothing is taken: what was pushed stays, and none counts as left to take.

-- include: events
-- include: channel
-- include: clock

local intake, accepted, parked, seen, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, room_for, window, remembered = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local keep_parked, batch, largest = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local now = math.floor(clock('') / 1000)
local SCHEME, MEDIA = '^%a[%w%+%.%-]*:', "^[%w!#%$&%-%^_%.%+]+/[%w!#%$&%-%^_%.%+]+%s*"
local DAYS = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

-- RFC 3339.
local function is_instant(text)
  local year, month, day, hour, minute, second, rest =
    string.match(text, '^(%d%d%d%d)%-(%d%d)%-(%d%d)[Tt](%d%d):(%d%d):(%d%d)(.*)$')
  if not year then return false end
  local zone = string.match(rest, '^%.%d+(.*)$') or rest
  local east, past = string.match(zone, '^[+-](%d%d):(%d%d)$')
  if not east and not string.match(zone, '^[Zz]$') then return false end
  year, month, day = tonumber(year), tonumber(month), tonumber(day)
  local days = DAYS[month] or 0
  if month == 2 and (year % 4 ~= 0 or year % 100 == 0 and year % 400 ~= 0) then days = 28 end
  return day >= 1 and day <= days and tonumber(hour) <= 23 and tonumber(minute) <= 59
    and tonumber(second) <= 60 and tonumber(east or 0) <= 23 and tonumber(past or 0) <= 59
end

-- RFC 3986.
local function is_reference(text)
  if not string.match(text, "^[%w%-%._~:/%?#%[%]@!%$&'%(%)%*%+,;=%%]+$") then return false end
  if string.find(string.gsub(text, '%%%x%x', ''), '%', 1, true) then return false end
  if not string.match(text, '^[^#]*#?[^#]*$') then return false end
  -- Brackets are for an address of IPv6.
  if string.find(string.gsub(text, '//([^/?#%[%]]*)%[[%x:%.]+%]', '//', 1), '[%[%]]') then return false end
  return not string.find(string.match(text, '^[^/?#]*'), ':', 1, true) or string.match(text, SCHEME) ~= nil
end

local function is_media_type(text)
  return string.match(text, MEDIA .. '$') or string.match(text, MEDIA .. ';.+$')
end

local function is_base64(text)
  return #text % 4 == 0 and string.match(text, '^[%w+/]*=?=?$')
end

-- What is wrong with the values of an event that has all it needs, or nil.
local function malformed(event)
  for name, value in pairs(event) do
    if name ~= 'data' and string.find(value, '%c') then return name .. ' has control characters' end
  end
  if not is_reference(event.source) then return 'source must be a URI reference' end
  if event.time and not is_instant(event.time) then return 'time must be an RFC 3339 instant' end
  if event.subject == '' then return 'subject must not be empty' end
  if event.dataschema and not (is_reference(event.dataschema) and string.match(event.dataschema, SCHEME)) then
    return 'dataschema must be a URI'
  end
  if event.datacontenttype and not is_media_type(event.datacontenttype) then
    return 'datacontenttype must be a media type'
  end
  if event.data and event.data_base64 then return 'data and data_base64 exclude each other' end
  if event.data_base64 and not is_base64(event.data_base64) then return 'data_base64 must be base64' end
  return nil
end

-- Why an entry is no event, or nil and its attributes.
local function wrong(fields)
  local size, event = 0, {}
  for i = 1, #fields, 2 do
    local name = fields[i]
    size = size + #name + #fields[i + 1]
    if size > largest then return 'is larger than ' .. largest .. ' bytes' end
    if not string.match(name, '^[a-z0-9]+$') and name ~= 'data_base64' then
      return 'attribute names are lower-case letters and digits'
    end
    if event[name] then return name .. ' is there twice' end
    event[name] = fields[i + 1]
  end
  if #fields > 200 then return 'has more than 100 attributes' end
  if event.specversion ~= '1.0' then return 'specversion must be 1.0' end
  for _, name in ipairs({'id', 'source', 'type'}) do
    if not event[name] or event[name] == '' then return name .. ' is required' end
  end
  local reason = malformed(event)
  if reason then return reason end
  return nil, event
end

local function park(id, fields, reason)
  local entry = {'reason', reason, 'entry', id}
  local size = 0
  for i, text in ipairs(fields) do
    size = size + #text
    if i <= 200 and size <= largest then entry[#entry + 1] = i % 2 == 1 and 'field.' .. text or text end
  end
  if #entry % 2 == 1 then entry[#entry] = nil end
  redis.call('XADD', parked, 'MAXLEN', keep_parked, '*', unpack(entry))
end

local function is_new(event)
  if window == 0 or remembered == 0 then return true end
  return redis.call('ZADD', seen, 'NX', now, redis.sha1hex(event.source .. '\n' .. event.id)) == 1
end

local function forget()
  redis.call('ZREMRANGEBYSCORE', seen, '-inf', now - window)
  redis.call('ZREMRANGEBYRANK', seen, 0, -remembered - 1)
  redis.call('PEXPIRE', seen, math.max(window, 1))
end

-- Such a server refuses the first write of a script alone, and only one that frees no memory.
local tried = redis.call('XLEN', intake) > 0 and redis.pcall('ZADD', seen, 'XX', now, '')
local refused = type(tried) == 'table' and tried.err
if refused and not string.find(refused, 'OOM', 1, true) then return tried end

local waiting, held
if KEYS[6] then
  waiting, held = undone(accepted, KEYS[6])
else
  waiting, held = backlog(accepted, group)
end
if refused then return { waiting, held, 0, 0, 0, 0, 0 } end
local room = room_for - waiting - held
local did = {accepted = 0, duplicates = 0, parked = 0, dropped = 0}
local taken = {}
if redis.call('ZCARD', seen) > 0 then redis.call('ZREMRANGEBYSCORE', seen, '-inf', now - window) end
for _, entry in ipairs(redis.call('XRANGE', intake, '-', '+', 'COUNT', batch)) do
  if room <= did.accepted then break end
  local id, fields = entry[1], entry[2]
  local reason, event = wrong(fields)
  if reason then
    park(id, fields, reason)
    did.parked = did.parked + 1
  elseif is_new(event) then
    redis.call('XADD', accepted, '*', unpack(fields))
    did.accepted = did.accepted + 1
  else
    did.duplicates = did.duplicates + 1
  end
  taken[#taken + 1] = id
end
if #taken > 0 then
  redis.call('XDEL', intake, unpack(taken))
  forget()
end
if room <= did.accepted then
  did.dropped = redis.call('XLEN', intake)
  if did.dropped > 0 then redis.call('XTRIM', intake, 'MAXLEN', 0) end
end
for name, number in pairs(did) do
  if number > 0 then redis.call('HINCRBY', counts, name, number) end
end
return {
  waiting + did.accepted, held, redis.call('XLEN', intake), did.accepted, did.duplicates, did.parked, did.dropped
}
