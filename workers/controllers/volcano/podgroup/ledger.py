"""The running totals of an admission round: resources promised to queues, on the cluster and on single nodes."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from workers.admission.volcano.queue_lookup import ROOT
from workers.controllers.volcano.podgroup import deserved_shares, vectors
from workers.controllers.volcano.podgroup.deserved_shares import QueueTree
from workers.controllers.volcano.podgroup.group import PENDING, GangDemand, Group
from workers.controllers.volcano.podgroup.nodes import COMMON, Bins, Nodes
from workers.controllers.volcano.podgroup.places import Machine
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


class PlacementLedger:
    """The totals. An admitted group counts at once, for the groups checked after it.

    use: by queue, resources taken by and promised to it and the queues below. running: by queue, the groups that run.
    room: resources of the cluster that are neither taken nor promised, None where no node is known.
    """

    def __init__(self, tree: QueueTree, nodes: Nodes, groups: Iterable[Group], overcommit: Fraction) -> None:
        self._tree, self._nodes, self._overcommit = tree, nodes, overcommit
        self._groups = list(groups)
        self.use: dict[str, dict[str, int]] = {name: {} for name in tree}
        self.running = dict.fromkeys(tree, 0)
        self._limits: dict[tuple[str, str], int | None] = {}
        self._asides: dict[str, Vector] = {}
        self._shares: dict[str, float] = {}
        # Reservations that are not counted yet: of many equal ones the sum is, when the totals are read.
        self._owed: Counter[GangDemand] = Counter()
        self._holding = [group for group in self._groups if not group.holds_nothing]
        for group in self._holding:
            for name in tree.chains.get(group.queue, ()):
                _add(self.use[name], group.allocated)
                _add(self.use[name], group.reserve)
                _add(self.use[name], group.loose)
                self.running[name] += group.runs
        self.total = None if nodes.total is None else vectors.times(nodes.total, overcommit)
        self.room: dict[str, int] | None = None
        if self.total is not None:
            taken = vectors.total((nodes.used, *(group.reserve for group in self._holding)))
            self.room = {name: value - taken.get(name, 0) for name, value in self.total.items()}

    @cached_property
    def bins(self) -> Bins | None:
        """The room on single nodes, with coming pods of admitted groups placed; None without nodes."""
        return None if self._nodes.total is None else self.bins_of(self._nodes.machines)

    def bins_of(self, machines: Iterable[Machine]) -> Bins:
        """Returns the room on these nodes, with coming pods of admitted groups placed."""
        unmeasured = [name for name in COMMON if not self._nodes.measures(name)]
        bins = Bins(machines, self._overcommit, unmeasured)
        bins.fill([shape for group in self._holding for shape in group.coming])
        return bins

    def promise(self, group: Group) -> None:
        """Counts the group's need as given away, and the group as running."""
        self.give(group.queue, group.need, group.loose)
        for name in self._tree.chains[group.queue]:
            self.running[name] += not group.runs

    def reserve(self, demand: GangDemand, number: int = 1) -> None:
        """Counts the needs of so many gangs as given away without them running; `settle` counts them in the totals."""
        self._owed[demand] += number

    def settle(self) -> None:
        """Counts the reservations so far. `left` and `share` do so themselves."""
        if not self._owed:
            return
        owed, self._owed = self._owed, Counter()
        for demand, number in owed.items():
            need, loose = ({name: number * value for name, value in each} for each in (demand.need, demand.loose))
            self.give(demand.queue, need, loose)

    def give(self, queue: str, amounts: Vector, counted: Vector = EMPTY) -> None:
        """Counts an amount as given to a queue. counted: in the queue's use already."""
        more = vectors.minus(amounts, counted) if counted else amounts
        for name in self._tree.chains[queue]:
            _add(self.use[name], more)
            self._asides.pop(name, None)
            self._shares.pop(name, None)
        if self.room is not None:
            for name, value in amounts.items():
                if name in self.room:
                    self.room[name] -= value

    def withhold(self, queue: str, amounts: Vector) -> None:
        """Reserves an amount of a queue, from all queues below it, for groups that wait there."""
        _add(self.use[queue], amounts)

    def limit(self, queue: str, name: str) -> int | None:
        """Returns the most of a resource that a queue can have, None for any amount.

        The limit is its capability, and the limit of its parent without the guarantees of its siblings.
        """
        known = (queue, name)
        if known not in self._limits:
            bounds = [self._above(queue, name), self._tree[queue].capability.get(name)]
            self._limits[known] = min((bound for bound in bounds if bound is not None), default=None)
        return self._limits[known]

    def left(self, queue: str, name: str) -> int | None:
        """Returns the cluster's room for a queue without the guarantees of others; None for any amount."""
        self.settle()
        if self.room is None or not self._nodes.measures(name):
            return None
        return self.room.get(name, 0) - self.kept(queue, name)

    def kept(self, queue: str, name: str) -> int:
        """Returns the unused guarantees of other queues."""
        return self._set_aside(queue).get(name, 0) if self._tree.guarded else 0

    def share(self, queue: str) -> float:
        """Returns the fraction of its deserved resources that a queue has; the least is served first."""
        self.settle()
        if queue not in self._shares:
            owed, use = self.deserved[queue], self.use[queue]
            parts = (value / owed[name] if owed.get(name) else float("inf") for name, value in use.items() if value)
            self._shares[queue] = max(parts, default=0.0)
        return self._shares[queue]

    @cached_property
    def deserved(self) -> dict[str, Vector]:
        """The deserved resources by queue, at the start of the round."""
        requested = {name: dict(vector) for name, vector in self.use.items()}
        for demand, number in Counter([group.demand for group in self._groups if group.phase == PENDING]).items():
            more = vectors.minus(dict(demand.need), dict(demand.loose))
            need = {name: number * value for name, value in more.items()}
            for name in self._tree.chains.get(demand.queue, ()):
                _add(requested[name], need)
        names = {name for vector in requested.values() for name in vector}
        limits = {
            queue: {name: bound for name in names if (bound := self.limit(queue, name)) is not None}
            for queue in self._tree
        }
        return deserved_shares.deserved(self._tree, requested, limits, self.total or EMPTY)

    def _above(self, queue: str, name: str) -> int | None:
        """Returns the part of the whole that is left for a queue."""
        if queue == ROOT:
            return self.total.get(name, 0) if self.total is not None and self._nodes.measures(name) else None
        parent = self._tree.chains[queue][1]
        whole = self.limit(parent, name)
        if whole is None:
            return None
        guaranteed = sum(self._tree[child].guarantee.get(name, 0) for child in self._tree.children[parent])
        return max(whole - guaranteed, 0) + self._tree[queue].guarantee.get(name, 0)

    def _set_aside(self, queue: str) -> Vector:
        """Returns the unused guarantees of the siblings of a queue and of its ancestors."""
        chain = self._tree.chains[queue]
        beside = (
            sibling for child, parent in pairwise(chain) for sibling in self._tree.children[parent] if sibling != child
        )
        return vectors.total(map(self._aside, beside))

    def _aside(self, queue: str) -> Vector:
        """Returns the unused guarantees of a queue and the queues below it."""
        if queue not in self._asides:
            own = vectors.minus(self._tree[queue].guarantee, self.use[queue])
            below = vectors.total(map(self._aside, self._tree.children[queue]))
            self._asides[queue] = vectors.most(own, below)
        return self._asides[queue]


def _add(into: dict[str, int], vector: Vector) -> None:
    for name, value in vector.items():
        into[name] = into.get(name, 0) + value
