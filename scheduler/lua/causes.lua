-- The causes of marks on leased keys: changes that the holder may have made itself. A watch often shows a change before
-- its maker has stored it, which then withdraws the cause, for it knows the change. A cause that nobody has withdrawn
-- when the lease ends was a mark.
--
-- HASH key -> token of the lease, then the causes, one per line. The claim writes the token: a holder of an earlier
-- release, which asks for no causes, has none.
-- include: batches

-- A plan that makes more at once is worth one more decision.
local MOST_CAUSES = 8

-- Returns true if a cause is left. value: of the hash. token: of the lease.
local function caused(value, token)
  return string.match(value or '', '^(%d+)\n') == token
end

-- Adds causes and withdraws others. keys: leased or not. changes: by key, the list of causes `added` and the set of
-- those `withdrawn`. Returns the keys whose added causes must count as marks.
local function change_causes(of, keys, changes)
  local tokens = read_many('HMGET', of.leased, keys)
  local dirty, changed = {}, {}
  for i, value in ipairs(read_many('HMGET', of.causes, keys)) do
    local key = keys[i]
    local change = changes[key]
    local token, lines = string.match(value or '', '^(%d+)(.*)$')
    if token and token == tokens[i] then
      local left = {}
      local function keep(cause)
        if not change.withdrawn[cause] then
          left[#left + 1] = '\n' .. cause
        end
      end
      for cause in string.gmatch(lines, '[^\n]+') do
        keep(cause)
      end
      for _, cause in ipairs(change.added) do
        keep(cause)
      end
      if #left > MOST_CAUSES then
        dirty[#dirty + 1] = key
      elseif table.concat(left) ~= lines then
        changed[#changed + 1] = key
        changed[#changed + 1] = token .. table.concat(left)
      end
    elseif #change.added > 0 then
      dirty[#dirty + 1] = key
    end
  end
  write_many('HSET', of.causes, changed)
  return dirty
end
