"""The bulkhead between namespaces: how many plans of one may be under way in a process while it is slow. Pure."""

from collections.abc import Callable

#: Plans of a slow namespace that are under way, and plans of any namespace, beyond which further ones come back later.
MOST_SLOW, MOST = 64, 1024
#: Seconds until the first of them comes back, how many a second follow it, and within how many seconds all do.
FIRST, RATE, LAST = 0.5, 500, 10.0


class NamespaceBulkhead:
    """The plans under way, by namespace. slow: returns True for a namespace whose requests hang."""

    def __init__(self, slow: Callable[[str], bool]) -> None:
        self._slow = slow
        self._under_way: dict[str, int] = {}
        # When the last of those that were sent away comes back, monotonic seconds.
        self._last: dict[str, float] = {}

    def full(self) -> frozenset[str]:
        """Returns the namespaces whose further plans must wait: without a lease, in the queue."""
        many = [(namespace, number) for namespace, number in self._under_way.items() if number >= MOST_SLOW]
        return frozenset(namespace for namespace, number in many if number >= MOST or self._slow(namespace))

    def comes_back(self, namespace: str, now: float) -> float:
        """Returns the seconds until a plan that found its namespace full is tried again.

        One after the other, since each attempt costs as much whether there is room or not. now: monotonic seconds.
        """
        at = max(self._last.get(namespace, 0.0), now + FIRST) + 1 / RATE
        if at > now + LAST:
            at = now + FIRST
        self._last[namespace] = at
        return at - now

    def begin(self, namespace: str) -> None:
        """Notes that a plan begins."""
        self._under_way[namespace] = self._under_way.get(namespace, 0) + 1

    def end(self, namespace: str) -> None:
        """Notes that a plan has ended."""
        self._under_way[namespace] -= 1
        if not self._under_way[namespace]:
            del self._under_way[namespace]
            self._last.pop(namespace, None)
