-- Stores versions of objects and marks the keys they concern, in the transaction of the calling script.
--
--   local m = mover(keys, at, kind, now, routes)
--   m.known(fields)               -- reads the stored entries, once for all
--   m.relisting(begun)            -- from here on versions come from a relist that was begun then (us)
--   m.overruling(moment)          -- from here on versions were read from the API server after this moment (us)
--   m.acting(key)                 -- from here on changes are of this key's plan, which are no news for it; '': of none
--   m.watching()                  -- no plan's changes but a watch's, which may show those of plans at work
--   m.take(field, new, json)      -- stores a version, unless a later one is known
--   m.bury(field, version)        -- stores a tombstone
--   m.remind(field)               -- indexes a known object, and marks a watched one, although nothing changed
--   return m.settle()             -- writes; returns {awaited, lane name, notifications, lane name, notifications, ...}
--
-- keys[at+1..at+4]: objects, owners, gone, child log of the kind; keys[at+5...]: the keys of the lanes, then
-- the objects hashes of watched kinds. `routes` names both in their order, and the lanes of each kind:
-- '<lane>:<slots>;...|;<kind>=<place of its hash>,<lane>,...;...'.
-- A change marks the object's own key (if it is watched), its owner's and that of the object it names, before and after
-- the change (if they exist and are watched), in the first lane of their kinds; further lanes are marked only when the
-- object is created or deleted, or its stamp changes.
-- awaited: how many keys became ready, and how many changes of known objects mark others. What a plan at work has made,
-- and has not stored yet, is neither: it marks the plan's key alone, which is decided on when the plan has ended.
-- settle() publishes the changed fields, one per line, on the channel named like the objects hash: readers that follow
-- the store read only these. A user of the broker who may not publish stores all the same; followers then see changes
-- when they compare (changed.lua).
-- include: batches
-- include: fair_queueing
-- include: entries
-- include: child_log

-- The priority of relisted objects: behind current changes, but bounded (fair_queueing.lua), so not for ever.
local RELIST = -1

