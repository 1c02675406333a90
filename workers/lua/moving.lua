-- Taking versions of objects into the store, and marking what they concern, in one go.
--
--   local m = mover(keys, at, kind, now, acting, routes)
--   m.known(fields)               -- read what is there, once for all
--   m.relisting(begun)            -- from here on versions come from a listing that was begun then (us)
--   m.take(field, new, json)      -- a version; answers whether it moved anything
--   m.bury(field, version)        -- it is gone
--   m.remind(field)               -- mark a watched object again although nothing moved
--   return m.settle()             -- write; answers {moved, lane name, notifications, lane name, notifications, ...}
--
-- keys[at+1..at+3]: objects, owners, gone of the kind; keys[at+4...]: what `routes` says, in its order:
-- '<kind>=<lane>,<lane>;...|<lane>:<slots>;...': first the objects hash of every watched kind, then the lanes' keys. A move
-- marks the object's own key (if it is watched), its owner's and that of the one it names, before the move and after
-- it (if they are there and watched), in the first lane of their kinds; further lanes hear of an object only when it
-- comes, goes, or when its stamp changes.
-- include: batches
-- include: marking
-- include: entries

-- Relisted objects and the initial list wait behind what happens now, but not for ever.
local RELIST = -1

local function read_routes(keys, at, text, now)
  local kinds_text, lanes_text = string.match(text, '^(.*)|(.*)$')
  local hashes, lanes_of, lanes, names = {}, {}, {}, {}
  for kind, list in string.gmatch(kinds_text, '([^;=]+)=([^;]*)') do
    at = at + 1
    hashes[kind] = keys[at]
    lanes_of[kind] = list
  end
  for name, slots in string.gmatch(lanes_text, '([^;:]+):(%d+)') do
    lanes[name] = lane(keys, at)
    lanes[name].now = now
    lanes[name].slots = tonumber(slots)
    names[#names + 1] = name
    at = at + LANE_KEYS
  end
  for kind, list in pairs(lanes_of) do
    lanes_of[kind] = {}
    for name in string.gmatch(list, '[^,]+') do
      table.insert(lanes_of[kind], lanes[name])
    end
  end
  return hashes, lanes_of, lanes, names
end

-- Adds the members that hold, with this score, and removes those that do not.
local function scored(key, members, score)
  local add, remove = {}, {}
  for member, holds in pairs(members) do
    if holds then
      add[#add + 1] = score
      add[#add + 1] = member
    else
      remove[#remove + 1] = member
    end
  end
  tell('ZADD', key, add)
  tell('ZREM', key, remove)
end

local function mover(keys, at, kind, now, acting, routes)
  local objects, owners, gone = keys[at + 1], keys[at + 2], keys[at + 3]
  local hashes, lanes_of, lanes, names = read_routes(keys, at + 3, routes, now)
  local seen = string.format('%.0f', now)
  local priority, begun = 0, 0
  local entries, others = {}, {}
  -- What holds in the end: within one batch the same object may come, go and come again.
  local values, named, buried = {}, {}, {}
  local moved = 0
  local m = {}

  -- Another object's entry, if it is one that a controller of ours looks after.
  local function watched_other(key)
    if others[key] == nil then
      local its_kind, field = string.match(key, '^([^/]*)/(.*)$')
      local hash = hashes[its_kind]
      others[key] = hash and entry(redis.call('HGET', hash, field)) or false
      if others[key] then
        others[key].lanes = lanes_of[its_kind]
      end
    end
    local other = others[key]
    return other and other.watched and not other.gone and other or nil
  end

  -- The object of this key hears of a move, unless another uid is meant (nil: whoever has the name).
  local function mark_other(key, uid)
    if key == '-' or key == acting then
      return
    end
    local other = watched_other(key)
    if other and other.lanes[1] and (not uid or other.uid == uid) then
      mark(other.lanes[1], key, now, priority, false)
    end
  end

  local function mark_named(e)
    mark_other(e.owner_key, e.owner)
    mark_other(e.tie, nil)
  end

  -- Among those that name another stand the living only: of a tombstone nobody asks whom it named.
  local function tie(field, old, new)
    if old and old.tie ~= '-' then
      named['@' .. old.tie .. ' ' .. field] = false
    end
    if new.tie ~= '-' then
      named['@' .. new.tie .. ' ' .. field] = not new.gone
    end
  end

  local function mark_self(field, old, new)
    local key = kind .. '/' .. field
    local same = old and old.uid == new.uid and old.gone == new.gone and old.watched == new.watched
    local edited = not same or old.generation ~= new.generation
    local deleting = not same or old.deleting ~= new.deleting
    for i, into in ipairs(lanes_of[kind] or {}) do
      if i > 1 then
        if not same or old.stamp ~= new.stamp then
          mark(into, key, now, priority, true)
        end
      elseif key ~= acting or (same and edited) then
        mark(into, key, now, priority, edited or deleting)
      end
    end
  end

  -- Which of two versions is the later one? Versions order all; but the same uid never comes back once it is gone, and
  -- a deletion whose version nobody told (0) concerns only the object of its uid. A listing knows all that came in
  -- before it was begun: where it differs from that, it is right, even if its versions are lower (the cluster was
  -- restored from a backup, or is another one than before) or the same (what stands in a header beside the object
  -- depends on the controllers that run, and those may be others than before).
  local function supersedes(old, new)
    if not old then
      return true
    end
    if m.outdated(old) then
      return old.uid ~= new.uid
        or old.version ~= new.version
        or old.gone ~= new.gone
        or old.owner ~= new.owner
        or old.tie ~= new.tie
        or old.watched ~= new.watched
    end
    if old.uid == new.uid then
      return not old.gone and (new.gone or new.version > old.version)
    end
    return new.version > old.version
  end

  function m.known(fields)
    for i, value in ipairs(ask('HMGET', objects, fields)) do
      entries[fields[i]] = entry(value) or false
    end
  end

  -- Instead of known(): the value of a field that was read already.
  function m.offer(field, value)
    entries[field] = entry(value)
    return entries[field]
  end

  function m.relisting(since)
    priority, begun = RELIST, since
  end

  function m.outdated(e)
    return tonumber(e.seen) < begun
  end

  function m.take(field, new, json)
    local old = entries[field] or nil
    if not supersedes(old, new) then
      return false
    end
    new.seen = seen
    if old and new.gone and old.uid == new.uid then
      -- What a deletion does not say is still known.
      new.version = m.outdated(old) and new.version or math.max(new.version, old.version)
      if new.owner == '-' then
        new.owner, new.owner_key = old.owner, old.owner_key
      end
    end
    if old and old.owner ~= '-' and old.owner ~= new.owner then
      named[old.owner .. ' ' .. field] = false
    end
    if new.owner ~= '-' then
      named[new.owner .. ' ' .. field] = true
    end
    tie(field, old, new)
    buried[field] = new.gone
    values[field] = value_of(new, json)
    entries[field] = new
    if old and (old.owner ~= new.owner or old.tie ~= new.tie) then
      mark_named(old)
    end
    mark_named(new)
    if new.watched or (old and old.watched) then
      mark_self(field, old, new)
    end
    moved = moved + 1
    return true
  end

  -- Nobody has this object any more, as of this version. Of a tombstone only a version of another history changes.
  function m.bury(field, version)
    local e = entries[field]
    local grave = { version = version, gone = true }
    if e.gone then
      if e.version > version then
        values[field] = value_of(setmetatable(grave, { __index = e }), '-')
      end
    else
      m.take(field, setmetatable(grave, { __index = e }), '-')
    end
  end

  function m.remind(field)
    local e = entries[field]
    if e and e.watched then
      for _, into in ipairs(lanes_of[kind] or {}) do
        mark(into, kind .. '/' .. field, now, priority, false)
      end
    end
  end

  function m.settle()
    local sets = {}
    for field, value in pairs(values) do
      sets[#sets + 1] = field
      sets[#sets + 1] = value
    end
    tell('HSET', objects, sets)
    scored(owners, named, 0)
    scored(gone, buried, now)
    local answer = { moved }
    for _, name in ipairs(names) do
      local _, notifications = settle(lanes[name], lanes[name].slots)
      answer[#answer + 1] = name
      answer[#answer + 1] = notifications
    end
    return answer
  end

  return m
end
