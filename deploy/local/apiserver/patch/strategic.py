"""Kubernetes' strategic merge patch: a merge patch that knows which lists are keyed.

Directives, as clients send them: ``$patch`` (replace, delete, merge) in an object or in an item of a keyed list,
``$deleteFromPrimitiveList/<field>``, ``$setElementOrder/<field>`` and ``$retainKeys``. Only built-in types can
be patched this way: a custom resource's lists have no keys that all sides agree on.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import orjson

from deploy.local.apiserver.codec.definitions import Merging, Type, definition, model_of
from deploy.local.apiserver.patch import PatchError
from workers.api.kinds import Kind, Object

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge_patch(kind: Kind, doc: Object, patch: Any) -> Object:
    """`doc`, an object of a built-in kind, with `patch` merged in. Neither is changed.

    Raises PatchError: 400 for a malformed patch, 422 for an item without its merge key (500 on a real server), an
    unknown ``$patch`` or lists in lists. Raises LookupError for a kind that is not built in.
    """
    if not isinstance(patch, dict):
        raise PatchError("json: cannot unmarshal array into Go value of type map[string]interface {}", status=400)
    return _object(doc, patch, Type(model_of(kind)))


def _object(target: Object, patch: Object, kind: Type) -> Object:
    match patch.get(_PATCH):
        case None | "merge":
            pass
        case "replace":
            return {name: _plain(value) for name, value in patch.items() if name != _PATCH}
        case "delete":
            return {}
        case other:
            raise PatchError(f"unknown patch type: {other} in map: {_go(patch)}")
    result = _retained(target, patch)
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        field_type, merging = _field(kind, name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            old = result.get(name)
            result[name] = _object(old if isinstance(old, dict) else {}, value, field_type)
        elif isinstance(value, list) and merging is not None and merging.elements and name in result:
            result[name] = _list(_old_list(result, name), value, field_type.items or field_type, merging)
        else:
            result[name] = _plain(value)
    for name in patch:
        if name.startswith(_DELETE):
            _delete_values(result, name.removeprefix(_DELETE), patch[name])
    for name in patch:
        if name.startswith(_ORDER):
            _reorder(result, target, name.removeprefix(_ORDER), patch, kind)
    return result


def _field(kind: Type, name: str) -> tuple[Type, Merging | None]:
    """The type of a member and how it merges; a map's members are all alike, an unknown one has no rules."""
    if kind.values is not None:
        return kind.values, None
    if kind.struct and (field := definition(kind.name).fields.get(name)) is not None:
        return field.type, field.merging
    return Type("any"), None


def _old_list(result: Object, name: str) -> list[Any]:
    old = result.get(name)
    return old if isinstance(old, list) else []


def _retained(target: Object, patch: Object) -> Object:
    """A copy of `target` without the members that ``$retainKeys`` does not name."""
    keep = patch.get(_RETAIN)
    if keep is None:
        return dict(target)
    names = {name for name, value in patch.items() if not name.startswith("$") and value is not None}
    if not isinstance(keep, list) or not names <= set(map(str, keep)):
        raise PatchError("invalid patch format of retainKeys", status=400)
    return {name: value for name, value in target.items() if name in keep}


def _list(old: list[Any], patch: list[Any], item: Type, merging: Merging) -> list[Any]:
    if any(isinstance(entry, list) for entry in patch):
        raise PatchError("lists of lists are not supported")
    if merging.key is None:
        merged = old + [_key(entry, None) for entry in patch]
        return _ordered(list(dict.fromkeys(merged)), patch, old, None)
    if any(isinstance(entry, dict) and entry.get(_PATCH) == "replace" for entry in patch):
        return [_plain(entry) for entry in patch if _PATCH not in entry]
    key = merging.key
    deleted = {_key(entry, key) for entry in patch if isinstance(entry, dict) and entry.get(_PATCH) == "delete"}
    merged = [entry for entry in old if _key(entry, key) not in deleted]
    plain = [entry for entry in patch if not (isinstance(entry, dict) and entry.get(_PATCH) == "delete")]
    places: dict[Any, int] = {}
    for index, known in enumerate(merged):
        places.setdefault(_key(known, key), index)
    for entry in plain:
        at = places.setdefault(_key(entry, key), len(merged))
        if at == len(merged):
            merged.append(_object({}, entry, item))
        else:
            merged[at] = _object(merged[at], entry, item)
    return _ordered(merged, plain, old, key)


def _key(entry: Any, key: str | None) -> Any:
    """Returns the identity of an item: its merge key, or itself when it is a plain value."""
    if key is not None and (not isinstance(entry, dict) or key not in entry):
        raise PatchError(f"map: {_go(entry)} does not contain declared merge key: {key}")
    value = entry if key is None else entry[key]
    if isinstance(value, (dict, list)):
        raise PatchError(f"{_go(value)} is no plain value that tells an item apart")
    return value


def _ordered(merged: list[Any], wanted: Sequence[Any], live: Sequence[Any], key: str | None) -> list[Any]:
    """`merged` with the items of `wanted` in that order.

    The others keep their own order; each goes before the first wanted item that follows it in `live`.
    """
    rank = {_key(entry, key): index for index, entry in enumerate(wanted)}
    place = {_key(entry, key): index for index, entry in enumerate(live)}
    named = sorted((entry for entry in merged if _key(entry, key) in rank), key=lambda entry: rank[_key(entry, key)])
    others = deque(entry for entry in merged if _key(entry, key) not in rank)
    result: list[Any] = []
    for entry in named:
        at = place.get(_key(entry, key))
        while at is not None and others and place.get(_key(others[0], key), at) < at:
            result.append(others.popleft())
        result.append(entry)
    return [*result, *others]


def _delete_values(result: Object, name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise PatchError("invalid patch format of primitive list", status=400)
    old = result.get(name)
    if isinstance(old, list):
        gone = {orjson.dumps(value) for value in values}
        result[name] = [entry for entry in old if orjson.dumps(entry) not in gone]


def _reorder(result: Object, target: Object, name: str, patch: Object, kind: Type) -> None:
    order = patch[_ORDER + name]
    _type, merging = _field(kind, name)
    if not isinstance(order, list) or merging is None:
        raise PatchError("invalid patch format of setElementOrder list", status=400)
    key = merging.key
    wanted = [_key(entry, key) for entry in order]
    given = [
        _key(entry, key)
        for entry in patch.get(name) or ()
        if not (isinstance(entry, dict) and entry.get(_PATCH) in ("delete", "replace"))
    ]
    among = set(given)
    if given != [value for value in wanted if value in among]:
        raise PatchError(
            f"The order in patch list:\n{_go(given)}\n doesn't match {_ORDER}{name} list:\n{_go(wanted)}\n"
        )
    if isinstance(result.get(name), list):
        result[name] = _ordered(result[name], order, _old_list(target, name), key)


def _plain(value: Any) -> Any:
    """A value of a patch as it is stored: without nulls in objects and without directives."""
    if isinstance(value, dict):
        return {
            name: _plain(member) for name, member in value.items() if member is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [_plain(entry) for entry in value if not (isinstance(entry, dict) and _PATCH in entry)]
    return value


def _go(value: Any) -> str:
    """A value as Go prints it in messages: ``map[name:x]``, ``[a b]``."""
    match value:
        case dict():
            return f"map[{' '.join(f'{name}:{_go(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_go, value))}]"
        case _:
            return str(value)
