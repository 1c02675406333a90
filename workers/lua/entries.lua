-- The format of a stored object. A value of the hash of its kind (field: <namespace>/<name>) is
--
--   <resourceVersion> <seen> <uid> <owner uid> <owner key> <refers to> <generation> <stamp> <watched><deleting> <JSON>
--
-- The header repeats what scripts need: parsing JSON in Lua would cost milliseconds per object.
-- seen: microseconds on the broker's clock when this version was stored. owner: uid and key of the controller, or '-';
-- without a controller the uid is '~<namespace>' if some controller adopts the kind. refers to: key of the object that
-- this one names without being owned by it, or '-'. stamp: changes with generation and annotations, which is when
-- triggers are measured again. watched: 1 if a controller of ours reconciles the object. deleting: 1 with a
-- deletionTimestamp. JSON: the object, compressed if it is large (workers/cache/codec.py), or '-' for a tombstone.
local HEAD = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d)(%d) '

-- Returns the header of a value; nil for no value, and for one that cannot be read: it counts as missing.
local function entry(value)
  if not value then
    return nil
  end
  local _, last, version, seen, uid, owner, owner_key, refers_to, generation, stamp, watched, deleting =
    string.find(value, HEAD)
  if not last or not tonumber(version) or not tonumber(seen) then
    return nil
  end
  return {
    version = tonumber(version),
    seen = seen,
    uid = uid,
    owner = owner,
    owner_key = owner_key,
    refers_to = refers_to,
    generation = generation,
    stamp = stamp,
    watched = watched == '1',
    deleting = deleting == '1',
    gone = string.sub(value, last + 1, last + 2) == '-',
  }
end

local function flag(condition)
  return condition and '1' or '0'
end

local function value_of(e, json)
  local version = string.format('%.0f', e.version)
  local head = { version, e.seen, e.uid, e.owner, e.owner_key, e.refers_to, e.generation, e.stamp }
  return table.concat(head, ' ') .. ' ' .. flag(e.watched) .. flag(e.deleting) .. ' ' .. json
end