-- Returns the lanes by their names, the names in order, and a function that returns the route of a kind: its objects
-- hash and its lanes; false of a kind that is not watched. It is read when it is asked for: a call concerns one or two
-- of thirty kinds.
local function read_routes(keys, at, text, now)
  local bar = string.find(text, '|', 1, true)
  local lanes, names, routes = {}, {}, {}
  for name, slots in string.gmatch(string.sub(text, 1, bar - 1), '([^;:]+):(%d+)') do
    lanes[name] = lane(keys, at)
    lanes[name].now = now
    lanes[name].slots = tonumber(slots)
    names[#names + 1] = name
    at = at + LANE_KEYS
  end
  local function route(kind)
    if routes[kind] == nil then
      local _, last = string.find(text, ';' .. kind .. '=', bar, true)
      local place, list = string.match(text, '^(%d+)([^;]*)', (last or #text) + 1)
      routes[kind] = place and { hash = keys[at + place], lanes = {} } or false
      for name in string.gmatch(list or '', '[^,]+') do
        table.insert(routes[kind].lanes, lanes[name])
      end
    end
    return routes[kind]
  end
  return lanes, names, route
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
  write_many('ZADD', key, add)
  write_many('ZREM', key, remove)
end

local function mover(keys, at, kind, now, routes)
  local objects, owners, gone, log = keys[at + 1], keys[at + 2], keys[at + 3], keys[at + 4]
  local lanes, names, route = read_routes(keys, at + 4, routes, now)
  local seen = string.format('%.0f', now)
  local priority, begun, acting, watching = 0, 0, '', false
  local entries, others = {}, {}
  -- Collected, and written once by settle(): within one batch an object may be created, deleted and created again.
  local values, named, buried, changed_children = {}, {}, {}, {}
  local awaited = 0
  local m = {}

  local function own_lanes()
    local own = route(kind)
    return own and own.lanes or {}
  end

  -- Returns another object's entry, if a controller of ours reconciles it.
  local function watched_other(key)
    if others[key] == nil then
      local its_kind, field = string.match(key, '^([^/]*)/(.*)$')
      local its = its_kind and route(its_kind)
      others[key] = its and entry(redis.call('HGET', its.hash, field)) or false
      if others[key] then
        others[key].lanes = its.lanes
      end
    end
    local other = others[key]
    return other and other.watched and not other.gone and other or nil
  end

  -- Names a version for the causes of marks. Of one uid there is one deletion, whatever version it is known by.
  local function cause(field, e)
    return kind .. '/' .. field .. '@' .. (e.gone and e.uid or string.format('%.0f', e.version))
  end

  -- Marks the object of this key, if it has this uid (nil: any). Returns 1, or 0 if there is no such object.
  local function mark_other(key, uid, because)
    if key == '-' or key == acting then
      return 0
    end
    local other = watched_other(key)
    if other and other.lanes[1] and (not uid or other.uid == uid) then
      mark(other.lanes[1], key, now, priority, false, because)
      return 1
    end
    return 0
  end

  -- Returns how many objects were marked.
  local function mark_concerned(e, because)
    return mark_other(e.owner_key, e.owner, because) + mark_other(e.refers_to, nil, because)
  end

  -- The child of this owner ('-': of none) is stored, or leaves it.
  local function log_child(owner, field)
    if owner ~= '-' then
      changed_children[#changed_children + 1] = owner .. ' ' .. field
    end
  end

  local function log_referrer(key, field)
    if key ~= '-' then
      log_child('@' .. key, field)
    end
  end

  -- The index of referrers holds living objects only.
  local function index_reference(field, old, new)
    if old and old.refers_to ~= '-' then
      named['@' .. old.refers_to .. ' ' .. field] = false
    end
    if new.refers_to ~= '-' then
      named['@' .. new.refers_to .. ' ' .. field] = not new.gone
    end
  end

  local function mark_self(field, old, new, because)
    local key = kind .. '/' .. field
    local same = old and old.uid == new.uid and old.gone == new.gone and old.watched == new.watched
    local edited = not same or old.generation ~= new.generation
    local deleting = not same or old.deleting ~= new.deleting
    for i, into in ipairs(own_lanes()) do
      if i > 1 then
        if not same or old.stamp ~= new.stamp then
          mark(into, key, now, priority, true)
        end
      elseif key ~= acting or (same and edited) then
        local news = edited or deleting
        mark(into, key, now, priority, news, not news and because or nil)
      end
    end
  end

  -- Withdraws the mark of a plan's change that a watch has stored already.
  local function withdraw_mark(field, old, new)
    local its = route(string.match(acting, '^[^/]*'))
    local same = old.uid == new.uid and old.gone == new.gone and (old.gone or old.version == new.version)
    if same and its and its.lanes[1] then
      withdraw(its.lanes[1], acting, cause(field, old))
    end
  end

  -- Returns true if `new` replaces `old`. Versions order all, but a uid never returns once it is gone, and a deletion
  -- of unknown version (0) concerns only the object of its uid. A relist, or an object read by itself, replaces every
  -- version stored before that began: its own may be lower (the cluster was restored from a backup, or is another one),
  -- or equal with another header (the header depends on the controllers that run, and a new release may have others).
  local function supersedes(old, new)
    if not old then
      return true
    end
    if m.outdated(old) then
      return old.uid ~= new.uid
        or old.version ~= new.version
        or old.gone ~= new.gone
        or old.owner ~= new.owner
        or old.refers_to ~= new.refers_to
        or old.watched ~= new.watched
    end
    if old.uid ~= new.uid then
      return new.version > old.version
    end
    if old.gone then
      -- Of a tombstone without a version an earlier object of that name would not know that it is earlier.
      return new.gone and old.version == 0 and new.version > 0
    end
    return new.gone or new.version > old.version
  end

  function m.known(fields)
    for i, value in ipairs(read_many('HMGET', objects, fields)) do
      entries[fields[i]] = entry(value) or false
    end
  end

  -- Replaces known() for a value that was read already.
  function m.offer(field, value)
    entries[field] = entry(value) or false
    return entries[field]
  end

  function m.relisting(since)
    priority, begun = RELIST, since
  end

  function m.overruling(moment)
    begun = moment
  end

  function m.acting(key)
    acting = key
  end

  function m.watching()
    watching = true
  end

  function m.outdated(e)
    return tonumber(e.seen) < begun
  end

  function m.take(field, new, json)
    local old = entries[field] or nil
    if not supersedes(old, new) then
      if acting ~= '' then
        withdraw_mark(field, old, new)
      end
      return
    end
    new.seen = seen
    if old and new.gone and old.uid == new.uid then
      -- A deletion without the last state keeps what the entry knows: its owner must be marked.
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
    index_reference(field, old, new)
    log_child(new.owner, field)
    log_referrer(new.refers_to, field)
    if old and old.owner ~= new.owner then
      log_child(old.owner, field)
    end
    if old and old.refers_to ~= new.refers_to then
      log_referrer(old.refers_to, field)
    end
    buried[field] = new.gone
    values[field] = value_of(new, json)
    entries[field] = new
    if old and (old.owner ~= new.owner or old.refers_to ~= new.refers_to) then
      awaited = awaited + mark_concerned(old, nil)
    end
    local because = watching and cause(field, new) or nil
    local marked = mark_concerned(new, because)
    if old then
      awaited = awaited + marked
    end
    if new.watched or (old and old.watched) then
      mark_self(field, old, new, because)
    end
  end

  -- Stores a tombstone of this version. Of an existing one only a version of another history changes, which no reader
  -- sees.
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
    if e then
      -- Its entries of the indexes may be lost although it is stored.
      if e.owner ~= '-' then
        named[e.owner .. ' ' .. field] = true
      end
      index_reference(field, nil, e)
    end
    if e and e.watched then
      for _, into in ipairs(own_lanes()) do
        mark(into, kind .. '/' .. field, now, priority, false)
      end
    end
  end

  function m.settle()
    local sets, changed = {}, {}
    for field, value in pairs(values) do
      sets[#sets + 1] = field
      sets[#sets + 1] = value
      changed[#changed + 1] = field
    end
    log_children(log, changed_children)
    write_many('HSET', objects, sets)
    if #changed > 0 then
      redis.pcall('PUBLISH', objects, table.concat(changed, '\n'))
    end
    scored(owners, named, 0)
    scored(gone, buried, now)
    local answer = { 0 }
    for _, name in ipairs(names) do
      local newly, notifications = settle(lanes[name], lanes[name].slots)
      awaited = awaited + newly
      answer[#answer + 1] = name
      answer[#answer + 1] = notifications
    end
    answer[1] = awaited
    return answer
  end

  return m
end
