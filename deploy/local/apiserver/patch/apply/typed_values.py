"""Values with a merge type: their fields, how two of them differ, and how one is merged into another.

No function changes its arguments; results may share unchanged parts with them. Decoded JSON goes in and comes out.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.apply import field_sets
from deploy.local.apiserver.patch.apply.field_sets import FieldSet, Path
from deploy.local.apiserver.patch.apply.merge_types import LEAF, MergeForm, MergeType
from deploy.local.apiserver.patch.patches import same

#: Stands for a value that is not there; None is JSON's null.
_ABSENT: Any = object()


def check(kind: MergeType, config: Any) -> None:
    """Refuses (PatchError, 400) a value with unknown fields, repeated items, or another form than its type's."""
    _check(kind, config, ())


def _check(kind: MergeType, value: Any, path: Path) -> None:
    if value is None:
        return
    match kind.form:
        case MergeForm.MAP:
            if not isinstance(value, dict):
                raise _wrong(path, f"expected map, got {_named(value)}")
            for name, member in value.items():
                place = (*path, field_sets.field(name))
                if (known := kind.member(name)) is None:
                    raise _wrong(place, "field not declared in schema")
                _check(known, member, place)
        case MergeForm.LIST:
            if not isinstance(value, list):
                raise _wrong(path, f"expected list, got {_named(value)}")
            seen: set[str] = set()
            for index, item in enumerate(value):
                try:
                    element = kind.element(item)
                except PatchError as error:
                    raise _wrong(path, f"element {index}: {error}") from None
                if element in seen:
                    raise _wrong(path, f"duplicate entries for key {field_sets.spelled((element,))}")
                seen.add(element)
                _check(kind.below(element), item, (*path, element))


def _named(value: Any) -> str:
    return {dict: "map", list: "list", str: "string", bool: "boolean"}.get(type(value), "numeric")


def _wrong(path: Path, why: str) -> PatchError:
    return PatchError(f"{field_sets.spelled(path)}: {why}", status=400)


def field_set(kind: MergeType, value: Any, *, empty_lists: bool = False) -> FieldSet:
    """Returns the fields of a value: its leaves, its items, its empty objects, and members that are not declared.

    empty_lists: lists without items are fields, too, even if they would be owned item by item.
    """
    return frozenset(_fields(kind, value, (), (None, {}, []) if empty_lists else (None, {})))


def _fields(kind: MergeType, value: Any, path: Path, empty: Sequence[Any]) -> Iterator[Path]:
    match kind.form_of(value):
        case MergeForm.MAP:
            for name, member in (value or {}).items():
                place = (*path, field_sets.field(name))
                yield from _fields(kind.member(name) or LEAF, member, place, empty)
                if member in empty or name not in kind.declared:
                    yield place
        case MergeForm.LIST:
            for element, items in _items(kind, value).items():
                place = (*path, element)
                if len(items) == 1:
                    yield from _fields(kind.below(element), items[0], place, empty)
                yield place
        case _:
            yield path


def _items(kind: MergeType, value: Any) -> dict[str, list[Any]]:
    """The items of a list by their elements; a stored list may hold several with the same."""
    found: dict[str, list[Any]] = {}
    for item in value if isinstance(value, list) else ():
        found.setdefault(kind.element(item), []).append(item)
    return found


