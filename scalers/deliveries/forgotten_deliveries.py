"""Deliveries of EventJobs that are gone, left behind because no poll saw their end; found by comparison."""

import asyncio
import logging

from redis.exceptions import RedisError

from scalers.deliveries.deliveries import Deliveries
from workers.api.kinds import EVENT_JOB
from workers.cache.store import Store
from workers.errors import Stale

log = logging.getLogger(__name__)

#: Seconds between two comparisons.
EVERY = 600.0


class ForgottenDeliveries:
    """Removes deliveries whose EventJob the store does not know in two comparisons, each with a fresh store.

    Such an EventJob lost its finalizer by force while the store was lost: no tombstone of it led a poll to its
    deliveries, which would hold its channel's events for ever. stale: age in seconds at which the store is too old.
    """

    def __init__(self, deliveries: Deliveries, store: Store, stale: float) -> None:
        self._deliveries = deliveries
        self._store = store
        self._stale = stale
        self._missed: frozenset[str] = frozenset()

    async def sweep(self) -> int:
        """Compares once. Returns of how many EventJobs deliveries were removed.

        Raises Stale while the store is not fresh, and redis.exceptions.RedisError.
        """
        # Deliveries first: an EventJob that has some was in the store before.
        kept = await self._deliveries.owners()
        await self._store.require_fresh((EVENT_JOB,), self._stale)
        living = {entry.body["metadata"]["uid"] async for entry in self._store.scan(EVENT_JOB) if entry.body}
        # It may have been lost meanwhile.
        await self._store.require_fresh((EVENT_JOB,), self._stale)
        missing = frozenset(kept - living)
        gone, self._missed = missing & self._missed, missing
        for uid in sorted(gone):
            await self._deliveries.remove(uid)
            log.warning("deliveries of an EventJob that is gone were removed", extra={"uid": uid})
        return len(gone)

    async def sweep_forever(self, every: float = EVERY) -> None:
        """Compares again and again until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                await self.sweep()
            except (Stale, RedisError, OSError) as error:
                log.info("deliveries are not compared with EventJobs now", extra={"error": str(error)})
