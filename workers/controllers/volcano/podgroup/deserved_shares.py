"""The tree of queues, and the share of the whole that each queue deserves.

A share follows the weight, is never more than the queue can use, and at least its guarantee.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from workers.admission.volcano import shares
from workers.admission.volcano.queue_lookup import OPEN, ROOT, parent_of
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


@dataclass(frozen=True, slots=True)
class QueueNode:
    """One queue. deserved: None where the weight decides. limit: `maxRunningJobs`. fifo: no group overtakes."""

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
    reclaimable: bool = True
    age: tuple[str, str] = ("", "")


def observe(body: Object) -> QueueNode:
    """Returns the queue. A guarantee above the capability is cut: the queue could not use it."""
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
        reclaimable=spec.get("reclaimable") is not False,
        age=(metadata.get("creationTimestamp") or "", metadata.get("uid") or ""),
    )


class QueueTree:
    """All queues by name. A queue whose parent does not exist is directly below the root."""

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
        """By name, the queue and its ancestors, the root last; a cycle is followed once."""
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
        """True if any queue has a guarantee."""
        return any(queue.guarantee for queue in self.queues.values())

    def _chain(self, name: str) -> tuple[str, ...]:
        found = [name]
        while found[-1] != ROOT:
            parent = self.queues[found[-1]].parent
            found.append(parent if parent in self.queues and parent not in found else ROOT)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """One of several shares: its weight, and its least and largest amount."""

    weight: int
    least: int
    most: int

    def at(self, level: Fraction) -> Fraction:
        """Returns the amount at a level of resources per weight."""
        return min(max(level * self.weight, Fraction(self.least)), Fraction(max(self.most, self.least)))


def filled(whole: int, claims: Mapping[str, QueueDemand]) -> dict[str, int]:
    """Divides the whole by water-filling: all get the same per weight, within their bounds.

    Only guarantees may add up to more than the whole.
    """
    levels = sorted({Fraction(bound, each.weight) for each in claims.values() for bound in (each.least, each.most)})
    first = bisect_left(levels, Fraction(whole), key=lambda level: _poured(claims, level))
    if first == len(levels):
        return _shared(claims, levels[-1] if levels else Fraction(0))
    return _shared(claims, _between(claims, levels[first - 1] if first else Fraction(0), levels[first], whole))


def _poured(claims: Mapping[str, QueueDemand], level: Fraction) -> Fraction:
    return sum((each.at(level) for each in claims.values()), Fraction(0))


def _shared(claims: Mapping[str, QueueDemand], level: Fraction) -> dict[str, int]:
    return {name: int(each.at(level)) for name, each in claims.items()}


def _between(claims: Mapping[str, QueueDemand], low: Fraction, high: Fraction, whole: int) -> Fraction:
    """Returns the level at which the whole is given away; the sum is linear between two adjacent bounds."""
    first, last = _poured(claims, low), _poured(claims, high)
    if first >= whole or first == last:
        return low
    return low + (high - low) * (whole - first) / (last - first)


def deserved(
    tree: QueueTree, requested: Mapping[str, Vector], limits: Mapping[str, Vector], total: Vector
) -> dict[str, Vector]:
    """Returns the deserved resources by queue: `deserved` of its spec, else a share of its parent's.

    requested: by queue, taken and requested by it and the queues below. limits: by queue, the most it can have.
    """
    found: dict[str, Vector] = {ROOT: total}
    todo = [ROOT]
    while todo:
        parent = todo.pop()
        children = tree.children[parent]
        todo += children
        names = {name for child in children for name in requested.get(child, EMPTY)}
        given: dict[str, dict[str, int]] = {child: {} for child in children}
        for name in names:
            for child, value in _divided(tree, children, name, found[parent].get(name), requested, limits).items():
                given[child][name] = value
        for child in children:
            found[child] = tree[child].deserved or given[child]
    return found


def _divided(
    tree: QueueTree,
    children: tuple[str, ...],
    name: str,
    whole: int | None,
    requested: Mapping[str, Vector],
    limits: Mapping[str, Vector],
) -> dict[str, int]:
    """Returns the children's shares of one resource. Of an unmeasured resource all get their requests."""
    wanted = {
        child: min(requested.get(child, EMPTY).get(name, 0), limits[child].get(name, 1 << 200)) for child in children
    }
    if whole is None:
        return wanted
    claims = {
        child: QueueDemand(tree[child].weight, tree[child].guarantee.get(name, 0), wanted[child]) for child in children
    }
    return filled(whole, claims)
