"""The tree of queues, as the admission of gangs looks at it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from workers.admission.volcano import shares
from workers.admission.volcano.queue_lookup import OPEN, ROOT, parent_of
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup.vectors import Vector


@dataclass(frozen=True, slots=True)
class QueueNode:
    """One queue. deserved: None where the weight decides. limit: most groups at once. fifo: nobody overtakes."""

    name: str
    parent: str
    state: str = OPEN
    weight: int = 1
    priority: int = 0
    capability: Vector = field(default_factory=dict)
    guarantee: Vector = field(default_factory=dict)
    deserved: Vector | None = None
    limit: int | None = None
    fifo: bool = False
    age: tuple[str, str] = ("", "")


def observe(body: Object) -> QueueNode:
    """A queue as it was observed. More than it may have it cannot be guaranteed: nobody could use that."""
    spec, metadata = body.get("spec") or {}, body["metadata"]
    capability = shares.bounds(shares.amounts(spec, "capability"))
    guarantee = shares.amounts(spec, "guarantee")
    return QueueNode(
        name=metadata["name"],
        parent=parent_of(body),
        state=(body.get("status") or {}).get("state") or OPEN,
        weight=max(1, int(spec.get("weight") or 1)),
        priority=int(spec.get("priority") or 0),
        capability=capability,
        guarantee={name: min(value, capability.get(name, value)) for name, value in guarantee.items()},
        deserved=shares.amounts(spec, "deserved") or None,
        limit=spec.get("maxRunningJobs"),
        fifo=spec.get("dequeueStrategy") == "fifo",
        age=(metadata.get("creationTimestamp") or "", metadata.get("uid") or ""),
    )


class QueueTree:
    """All queues by name. What names no queue that is there as its parent is directly below the root."""

    def __init__(self, queues: Iterable[QueueNode]) -> None:
        known = {queue.name: queue for queue in queues}
        known.setdefault(ROOT, QueueNode(ROOT, ""))
        self.queues = known

    def __contains__(self, name: str) -> bool:
        return name in self.queues

    def __getitem__(self, name: str) -> QueueNode:
        return self.queues[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.queues)

    @cached_property
    def chains(self) -> dict[str, tuple[str, ...]]:
        """By name, the queue and all above it, the root last; a circle is followed once."""
        return {name: self._chain(name) for name in self.queues}

    @cached_property
    def children(self) -> dict[str, tuple[str, ...]]:
        """By name, the queues directly below."""
        below: dict[str, list[str]] = {name: [] for name in self.queues}
        for name in sorted(self.queues):
            if name != ROOT:
                below[self.chains[name][1]].append(name)
        return {name: tuple(names) for name, names in below.items()}

    @cached_property
    def guarded(self) -> bool:
        """Whether any queue is guaranteed anything."""
        return any(queue.guarantee for queue in self.queues.values())

    def _chain(self, name: str) -> tuple[str, ...]:
        found = [name]
        while found[-1] != ROOT:
            parent = self.queues[found[-1]].parent
            found.append(parent if parent in self.queues and parent not in found else ROOT)
        return tuple(found)
