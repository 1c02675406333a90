"""Bounded mappings: of what is newest, and of what is used in turn."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(entries: OrderedDict[K, V], key: K, value: V, limit: int) -> list[tuple[K, V]]:
    """Makes an entry the newest one. Returns the oldest entries, which it dropped to keep at most `limit`."""
    entries[key] = value
    entries.move_to_end(key)
    return [entries.popitem(last=False) for _ in range(len(entries) - limit)]


class TurnCache(OrderedDict[K, V]):
    """A cache of at most `limit` (1 or more) entries whose keys are used in turn, perhaps more than it holds.

    If each new entry displaced the oldest one, that would always be the one whose turn comes next, and none would be
    found any more. Of a full cache most new entries displace only the new one before (bimodal insertion: Qureshi et
    al., Adaptive Insertion Policies for High Performance Caching, ISCA 2007).
    """

    #: One in so many new entries of a full cache displaces the one that was not used for longest.
    DISPLACING = 16

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._new = 0

    def used(self, key: K) -> V | None:
        """Returns the value of a key that is used now, None without one."""
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]

    def keep(self, key: K, value: V) -> None:
        """Caches a value."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)
            self._new += 1
            self.move_to_end(key, last=self._new % self.DISPLACING == 0)
