"""The keys this process has in its hands: leases kept alive while work runs, and given back when it ends."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from scheduler.queue import Lane, Lease, Outcome
from workers.errors import PenstockError
from workers.metrics import process
from workers.runtime.batcher import Batcher

log = logging.getLogger(__name__)

#: Rings so many bells of each named lane.
Notify = Callable[[Mapping[str, int]], Awaitable[None]]

#: No write is started in the last second of a lease: the answer could come after somebody else took the key.
MARGIN = 1.0


class LeaseLost(PenstockError):  # noqa: N818
    """This process no longer holds the key; whatever it was about to do is somebody else's work now."""


class LeaseKeeper:
    """The leases of one lane that this process holds.

    Renewal is one call per third of a lease for all of them. A lease that was lost, or whose own deadline passed
    because this process stood still, stops the work under it before the work can do harm.
    """

    def __init__(self, lane: Lane, notify: Notify, *, lease: float) -> None:
        self.lane = lane
        self._notify = notify
        self._lease = lease
        self._held: dict[Lease, asyncio.Task[Any] | None] = {}
        self._deadlines: dict[Lease, float] = {}
        self._settling: Batcher[tuple[Lease, Outcome], bool] = Batcher(self._finish, limit=1000)
        self._renewing = asyncio.create_task(self._renew_forever(), name=f"renew {lane.name}")

    async def close(self) -> None:
        """Give back what is settled and stop renewing; what is still held expires by itself."""
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        await self._settling.close()

    def take(self, leases: Sequence[Lease]) -> None:
        """Count these leases as held from now on."""
        for lease in leases:
            self._held[lease] = None
            self._deadlines[lease] = lease.deadline

    async def work(self, lease: Lease, work: Coroutine[Any, Any, Outcome]) -> None:
        """Run the work under its lease and settle with its outcome; a lost lease cancels the work, silently."""
        task = asyncio.ensure_future(work)
        self._held[lease] = task
        try:
            outcome = await task
        except asyncio.CancelledError:
            # Two ways to get here: the renewal cancelled the work (lost), or our own caller is being cancelled.
            if lease in self._held:
                task.cancel()
                raise
            process.LEASES_LOST.labels(self.lane.name).inc()
            return
        except LeaseLost:
            self._forget(lease)
            process.LEASES_LOST.labels(self.lane.name).inc()
            return
        await self.settle(lease, outcome)

    async def settle(self, lease: Lease, outcome: Outcome) -> None:
        """Give one lease back with its outcome. A stale one changes nothing: its key is in other hands."""
        self._forget(lease)
        await self._settling.submit((lease, outcome))

    async def settle_all(self, outcomes: Sequence[tuple[Lease, Outcome]]) -> None:
        """Give many leases back in one call."""
        for lease, _ in outcomes:
            self._forget(lease)
        await self._finish(outcomes)

    def check(self, lease: Lease) -> None:
        """Call before every write: raises LeaseLost unless this lease is held for at least another second."""
        deadline = self._deadlines.get(lease)
        if deadline is None or time.monotonic() > deadline - MARGIN:
            raise LeaseLost(f"the lease of {lease.key} ran out")

    def holds(self, lease: Lease) -> bool:
        """Whether this lease is still to be settled."""
        return lease in self._held

    def drop(self, leases: Iterable[Lease]) -> None:
        """Stop renewing these; those not settled expire, and their keys become ready for somebody else."""
        for lease in leases:
            self._forget(lease)

    def _forget(self, lease: Lease) -> None:
        self._held.pop(lease, None)
        self._deadlines.pop(lease, None)

    async def _finish(self, outcomes: Sequence[tuple[Lease, Outcome]]) -> Sequence[bool]:
        finished = await self.lane.finish(outcomes)
        if finished.notifications:
            await self._notify({self.lane.name: finished.notifications})
        for lease in finished.stale:
            process.STALE_DONE.labels(self.lane.name).inc()
            log.info("a stale outcome was refused", extra={"key": lease.key})
        stale = set(finished.stale)
        return [lease not in stale for lease, _ in outcomes]

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._renew()
            except RedisError as error:
                # The deadlines keep running: if the broker stays away, the work stops by itself in time.
                log.warning("leases could not be renewed", extra={"lane": self.lane.name, "error": str(error)})
            except Exception:
                log.exception("leases could not be renewed", extra={"lane": self.lane.name})

    async def _renew(self) -> None:
        held = list(self._held)
        if not held:
            return
        before = time.monotonic()
        lost = await self.lane.renew(held)
        for lease in held:
            if lease not in self._held:
                continue
            if lease in lost or before > self._deadlines[lease]:
                task = self._held[lease]
                self._forget(lease)
                if task is not None:
                    task.cancel()
                log.warning("a lease was lost", extra={"key": lease.key})
            else:
                self._deadlines[lease] = before + self._lease
