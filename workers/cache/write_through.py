"""What a plan has done so far, on its way into the store."""

from workers.api.kinds import Kind
from workers.cache.store import ObjectVersion, Store
from workers.runtime.leases import Notify

#: Effects put into the store in one call while a stage is under way. One call per handful of effects would cost a
#: stage of a thousand Jobs a third of its speed.
LANDING = 64


class WriteThrough:
    """The effects of one plan, written through to the store so that the next decision sees them.

    acting: the key in whose name the plan is carried out: it is not marked for what its own plan did.
    """

    def __init__(self, store: Store, notify: Notify, acting: str) -> None:
        self._store = store
        self._notify = notify
        self._acting = acting
        self._waiting: dict[Kind, list[ObjectVersion]] = {}

    async def add(self, kind: Kind, change: ObjectVersion) -> None:
        """Take one effect in. Call `land` when the step ends: until then nobody else decides on the key."""
        waiting = self._waiting.setdefault(kind, [])
        waiting.append(change)
        if len(waiting) >= LANDING:
            await self.land()

    async def land(self) -> None:
        """Put the effects so far into the store; those that did not come in wait for the next call."""
        while self._waiting:
            kind, waiting = self._waiting.popitem()
            try:
                notifications = await self._store.apply(kind, waiting, acting=self._acting)
            except BaseException:
                self._waiting.setdefault(kind, []).extend(waiting)
                raise
            await self._notify(notifications)
