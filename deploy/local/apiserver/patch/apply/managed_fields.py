"""`metadata.managedFields`: reading and writing the owners of an object's fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.local.apiserver.patch.apply import field_sets
from deploy.local.apiserver.patch.apply.field_sets import FieldSet
from deploy.local.apiserver.patch.apply.owners import Manager, OwnerOperation, Owners
from workers.api.kinds import Object

#: More updaters than this are not told apart: the oldest become one.
MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"


@dataclass(frozen=True, slots=True)
class ManagedFields:
    """The owners of an object's fields, and when each last changed what it owns (RFC 3339)."""

    owners: Owners = field(default_factory=dict)
    times: Mapping[Manager, str] = field(default_factory=dict)

    @classmethod
    def decode(cls, entries: Any) -> "ManagedFields":
        """The owners of a list of entries. Raises ValueError for one that cannot be read."""
        owners: dict[Manager, FieldSet] = {}
        times: dict[Manager, str] = {}
        for entry in entries or ():
            operation = OwnerOperation(entry.get("operation"))
            version = entry.get("apiVersion", "") if operation is OwnerOperation.UPDATE else ""
            manager = Manager(entry.get("manager", ""), operation, version, entry.get("subresource", ""))
            owners[manager] = owners.get(manager, frozenset()) | field_sets.decode(entry.get("fieldsV1") or {})
            if time := entry.get("time"):
                times[manager] = time
        return cls(owners, times)

    def changed(self, owners: Owners, now: str) -> "ManagedFields":
        """Returns these with new owners; `now` is the time of those that own other fields than before."""
        times = {m: self.times.get(m, now) if fields == self.owners.get(m) else now for m, fields in owners.items()}
        return ManagedFields(owners, times)

    def encode(self, api_version: str) -> list[Object]:
        """Returns the entries, oldest last among appliers, then among updaters. api_version: of the appliers."""
        owners, times = _capped(self.owners, self.times)
        entries: list[Object] = []
        for manager in sorted(
            owners, key=lambda m: (m.operation, times.get(m, ""), m.name, m.api_version, m.subresource)
        ):
            entry: Object = {
                "manager": manager.name,
                "operation": manager.operation.value,
                "apiVersion": manager.api_version or api_version,
                "time": times.get(manager),
                "fieldsType": "FieldsV1",
                "fieldsV1": field_sets.encode(owners[manager]),
                "subresource": manager.subresource,
            }
            entries.append({name: value for name, value in entry.items() if value not in (None, "")})
        return entries


def _capped(owners: Owners, times: Mapping[Manager, str]) -> tuple[Owners, Mapping[Manager, str]]:
    """The owners with no more than MOST_UPDATERS updaters."""
    updaters = [manager for manager in owners if manager.operation is OwnerOperation.UPDATE]
    if len(updaters) <= MOST_UPDATERS:
        return owners, times
    updaters.sort(key=lambda manager: (manager.name != _ANCIENT, times.get(manager, ""), manager.name))
    oldest = updaters[: len(updaters) - MOST_UPDATERS + 1]
    ancient = Manager(_ANCIENT, OwnerOperation.UPDATE, oldest[-1].api_version)
    kept = {manager: fields for manager, fields in owners.items() if manager not in oldest}
    kept[ancient] = frozenset().union(*(owners[manager] for manager in oldest))
    return kept, {**times, ancient: times.get(oldest[-1], "")}


def is_reset(entries: Any) -> bool:
    """True for managedFields by which a client asks to forget all owners: an empty list, or one empty entry."""
    return isinstance(entries, list) and entries in ([], [{}])
