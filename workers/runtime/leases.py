"""The leases that this process holds: renewed while work runs under them, and settled with its outcome."""

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

#: Sends so many notifications for each named lane.
Notify = Callable[[Mapping[str, int]], Awaitable[None]]

#: Seconds before the end of a lease in which no write starts: it could arrive after another process claimed the key.
MARGIN = 1.0


class LeaseLost(PenstockError):  # noqa: N818
    """This process no longer holds the key's lease, and must not write for it any more."""


class LeaseKeeper:
    """The leases of one lane that this process holds, renewed together three times per lease period.

    A lost lease cancels the work under it; so does a deadline that passed while this process was stopped (SIGSTOP, a
    paused VM), when the broker may have leased the key to another process already.
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
        """Writes the settled outcomes and stops renewing; leases that are still held expire."""
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        await self._settling.close()

    def take(self, leases: Sequence[Lease]) -> None:
        """Renews these leases from now on."""
        for lease in leases:
            self._held[lease] = None
            self._deadlines[lease] = lease.deadline

    async def work(self, lease: Lease, work: Coroutine[Any, Any, Outcome]) -> None:
        """Runs the work under its lease and settles the outcome. Returns without an error if the lease is lost."""
        task = asyncio.ensure_future(work)
        self._held[lease] = task
        try:
            outcome = await task
        except asyncio.CancelledError:
            # Either `_renew` cancelled the work of a lost lease, after forgetting it, and that ends here; or our own
            # caller is cancelled, which must propagate.
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
        """Settles one lease. A stale one changes nothing: another process holds the key."""
        self._forget(lease)
        await self._settling.submit((lease, outcome))

    async def settle_all(self, outcomes: Sequence[tuple[Lease, Outcome]]) -> None:
        """Settles many leases in one call."""
        for lease, _ in outcomes:
            self._forget(lease)
        await self._finish(outcomes)

    def check(self, lease: Lease) -> None:
        """Raises LeaseLost unless the lease lasts for another `MARGIN` seconds; called before every write.

        The deadline is monotonic time of this process, taken before the broker granted or renewed the lease: it passes
        before the broker's own does, whatever the two clocks show.
        """
        deadline = self._deadlines.get(lease)
        if deadline is None or time.monotonic() > deadline - MARGIN:
            raise LeaseLost(f"the lease of {lease.key} ran out")

    def holds(self, lease: Lease) -> bool:
        """Returns True while this lease is not settled, lost or dropped."""
        return lease in self._held

    def drop(self, leases: Iterable[Lease]) -> None:
        """Stops renewing these; the unsettled ones expire, and their keys become ready again."""
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
                # Deadlines keep running: if the broker stays away, `check` refuses writes in time.
                log.warning("leases could not be renewed", extra={"lane": self.lane.name, "error": str(error)})
            except Exception:
                log.exception("leases could not be renewed", extra={"lane": self.lane.name})

    async def _renew(self) -> None:
        held = list(self._held)
        if not held:
            return
        # Before the call, not after its answer: the broker's lease begins in between, and must outlast ours.
        before = time.monotonic()
        lost = await self.lane.renew(held)
        for lease in held:
            # Settled while the renewal was under way.
            if lease not in self._held:
                continue
            if lease in lost or before > self._deadlines[lease]:
                task = self._held[lease]
                # First, so that `work` can tell this cancellation from its caller's.
                self._forget(lease)
                if task is not None:
                    task.cancel()
                log.warning("a lease was lost", extra={"key": lease.key})
            else:
                self._deadlines[lease] = before + self._lease
