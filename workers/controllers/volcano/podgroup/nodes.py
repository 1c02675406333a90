"""What the nodes have, and what of it is taken."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.places import Machine, Places, PodShape
from workers.controllers.volcano.podgroup.vectors import Vector

#: Resources that every machine has: where no node says how much, nobody measures it.
COMMON = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True)
class Nodes:
    """total: what all nodes that take pods have together, None where no node is known. used: what is taken of it.

    machines: each of those nodes.
    """

    total: Vector | None
    used: Vector
    machines: tuple[Machine, ...]

    def measures(self, name: str) -> bool:
        """Whether anything is known of a resource: one that no node has is not there, unless every machine has it."""
        return self.total is not None and (name in self.total or name not in COMMON)


def observe(bodies: Iterable[Object], members: Iterable[Member]) -> Nodes:
    """The nodes with the pods of the whole cluster."""
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
    """Whether new pods may come to the node now: it is not cordoned, and is known to be ready."""
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


Room = dict[str, int]
#: Pods, however they are ordered.
Kinds = frozenset[tuple[PodShape, int]]


class Bins:
    """The room that is left on each node. It only ever gets less.

    factor: how many times what a node has may be promised; a single pod must fit into what it really has. Resources
    that no node knows although every machine has them are not looked at.
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
        """Place all of these pods, or none; False if no room was found."""
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
        """Place those of these pods that fit: they are on their way to somewhere."""
        for shape, number in sorted(self._kinds(pods), key=self._order):
            placed: dict[int, Room] = {}
            _, self._first[shape] = self._place(shape, number, placed, self._first.get(shape, 0), self._left)
            for index, left in placed.items():
                self._left[index] = left

    def fits_alone(self, pods: Sequence[PodShape]) -> bool:
        """Whether the pods would fit if no other pod were there."""
        kinds = self._kinds(pods)
        if kinds not in self._alone:
            placed: dict[int, Room] = {}
            self._alone[kinds] = not any(
                self._place(shape, number, placed, 0, self._whole)[0]
                for shape, number in sorted(kinds, key=self._order)
            )
        return self._alone[kinds]

    def nowhere(self, pods: Sequence[PodShape]) -> bool:
        """Whether there is a pod among these that may go to no node, or is larger than every one it may go to."""
        return not all(map(self._candidates, set(pods)))

    def reserve(self, pods: Sequence[PodShape]) -> None:
        """Keep the nodes that these pods may go to for them."""
        for shape in set(pods):
            self._reserved.update(self._candidates(shape))

    def is_reserved(self, pod: PodShape) -> bool:
        """Whether the pod might take room on a node that is kept for others."""
        return bool(self._reserved) and not self._reserved.isdisjoint(self._candidates(pod))

    def _place(
        self, shape: PodShape, number: int, placed: dict[int, Room], first: int, room: Sequence[Mapping[str, int]]
    ) -> tuple[int, int]:
        """Place so many pods of a shape; how many are left over, and from which of its nodes on there may be room."""
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
        """The nodes that a pod may go to and that are large enough for it, by name."""
        if shape not in self._open:
            asked = self._measured(shape)
            self._open[shape] = tuple(
                index for index in self._allow(shape.places) if asked.times(self._whole[index], 1)
            )
        return self._open[shape]

    def _measured(self, shape: PodShape) -> PodShape:
        """What of a pod's demand nodes are looked at for."""
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
    """What is left of a node that may be promised so many times."""
    if factor == 1:
        return dict(machine.free)
    whole = vectors.times(machine.whole, factor)
    return {name: value - machine.whole[name] + machine.free.get(name, 0) for name, value in whole.items()}
