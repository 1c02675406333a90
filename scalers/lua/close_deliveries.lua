-- Purpose: takes an EventJob out of a channel that its spec no longer names, or removes everything of one that is gone.
-- KEYS: 1 to 18 as `deliveries`, 19 to 24 the channel: accepted, unfinished, intake, parked, seen, counts
-- ARGV: 1 the EventJob's uid, 2 the intake that it joins now, '' if it is gone
-- Answer: 1; 0 if events of the channel that no other EventJob takes arrived since it was read
-- Replay: nothing is left to remove.

-- include: channel

if ARGV[2] ~= '' then
  local known = cursors(KEYS[19])
  local last = known[GROUP .. ARGV[1]]
  known[GROUP .. ARGV[1]] = nil
  if last and not next(known) and redis.call('XRANGE', KEYS[19], '(' .. last, '+', 'COUNT', 1)[1] then return 0 end
end
leave(ARGV[1], { KEYS[19], KEYS[20], KEYS[21], KEYS[22], KEYS[23], KEYS[24] })
if ARGV[2] == '' then
  redis.call('UNLINK', unpack(KEYS, 1, 18))
else
  redis.call('HSET', KEYS[1], 'intake', ARGV[2])
  redis.call('HDEL', KEYS[1], 'taken')
end
return 1
