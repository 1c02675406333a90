"""The nodes, their free resources, and first-fit placement of pods on single nodes.

Pods with the fewest possible nodes are placed first, among those the largest by dominant share; each goes to the first
node by name with room. The placement is sound, not complete. It costs nodes times distinct pods.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.places import Machine, Places, PodShape
from workers.controllers.volcano.podgroup.vectors import Vector

#: Resources of every machine: if no node reports one, it is not measured.
COMMON = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True)
class Nodes:
    """The nodes. total: allocatable of all usable nodes, None where no node is known. used: the part taken of it."""

    total: Vector | None
    used: Vector
    machines: tuple[Machine, ...]

    def measures(self, name: str) -> bool:
        """Returns True if the amount of a resource is known; a resource that no node reports is absent."""
        return self.total is not None and (name in self.total or name not in COMMON)


def observe(bodies: Iterable[Object], members: Iterable[Member]) -> Nodes:
    """Returns the usable nodes with the pods of the whole cluster."""
    known = list(bodies)
    if not known:
        return Nodes(None, {}, ())
    taking = {node["metadata"]["name"]: node for node in known if _takes_pods(node)}
    used: dict[str, dict[str, int]] = {name: {} for name in taking}
    for each in members:
        if each.occupies and each.node in used:
            on = used[each.node]
            for name, value in each.requests.items():
                on[name] = on.get(name, 0) + value
    machines = tuple(_machine(name, node, used[name]) for name, node in taking.items())
    total = vectors.total(each.whole for each in machines)
    return Nodes(total, vectors.total(used.values()), machines)


def _machine(name: str, node: Object, used: Vector) -> Machine:
    whole = vectors.readable((node.get("status") or {}).get("allocatable"))
    return Machine(
        name=name,
        whole=whole,
        free={resource: value - used.get(resource, 0) for resource, value in whole.items()},
        labels=node["metadata"].get("labels") or {},
        taints=tuple((node.get("spec") or {}).get("taints") or ()),
    )


def _takes_pods(node: Object) -> bool:
    """Returns True for a node that is ready and not cordoned."""
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


Room = dict[str, int]
#: Distinct pods with their numbers, as a cache key.
Kinds = frozenset[tuple[PodShape, int]]


class Bins:
    """The room on each node. It only shrinks.

    factor: overcommit; a single pod must fit the real size. measured: resources that no node reports, and are ignored.
    """

    def __init__(self, machines: Iterable[Machine], factor: Fraction, measured: Iterable[str]) -> None:
        self._machines = sorted(machines, key=lambda each: each.name)
        self._unmeasured = frozenset(measured)
        self._whole = [each.whole for each in self._machines]
        self._left = [_stretched(each, factor) for each in self._machines]
        self._total = vectors.total(self._whole)
        self._allowed: dict[Places, tuple[int, ...]] = {}
        self._open: dict[PodShape, tuple[int, ...]] = {}
        self._first: dict[PodShape, int] = {}
        self._refused: set[Kinds] = set()
        self._alone: dict[Kinds, bool] = {}
        self._reserved: set[int] = set()

    def take(self, pods: Sequence[PodShape]) -> bool:
        """Places all pods, or none; returns False if no room was found."""
        kinds = self._kinds(pods)
        if kinds in self._refused:
            return False
        placed: dict[int, Room] = {}
        reached: dict[PodShape, int] = {}
        for shape, number in sorted(kinds, key=self._order):
            rest, reached[shape] = self._place(shape, number, placed, self._first.get(shape, 0), self._left)
            if rest:
                self._refused.add(kinds)
                return False
        for index, left in placed.items():
            self._left[index] = left
        self._first |= reached
        return True

    def fill(self, pods: Sequence[PodShape]) -> None:
        """Places those pods that fit: pods of admitted groups."""
        for shape, number in sorted(self._kinds(pods), key=self._order):
            placed: dict[int, Room] = {}
            _, self._first[shape] = self._place(shape, number, placed, self._first.get(shape, 0), self._left)
            for index, left in placed.items():
                self._left[index] = left

    def fits_alone(self, pods: Sequence[PodShape]) -> bool:
        """Returns True if the pods fit on empty nodes."""
        kinds = self._kinds(pods)
        if kinds not in self._alone:
            placed: dict[int, Room] = {}
            self._alone[kinds] = not any(
                self._place(shape, number, placed, 0, self._whole)[0]
                for shape, number in sorted(kinds, key=self._order)
            )
        return self._alone[kinds]

    def nowhere(self, pods: Sequence[PodShape]) -> bool:
        """Returns True if some pod is allowed on no node that is large enough."""
        return not all(map(self._candidates, set(pods)))

    def reserve(self, pods: Sequence[PodShape]) -> None:
        """Reserves the nodes that these pods may go to."""
        for shape in set(pods):
            self._reserved.update(self._candidates(shape))

    def is_reserved(self, pod: PodShape) -> bool:
        """Returns True if the pod may go to a reserved node."""
        return bool(self._reserved) and not self._reserved.isdisjoint(self._candidates(pod))

    def _place(
        self, shape: PodShape, number: int, placed: dict[int, Room], first: int, room: Sequence[Mapping[str, int]]
    ) -> tuple[int, int]:
        """Returns the pods left over, and the index of the first node that may have room for more."""
        candidates = self._candidates(shape)
        asked = self._measured(shape)
        place = first
        while place < len(candidates):
            index = candidates[place]
            left = placed.get(index, room[index])
            if count := asked.times(left, number):
                number -= count
                placed[index] = {**left, **{name: left.get(name, 0) - count * value for name, value in asked.amounts}}
            if not number:
                break
            place += 1
        return number, place

    def _candidates(self, shape: PodShape) -> tuple[int, ...]:
        """Returns the indexes of the allowed nodes that are large enough."""
        if shape not in self._open:
            asked = self._measured(shape)
            self._open[shape] = tuple(
                index for index in self._allow(shape.places) if asked.times(self._whole[index], 1)
            )
        return self._open[shape]

    def _measured(self, shape: PodShape) -> PodShape:
        """Returns the pod without resources that nodes do not report."""
        return PodShape(tuple((name, value) for name, value in shape.amounts if name not in self._unmeasured))

    def _allow(self, places: Places) -> tuple[int, ...]:
        if places not in self._allowed:
            self._allowed[places] = tuple(
                index for index, machine in enumerate(self._machines) if places.allow(machine)
            )
        return self._allowed[places]

    def _kinds(self, pods: Sequence[PodShape]) -> Kinds:
        return frozenset(Counter(pods).items())

    def _order(self, kind: tuple[PodShape, int]) -> tuple[object, ...]:
        shape, _ = kind
        shares = (value / self._total[name] for name, value in shape.amounts if self._total.get(name))
        return len(self._candidates(shape)), -max(shares, default=0.0), shape.amounts, repr(shape.places)


def _stretched(machine: Machine, factor: Fraction) -> Room:
    """Returns the free resources of a node with overcommit."""
    if factor == 1:
        return dict(machine.free)
    whole = vectors.times(machine.whole, factor)
    return {name: value - machine.whole[name] + machine.free.get(name, 0) for name, value in whole.items()}
