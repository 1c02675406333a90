-- How one object stands in the store. A value of the hash of its kind (field: <namespace>/<name>) is
--
--   <resourceVersion> <seen> <uid> <owner uid> <owner key> <tie> <generation> <stamp> <watched><deleting> <JSON>
--
-- seen: microseconds on the broker's clock when this version came in. owner: the controller, uid and key, or '-'; of an
-- object that nobody controls the uid is '~<namespace>' if some controller adopts its kind.
-- tie: key of the object that this one names without being owned by it, or '-'; only of kinds that some controller sees
-- that way. stamp: changes with whatever a user writes that matters to a measurement (generation and annotations).
-- watched: 1 if a controller of ours reconciles this very object. deleting: 1 with a deletionTimestamp.
-- JSON: the object, or '-' once it is gone: a tombstone.
local HEAD = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%d)(%d) '

-- The value taken apart, without its JSON; nil for no value.
local function entry(value)
  if not value then
    return nil
  end
  local _, last, version, seen, uid, owner, owner_key, tie, generation, stamp, watched, deleting =
    string.find(value, HEAD)
  return {
    version = tonumber(version),
    seen = seen,
    uid = uid,
    owner = owner,
    owner_key = owner_key,
    tie = tie,
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
  return string.format('%.0f', e.version) .. ' ' .. e.seen .. ' ' .. e.uid .. ' ' .. e.owner .. ' ' .. e.owner_key .. ' '
    .. e.tie .. ' ' .. e.generation .. ' ' .. e.stamp .. ' ' .. flag(e.watched) .. flag(e.deleting) .. ' ' .. json
end
