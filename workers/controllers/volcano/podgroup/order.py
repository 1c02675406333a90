"""Who is asked next: queue after queue, in each the most urgent group first."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from workers.api import times
from workers.controllers.volcano.podgroup.group import SLA, Group
from workers.controllers.volcano.podgroup.ledger import PlacementLedger
from workers.controllers.volcano.podgroup.tree import QueueTree


def rank(group: Group, priorities: Mapping[str, int]) -> tuple[int, bool, tuple[str, str]]:
    """The order of the groups of one queue: by priority, then whoever holds a part of what it needs, then by age.

    priorities: the values of priority classes by name; an unknown one is 0.
    """
    return urgency(group, bool(group.allocated), priorities)


def urgency(group: Group, holds: bool, priorities: Mapping[str, int]) -> tuple[int, bool, tuple[str, str]]:
    """The rank of a group whose pods were not looked at. holds: whether it has a part of what it needs."""
    name = (group.body.get("spec") or {}).get("priorityClassName") or ""
    return -priorities.get(name, 0), not holds, group.age


def overdue(groups: Iterable[Group], priorities: Mapping[str, int], now: datetime) -> list[Group]:
    """The groups that have waited for longer than they were promised, the most urgent first."""
    return sorted((group for group in groups if group.elapsed(SLA, now)), key=lambda group: rank(group, priorities))


def is_late(group: Group, limit: timedelta, now: datetime) -> bool:
    """Whether a group has waited for so long that nobody goes past it any more. limit: 0 is for ever."""
    return bool(limit) and group.age[0] != "" and now >= times.parse(group.age[0]) + limit


class Waits(Protocol):
    """Whatever waits in a queue."""

    @property
    def queue(self) -> str:
        """The queue's name."""


T = TypeVar("T", bound=Waits)


class GangOrder(Generic[T]):
    """Those that wait, and whose turn it is. They are given in the order in which their own queue serves them."""

    def __init__(self, waiting: Iterable[T], tree: QueueTree, ledger: PlacementLedger) -> None:
        self._tree, self._ledger = tree, ledger
        self._waiting: dict[str, deque[T]] = {}
        for each in waiting:
            self._waiting.setdefault(each.queue, deque()).append(each)
        self._next: str | None = None

    def take(self) -> T | None:
        """The next one; None when all had their turn."""
        if self._next is None or not self._waiting.get(self._next):
            self._waiting = {name: rest for name, rest in self._waiting.items() if rest}
            if not self._waiting:
                return None
            self._next = min(self._waiting, key=self._rank)
        return self._waiting[self._next].popleft()

    def changed(self) -> None:
        """Somebody was let through: from now on another queue may come first."""
        self._next = None

    def rest(self, queue: str) -> list[T]:
        """Those of a queue that had no turn yet; they have none in this round."""
        rest = self._waiting.pop(queue, deque())
        self._next = None
        return list(rest)

    def _rank(self, name: str) -> tuple[tuple[object, ...], ...]:
        """The queues from the highest down to this one: each by its priority, then by the part of its share it has."""
        chain = self._tree.chains.get(name)
        if chain is None:
            return ()
        return tuple(
            (-self._tree[each].priority, self._ledger.share(each), self._tree[each].age, each)
            for each in reversed(chain[:-1])
        )
