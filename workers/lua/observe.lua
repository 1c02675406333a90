-- Reads many objects with their children, and the freshness of the kinds. The index of owners makes it cost what these
-- objects and their children cost, however many others are stored. Of children that the reader has read before it costs
-- what has changed since.
--
-- KEYS  1      generation
--       2      freshness
--       3..    triples: objects, owners and child log of a kind
-- ARGV  1      clock override: '' or us (tests)
--       2      stop after an answer of about so many bytes
--       3      how many kinds: n
--       4..    n kinds, in the order of the triples in KEYS
--       then   per request: what, a moment (us) or '', index of the object's kind, number of child kinds; and per child
--              kind: its index, the mark of the children that the reader has, or '', and their number.
--              what: a field of the objects hash, or '=<uid>' to read only the children of that uid. Of a value that
--              was stored before the moment only the head is sent: '<resourceVersion> <seen> <uid> '. The reader has
--              kept it
-- Answer: {now, {freshness of each kind, '' for one not listed in this generation}, answers}; one answer per request,
-- in order, maybe for the first few only: {value or nil, children per child kind}. Children: {mark, '', field, value,
-- ...} are all of them; {mark, number, field, value, ...} are those that have changed since the mark, with '' for the
-- value of one that is none any more, and the number of all. A mark is '' where there are too few children for one
-- include: clock
-- include: batches
-- include: freshness

-- Fewer children are read whole: a mark would cost as much.
local FEW = 16

local now = clock(ARGV[1])
local room = tonumber(ARGV[2])
local count = tonumber(ARGV[3])
local generation = generation_of(KEYS[1])

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

-- The last entries of the logs, by the index of their kind.
local ends = {}

-- Returns the mark of what is read now of the children of this uid; '' if nothing was ever logged.
local function mark_of(uid, index)
  if ends[index] == nil then
    local last = redis.call('XREVRANGE', KEYS[3 * index + 2], '+', '-', 'COUNT', 1)[1]
    ends[index] = last and last[1] or false
  end
  return generation and ends[index] and generation .. ' ' .. uid .. ' ' .. ends[index] or ''
end

-- Returns what has changed since the mark; nil if the log does not tell, or to read it would cost more than to read all
-- children. The log has the entry of the mark itself, or it lost others with it.
local function changes(uid, index, mark, known)
  local logged_in, of, from = string.match(mark, '^(%S+) (%S+) (%S+)$')
  if logged_in ~= generation or of ~= uid then
    return nil
  end
  local logged = redis.call('XRANGE', KEYS[3 * index + 2], from, '+', 'COUNT', known + 2)
  if #logged == 0 or logged[1][1] ~= from or #logged > known + 1 then
    return nil
  end
  local owners, prefix, once = KEYS[3 * index + 1], uid .. ' ', {}
  local answer = { mark_of(uid, index), redis.call('ZLEXCOUNT', owners, '[' .. prefix, '(' .. uid .. '!') }
  for i = 2, #logged do
    local member = logged[i][2][2]
    if not once[member] and string.sub(member, 1, #prefix) == prefix then
      once[member] = true
      local field = string.sub(member, #prefix + 1)
      local value = redis.call('ZSCORE', owners, member) and redis.call('HGET', KEYS[3 * index], field) or ''
      room = room - #value
      answer[#answer + 1] = field
      answer[#answer + 1] = value
    end
  end
  return answer
end

local function children(uid, index, since)
  local members = redis.call('ZRANGEBYLEX', KEYS[3 * index + 1], '[' .. uid .. ' ', '(' .. uid .. '!')
  local answer = { #members < FEW and '' or mark_of(uid, index), '' }
  if #members == 0 then
    return answer
  end
  local fields = {}
  for i, member in ipairs(members) do
    fields[i] = string.sub(member, #uid + 2)
  end
  for i, value in ipairs(read_many('HMGET', KEYS[3 * index], fields)) do
    if value then
      answer[#answer + 1] = fields[i]
      answer[#answer + 1] = sent(value, since)
    end
  end
  return answer
end

-- Without a generation, or in a later one than a kind was listed in, the kind is unknown: changes may have been lost.
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
    local value = redis.call('HGET', KEYS[3 * index], what)
    if value then
      answer[1] = sent(value, since)
      uid = string.match(value, '^%S+ %S+ (%S+) ')
    end
  end
  i = i + 4
  for k = 1, kinds do
    local of, mark, known = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2])
    answer[k + 1] = not uid and { '', '' }
      or mark ~= '' and changes(uid, of, mark, known)
      or children(uid, of, since)
    i = i + 3
  end
  answers[#answers + 1] = answer
end
return { string.format('%.0f', now), ages, answers }
