-- Reads many objects with their children, and the freshness of the kinds. The index of owners makes it cost what these
-- objects and their children cost, however many others are stored.
--
-- KEYS  1      generation
--       2      freshness
--       3..    pairs: objects and owners of a kind
-- ARGV  1      clock override: '' or us (tests)
--       2      stop after an answer of about so many bytes
--       3      how many kinds: n
--       4..    n kinds, in the order of the pairs in KEYS
--       then   per request: what, a moment (us) or '', index of the object's kind, number of child kinds, their
--              indices.
--              what: a field of the objects hash, or '=<uid>' to read only the children of that uid. Of a value that
--              was stored before the moment only the head is sent: '<resourceVersion> <seen> <uid> '. The reader has
--              kept it
-- Answer: {now, {freshness of each kind, '' for one not listed in this generation}, answers}; one answer per request,
-- in order, maybe for the first few only: {value or nil, {field, value, ...} per child kind}
-- include: clock
-- include: batches
-- include: freshness

local now = clock(ARGV[1])
local room = tonumber(ARGV[2])
local count = tonumber(ARGV[3])

-- Returns the value, or its head if it was stored before this moment ('': always the value).
local function sent(value, since)
  if since ~= '' then
    local head, seen = string.match(value, '^(%S+ (%S+) %S+ )')
    if head and (tonumber(seen) or now) < tonumber(since) then
      value = head
    end
  end
  room = room - #value
  return value
end

local function children(uid, index, since)
  local members = redis.call('ZRANGEBYLEX', KEYS[2 * index + 2], '[' .. uid .. ' ', '(' .. uid .. '!')
  if #members == 0 then
    return members
  end
  local fields, answer = {}, {}
  for i, member in ipairs(members) do
    fields[i] = string.sub(member, #uid + 2)
  end
  for i, value in ipairs(read_many('HMGET', KEYS[2 * index + 1], fields)) do
    if value then
      answer[#answer + 1] = fields[i]
      answer[#answer + 1] = sent(value, since)
    end
  end
  return answer
end

-- Without a generation, or in a later one than a kind was listed in, the kind is unknown: changes may have been lost.
local generation = generation_of(KEYS[1])
local ages = {}
for i = 1, count do
  local f = freshness(KEYS[2], ARGV[3 + i])
  ages[i] = f and f.generation == generation and string.format('%.0f', f.us) or ''
end

local answers = {}
local i = 4 + count
while i <= #ARGV and (room > 0 or #answers == 0) do
  local what, since, index, kinds = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local answer = { false }
  local uid = string.match(what, '^=(.*)$')
  if not uid then
    local value = redis.call('HGET', KEYS[2 * index + 1], what)
    if value then
      answer[1] = sent(value, since)
      uid = string.match(value, '^%S+ %S+ (%S+) ')
    end
  end
  for k = 1, kinds do
    answer[k + 1] = uid and children(uid, tonumber(ARGV[i + 3 + k]), since) or {}
  end
  answers[#answers + 1] = answer
  i = i + 4 + kinds
end
return { string.format('%.0f', now), ages, answers }
