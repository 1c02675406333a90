-- Shared: pushes a parked event to another channel. Needs `deliveries`.

local PARKED = 'dev.penstock.parked'
-- Bytes of the largest event, and those that its own attributes may take.
local LARGEST, OVERHEAD = 1048576, 4096
-- Most entries of an intake to which one more is pushed: there may be no EventJob that takes them in.
local MOST_WAITING = 10000

-- uid: of the EventJob; owner: its namespace/name. An event that tells of a parked one is not pushed on: two channels
-- could pass it to each other for ever.
local function push_parked(intake, uid, owner, entry, record)
  local event = cjson.decode(redis.call('HGET', attributes, entry))
  if event.type == PARKED or redis.call('XLEN', intake) >= MOST_WAITING then return end
  local subject, content = event.id, redis.call('HGET', data, entry)
  if content then event[string.sub(content, 1, 1) == 't' and 'data' or 'data_base64'] = string.sub(content, 2) end
  local text = cjson.encode(event)
  if #text > LARGEST - OVERHEAD then
    event.data, event.data_base64 = nil, nil
    text = cjson.encode(event)
  end
  redis.call(
    'XADD', intake, '*', 'specversion', '1.0', 'id', uid .. '/' .. entry .. '/' .. (record.t or 0), 'source',
    '/eventjobs/' .. owner, 'type', PARKED, 'subject', subject, 'datacontenttype', 'application/json', 'eventjob',
    owner, 'reason', (string.gsub(record.x or '', '%c', ' ')), 'data', text
  )
end
