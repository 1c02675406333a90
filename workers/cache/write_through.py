"""Write-through of a plan's effects to the store."""

from collections.abc import Callable

from workers.api.kinds import Kind
from workers.cache.store import ObjectVersion, Store
from workers.runtime.leases import LeaseLost, Notify

#: Effects written in one call while a stage is under way: smaller calls would cost a stage of a thousand Jobs a third
#: of its speed.
BATCH = 64


#: Plans side by side from which on their effects wait for each other. A plan that is alone may be one of a chain, each
#: of which waits for the one before.
MANY = 8
#: Seconds for which they wait, at each flush: at least, for each plan, and at most. Of a thousand plans most wait far
#: longer for the API server, which gets more of the machine where they share round trips to the broker.
PAUSE, FOR_EACH, LONGEST = 0.005, 0.0001, 0.05


def pause(plans: int) -> float:
    """Returns the seconds that effects wait for those of further plans. plans: at work side by side."""
    return min(max(PAUSE, plans * FOR_EACH), LONGEST) if plans >= MANY else 0.0


class WriteThrough:
    """The effects of one plan, written to the store so that the next decision sees them.

    acting: the reconciled key: its own plan's effects do not mark it, as long as `check` raises no LeaseLost.
    side_by_side: returns how many plans are being carried out.
    """

    def __init__(
        self,
        store: Store,
        notify: Notify,
        acting: str,
        check: Callable[[], None],
        side_by_side: Callable[[], int] = lambda: 1,
    ) -> None:
        self._store = store
        self._notify = notify
        self._acting = acting
        self._check = check
        self._side_by_side = side_by_side
        self._waiting: dict[Kind, list[ObjectVersion]] = {}

    async def add(self, kind: Kind, change: ObjectVersion) -> None:
        """Takes one effect in. The caller flushes before its step ends: until then it holds the key's lease."""
        waiting = self._waiting.setdefault(kind, [])
        waiting.append(change)
        if len(waiting) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Writes the effects so far; those that fail to be written wait for the next call."""
        while self._waiting:
            kind, waiting = self._waiting.popitem()
            try:
                notifications = await self._store.write_through(
                    kind, waiting, self._holder(), pause=pause(self._side_by_side())
                )
            except BaseException:
                self._waiting.setdefault(kind, []).extend(waiting)
                raise
            await self._notify(notifications)

    def _holder(self) -> str:
        """Returns the reconciled key, '' without its lease: another process may have decided without these effects."""
        try:
            self._check()
        except LeaseLost:
            return ""
        return self._acting