@dataclass(slots=True)
class Comparison:
    """The fields by which two values differ."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)


def compare(kind: MergeType, old: Any, new: Any) -> Comparison:
    """Returns the fields by which `new` differs from `old`."""
    found = Comparison()
    _compare(kind, old, new, (), found)
    return found


def _compare(kind: MergeType, old: Any, new: Any, path: Path, found: Comparison) -> None:
    forms = {kind.form_of(value) for value in (old, new) if value is not _ABSENT}
    # Where nothing is known of the type, an object may become a plain value: both are compared.
    leaf = not any(_compare_as(form, kind, old, new, path, found) for form in forms)
    if old is _ABSENT:
        found.added.add(path)
    elif new is _ABSENT:
        found.removed.add(path)
    elif (leaf or len(forms) > 1) and not same(old, new):
        found.modified.add(path)


def _compare_as(form: MergeForm, kind: MergeType, old: Any, new: Any, path: Path, found: Comparison) -> bool:
    """Compares the members of two values; False if there are none, or if the values are owned as a whole."""
    if form is MergeForm.LEAF or not (_content(form, old) or _content(form, new)):
        return False
    if form is MergeForm.LIST:
        _compare_lists(kind, old, new, path, found)
        return True
    before, after = (_whole(kind, value) for value in (old, new))
    for name in {**before, **after}:
        known = kind.member(name) or LEAF
        place = (*path, field_sets.field(name))
        _compare(known, before.get(name, _ABSENT), after.get(name, _ABSENT), place, found)
    return True


def _content(form: MergeForm, value: Any) -> bool:
    return isinstance(value, dict if form is MergeForm.MAP else list) and bool(value)


def _whole(kind: MergeType, value: Any) -> Mapping[str, Any]:
    """An object with the members that it always has; nothing for one that is not there."""
    return {**kind.present, **value} if isinstance(value, dict) else {}


def _compare_lists(kind: MergeType, old: Any, new: Any, path: Path, found: Comparison) -> None:
    before, after = _items(kind, old), _items(kind, new)
    for element in {**before, **after}:
        place, lefts, rights = (*path, element), before.get(element, []), after.get(element, [])
        if len(lefts) <= 1 and len(rights) <= 1:
            left, right = (items[0] if items else _ABSENT for items in (lefts, rights))
            _compare(kind.below(element), left, right, place, found)
        elif len(lefts) > 1 and len(rights) > 1:
            if not same(lefts, rights):
                found.modified.add(place)
        elif len(lefts) > 1:
            if rights:
                _compare(kind.below(element), _ABSENT, rights[0], place, found)
            found.removed.add(place)
        else:
            if lefts:
                _compare(kind.below(element), lefts[0], _ABSENT, place, found)
            found.added.add(place)


def merge(kind: MergeType, live: Any, config: Any) -> Any:
    """Returns `live` with everything that `config` says; nothing that `config` leaves out is removed."""
    form = kind.form_of(config)
    if form is MergeForm.MAP and isinstance(live, dict) and live and (config is None or isinstance(config, dict)):
        merged = dict(live)
        for name, value in (config or {}).items():
            merged[name] = merge(kind.member(name) or LEAF, live[name], value) if name in live else value
        return merged
    if form is MergeForm.LIST and isinstance(live, list) and live and (config is None or isinstance(config, list)):
        return _merge_lists(kind, live, config or ())
    return config


def _merge_lists(kind: MergeType, live: Sequence[Any], config: Sequence[Any]) -> list[Any]:
    """The items of `config` in its order; each other item of `live` stays before those that it preceded there."""
    applied = {kind.element(item): item for item in config}
    known = _items(kind, live)
    order = [kind.element(item) for item in live]
    shared = deque(element for element in applied if element in known)
    merged: list[Any] = []
    at = 0

    def others() -> None:
        """Takes the items of `live` up to the next one that both have."""
        nonlocal at
        while at < len(order) and not (shared and order[at] == shared[0]):
            if order[at] not in applied:
                merged.append(live[at])
            at += 1

    for element, item in applied.items():
        others()
        found = known.get(element, ())
        merged.append(merge(kind.below(element), found[0], item) if len(found) == 1 else item)
        if found:
            shared.popleft()
    others()
    return merged


def with_members(kind: MergeType, fields: FieldSet) -> FieldSet:
    """Returns the set with every declared member that contains one of these fields."""
    return fields | {prefix for prefix in field_sets.prefixes(fields) if _declared(kind, prefix)}


def _declared(kind: MergeType, path: Path) -> bool:
    for element in path[:-1]:
        kind = kind.below(element)
    return path[-1].startswith("f:") and path[-1][2:] in kind.declared


def remove(kind: MergeType, value: Any, fields: FieldSet) -> Any:
    """Returns the value without these fields; an object or a list that loses its last member stays, empty."""
    return _remove(kind, value, fields, field_sets.prefixes(fields), ()) if fields else value


def _remove(kind: MergeType, value: Any, fields: FieldSet, above: FieldSet, path: Path) -> Any:
    def kept(element: str, member: Any) -> Any:
        place = (*path, element)
        if place in fields:
            return _ABSENT
        return _remove(kind.below(element), member, fields, above, place) if place in above else member

    match kind.form_of(value):
        case MergeForm.MAP if isinstance(value, dict):
            members = {name: kept(field_sets.field(name), member) for name, member in value.items()}
            return {name: member for name, member in members.items() if member is not _ABSENT}
        case MergeForm.LIST if isinstance(value, list):
            items = (kept(kind.element(item), item) for item in value)
            return [item for item in items if item is not _ABSENT]
    return value
