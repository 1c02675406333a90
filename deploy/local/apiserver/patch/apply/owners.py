"""The owners of the fields of an object, before and after one of them applies or updates it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deploy.local.apiserver.patch.apply import field_sets, typed_values
from deploy.local.apiserver.patch.apply.field_sets import FieldSet, Path
from deploy.local.apiserver.patch.apply.merge_types import MergeType
from workers.api.kinds import Object


class OwnerOperation(StrEnum):
    """The kinds of writes that make a client own fields."""

    #: A server-side apply: it owns what it says, and takes back what it no longer says.
    APPLY = "Apply"
    #: Any other write: it owns what it changes.
    UPDATE = "Update"


@dataclass(frozen=True, slots=True)
class Manager:
    """One owner of fields. api_version: of updates only; an applier is the same in every version."""

    name: str
    operation: OwnerOperation
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """The manager as messages of conflicts name it."""
        named = field_sets.quoted(self.name)
        if self.subresource:
            named += f" with subresource {field_sets.quoted(self.subresource)}"
        return f"{named} using {self.api_version}" if self.operation is OwnerOperation.UPDATE else named


#: The fields of each owner; those of none are left out.
Owners = Mapping[Manager, FieldSet]


class ConflictError(Exception):
    """Fields that an apply would change belong to others. fields: those of each manager."""

    def __init__(self, fields: Owners) -> None:
        super().__init__(_message(fields))
        self.fields = fields

    @property
    def causes(self) -> list[Object]:
        """The causes of the `Status` that answers it."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field_sets.spelled(path)}
            for manager, path in _pairs(self.fields)
        ]


def _pairs(fields: Owners) -> Sequence[tuple[Manager, Path]]:
    return [(manager, path) for manager in sorted(fields, key=str) for path in sorted(fields[manager])]


def _message(fields: Owners) -> str:
    pairs = _pairs(fields)
    if len(pairs) == 1:
        manager, path = pairs[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {field_sets.spelled(path)}"
    lines: list[str] = []
    for manager, path in pairs:
        if (head := f"conflicts with {manager}:") not in lines:
            lines.append(head)
        lines.append(f"- {field_sets.spelled(path)}")
    return f"Apply failed with {len(pairs)} conflicts: " + "\n".join(lines)


#: What nobody owns, because nobody chooses it.
_NOT_OWNED = frozenset({("f:apiVersion",), ("f:kind",), ("f:metadata",)}) | {
    ("f:metadata", f"f:{name}")
    for name in (
        *("name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "selfLink"),
        *("managedFields", "clusterName"),
    )
}


def _owned(owners: Owners) -> dict[Manager, FieldSet]:
    return {manager: left for manager, fields in owners.items() if (left := fields - _NOT_OWNED)}


def update(kind: MergeType, owners: Owners, manager: Manager, old: Any, new: Any) -> Owners:
    """Returns the owners after an update by `manager`: it owns what it changed, and what is gone has no owner."""
    change = typed_values.compare(kind, old, new)
    changed = frozenset(change.added | change.modified)
    after = {other: fields - changed - change.removed for other, fields in owners.items()}
    after[manager] = (owners.get(manager, frozenset()) - change.removed) | changed
    return _owned(after)


def apply(
    kind: MergeType, owners: Owners, manager: Manager, live: Any, config: Any, *, force: bool = False
) -> tuple[Any, Owners]:
    """Returns the object after `manager` has applied `config` to `live`, and its owners.

    Removes fields that the manager applied before, leaves out now and alone owns. Raises ConflictError if
    others own what would change; with `force` they lose it. Raises PatchError (400) for a config of another form.
    """
    typed_values.check(kind, config)
    merged = typed_values.merge(kind, live, config)
    last = owners.get(manager, frozenset())
    after = {**owners, manager: typed_values.field_set(kind, config)}
    merged = _pruned(kind, merged, last, after)
    change = typed_values.compare(kind, live, merged)
    changed = frozenset(change.added | change.modified)
    others = {other: fields for other, fields in after.items() if other != manager}
    conflicts = {other: lost for other, fields in others.items() if (lost := fields & changed)}
    if conflicts and not force:
        raise ConflictError(conflicts)
    kept = {other: fields - changed - change.removed for other, fields in others.items()}
    return merged, _owned({**kept, manager: after[manager]})


def _pruned(kind: MergeType, merged: Any, last: FieldSet, owners: Owners) -> Any:
    """The merged object without what the manager owned at last and no manager owns now."""
    if not last:
        return merged
    last = typed_values.with_members(kind, last)
    everything = typed_values.with_members(kind, typed_values.field_set(kind, merged))
    owned = typed_values.with_members(kind, frozenset().union(*owners.values()))
    bare = _left(kind, typed_values.remove(kind, merged, last))
    # What went with an item or an object, and is owned by others, comes back; so does what the manager never owned.
    left = _left(kind, typed_values.remove(kind, merged, everything - (bare | owned)))
    return typed_values.remove(kind, merged, (everything - left) & last)


def _left(kind: MergeType, value: Any) -> FieldSet:
    return typed_values.with_members(kind, typed_values.field_set(kind, value, empty_lists=True))
