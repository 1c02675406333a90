-- The log of children of a kind that changed: a stream of members of the index of owners, '<owner uid> <field>'. A
-- reader of all children of an owner then reads only those that the log has named since (observe.lua).
--
-- The script that stores a child, or takes it out of the index, logs it. One whose lost entry of the index is made
-- again need not be in the log: the number of the owner's children shows it to the reader.

-- About how many entries are kept: some seconds of a busy kind.
local CHILD_LOG = 10000
-- Seconds after its last entry when a log goes. Its readers read all children once a minute all the same.
local CHILD_LOG_REST = 120

local function log_children(key, members)
  for _, member in ipairs(members) do
    redis.call('XADD', key, 'MAXLEN', '~', CHILD_LOG, '*', 'child', member)
  end
  if #members > 0 then
    redis.call('EXPIRE', key, CHILD_LOG_REST)
  end
end
