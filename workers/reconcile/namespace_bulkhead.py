"""The bulkhead between namespaces: how many plans of one may be under way in a process while they are slow. Pure."""

from collections import OrderedDict

#: Seconds after which a plan is slow.
SLOW = 2.0
#: Slow plans of one namespace, and plans of any speed, beyond which further ones come back later.
MOST_SLOW, MOST = 64, 1024


class NamespaceBulkhead:
    """The plans under way, by namespace. Moments are monotonic seconds."""

    def __init__(self) -> None:
        self._begun: dict[str, OrderedDict[int, float]] = {}
        self._number = 0

    def is_full(self, namespace: str, now: float) -> bool:
        """Returns True if a further plan of the namespace must wait: without a lease, in the queue."""
        begun = self._begun.get(namespace)
        if begun is None or len(begun) < MOST_SLOW:
            return False
        if len(begun) >= MOST:
            return True
        # In the order of their beginnings: the slow ones come first.
        for place, moment in enumerate(begun.values(), 1):
            if now - moment < SLOW:
                return False
            if place == MOST_SLOW:
                return True
        return False

    def begin(self, namespace: str, now: float) -> int:
        """Notes that a plan begins; returns its number."""
        self._number += 1
        self._begun.setdefault(namespace, OrderedDict())[self._number] = now
        return self._number

    def end(self, namespace: str, number: int) -> None:
        """Notes that it has ended."""
        begun = self._begun[namespace]
        del begun[number]
        if not begun:
            del self._begun[namespace]
