"""The order of an admission round: queue after queue, in each queue the most urgent group first."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from workers.controllers.volcano.podgroup.deserved_shares import QueueTree
from workers.controllers.volcano.podgroup.group import SLA, Group
from workers.controllers.volcano.podgroup.ledger import PlacementLedger


def rank(group: Group, priorities: Mapping[str, int]) -> tuple[int, bool, tuple[str, str]]:
    """Returns the rank of a group in its queue: by priority, then groups with resources, then age.

    priorities: the values of PriorityClasses by name; an unknown one is 0.
    """
    return urgency(group, bool(group.allocated), priorities)


def urgency(group: Group, holds: bool, priorities: Mapping[str, int]) -> tuple[int, bool, tuple[str, str]]:
    """Returns the rank of a group without its pods. holds: it has a part of its need."""
    return -priorities.get(group.priority_class, 0), not holds, group.age


def overdue(groups: Iterable[Group], priorities: Mapping[str, int], now: datetime) -> list[Group]:
    """Returns the groups whose `sla-waiting-time` is over, the most urgent first."""
    return sorted(
        (group for group in groups if group.durations and group.elapsed(SLA, now)),
        key=lambda group: rank(group, priorities),
    )


def is_late(group: Group, limit: timedelta, now: datetime) -> bool:
    """Returns True if no group may overtake this one any more. limit: 0 is for ever."""
    return bool(limit) and group.created is not None and now >= group.created + limit


class Waits(Protocol):
    """An entry of a queue."""

    @property
    def queue(self) -> str:
        """The queue's name."""


T = TypeVar("T", bound=Waits)


class GangOrder(Generic[T]):
    """The waiting entries, given in the order in which their own queue serves them."""

    def __init__(self, waiting: Iterable[T], tree: QueueTree, ledger: PlacementLedger) -> None:
        self._tree, self._ledger = tree, ledger
        self._waiting: dict[str, deque[T]] = {}
        for each in waiting:
            self._waiting.setdefault(each.queue, deque()).append(each)
        self._next: str | None = None

    def take(self) -> T | None:
        """Returns the next entry; None after the last."""
        if self._next is None or not self._waiting.get(self._next):
            self._waiting = {name: rest for name, rest in self._waiting.items() if rest}
            if not self._waiting:
                return None
            self._next = min(self._waiting, key=self._rank)
        return self._waiting[self._next].popleft()

    def changed(self) -> None:
        """Ranks the queues again: an admission changed their shares."""
        self._next = None

    def rest(self, queue: str) -> list[T]:
        """Removes and returns the remaining entries of a queue."""
        rest = self._waiting.pop(queue, deque())
        self._next = None
        return list(rest)

    def _rank(self, name: str) -> tuple[tuple[object, ...], ...]:
        """Returns the rank of a queue, from its topmost ancestor down: priority, then fraction of its share."""
        chain = self._tree.chains.get(name)
        if chain is None:
            return ()
        return tuple(
            (-self._tree[each].priority, self._ledger.share(each), self._tree[each].age, each)
            for each in reversed(chain[:-1])
        )
