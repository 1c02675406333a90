"""The leases that this process holds: renewed while work runs under them, and settled with its outcome."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from scheduler import shared_ticks
from scheduler.queue import Finished, Lane, Lease, Outcome, Requeue
from workers.cancellation import cancelled
from workers.errors import PenstockError
from workers.metrics import process
from workers.runtime.batcher import Batcher
from workers.runtime.loop import LoopThread

log = logging.getLogger(__name__)

#: Sends so many notifications for each named lane.
Notify = Callable[[Mapping[str, int]], Awaitable[None]]

#: Settles leases, each with its outcome.
Finish = Callable[[Sequence[tuple[Lease, Outcome]]], Awaitable[Finished]]

#: Seconds before the end of a lease in which no write starts: it could arrive after another process claimed the key.
MARGIN = 1.0

#: Renewals in the time of one lease.
RENEWALS = 4

#: Seconds without a turn of the event loop after which its work counts as dead, although the process lives.
STALL = 15.0


class LeaseLost(PenstockError):  # noqa: N818
    """This process no longer holds the key's lease, and must not write for it any more."""


class LeaseKeeper:
    """The leases of one lane that this process holds, renewed together `RENEWALS` times per lease period.

    A lost lease cancels the work under it; so does a deadline that passed while this process was stopped (SIGSTOP, a
    paused VM), when the broker may have leased the key to another process already.

    beside: opens the lane with a client of its own, for a thread that renews: then a decision that keeps the event loop
    busy for longer than a lease loses none. After `STALL` seconds without a turn of the loop the thread gives up.
    """

    def __init__(
        self,
        lane: Lane,
        notify: Notify,
        *,
        lease: float,
        beside: Callable[[], AbstractAsyncContextManager[Lane]] | None = None,
    ) -> None:
        self.lane = lane
        self._notify = notify
        self._lease = lease
        self._held: dict[Lease, asyncio.Task[Any] | None] = {}
        self._deadlines: dict[Lease, float] = {}
        # Both are changed by the thread, too.
        self._lock = threading.Lock()
        self._settling: Batcher[tuple[Lease, Outcome], bool] = Batcher(self._finish, limit=1000)
        self._loop = asyncio.get_running_loop()
        self._turn = time.monotonic()
        self._thread = LoopThread(partial(self._renewing_with, beside)) if beside else None
        if self._thread:
            self._thread.start()
        work = self._turn_forever() if self._thread else self._renew_forever(lane)
        #: True if leases were settled whose keys may be ready again; a consumer that claims sets it back.
        self.made_ready = False
        #: Renews until the keeper is closed.
        self.renewing = asyncio.create_task(work, name=f"renew {lane.name}")

    async def close(self) -> None:
        """Writes the settled outcomes and stops renewing; leases that are still held expire."""
        await cancelled(self.renewing)
        if self._thread:
            await asyncio.to_thread(self._thread.stop)
        await self._settling.close()

    def take(self, leases: Sequence[Lease]) -> None:
        """Renews these leases from now on."""
        with self._lock:
            for lease in leases:
                self._held[lease] = None
                self._deadlines[lease] = lease.deadline

    async def work(self, lease: Lease, work: Coroutine[Any, Any, Outcome]) -> None:
        """Runs the work under its lease and settles the outcome. Returns without an error if the lease is lost.

        The work does not begin if the lease was lost since it was taken.
        """
        with self._lock:
            task = asyncio.ensure_future(work) if lease in self._held else None
            if task is not None:
                self._held[lease] = task
        if task is None:
            work.close()
            process.LEASES_LOST.labels(self.lane.name).inc()
            return
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
            self.drop((lease,))
            process.LEASES_LOST.labels(self.lane.name).inc()
            return
        await self.settle(lease, outcome)

    async def settle(self, lease: Lease, outcome: Outcome) -> None:
        """Settles one lease. A stale one changes nothing: another process holds the key."""
        self.drop((lease,))
        await self._settling.submit((lease, outcome))

    async def settle_all(self, outcomes: Sequence[tuple[Lease, Outcome]], finish: Finish | None = None) -> None:
        """Settles many leases in one call. finish: settles them as `Lane.finish` does, together with something else."""
        self.drop(lease for lease, _ in outcomes)
        await self._finish(outcomes, finish)

    def check(self, lease: Lease) -> None:
        """Raises LeaseLost unless the lease lasts for another `MARGIN` seconds; called before every write.

        The deadline is monotonic time of this process, taken before the broker granted or renewed the lease: it passes
        before the broker's own does, even if the two clocks differ.
        """
        deadline = self._deadlines.get(lease)
        if deadline is None or time.monotonic() > deadline - MARGIN:
            raise LeaseLost(f"the lease of {lease.key} ran out")

    def holds(self, lease: Lease) -> bool:
        """Returns True while this lease is not settled, lost or dropped."""
        return lease in self._held

    def drop(self, leases: Iterable[Lease]) -> None:
        """Stops renewing these; the unsettled ones expire, and their keys become ready again."""
        with self._lock:
            for lease in leases:
                self._held.pop(lease, None)
                self._deadlines.pop(lease, None)

    def abandon(self) -> None:
        """Cancels all work, and lets its leases run out: what was sent may still arrive, so others wait for them."""
        for lease, task in list(self._held.items()):
            self.drop((lease,))
            if task is not None:
                task.cancel()

    async def _finish(self, outcomes: Sequence[tuple[Lease, Outcome]], finish: Finish | None = None) -> Sequence[bool]:
        finished = await (finish or self.lane.finish)(outcomes)
        if finished.notifications or Requeue in {type(outcome) for _, outcome in outcomes}:
            self.made_ready = True
        if finished.notifications:
            await self._notify({self.lane.name: finished.notifications})
        for lease in finished.stale:
            process.STALE_DONE.labels(self.lane.name).inc()
            log.info("a stale outcome was refused", extra={"key": lease.key})
        stale = set(finished.stale)
        return [lease not in stale for lease, _ in outcomes]

    @asynccontextmanager
    async def _renewing_with(self, beside: Callable[[], AbstractAsyncContextManager[Lane]]) -> AsyncIterator[None]:
        """Renews on the thread's loop while open."""
        async with beside() as lane:
            renewing = asyncio.create_task(self._renew_forever(lane), name=f"renew {lane.name}")
            try:
                yield
            finally:
                await cancelled(renewing)

    async def _turn_forever(self) -> None:
        """Shows the thread that the event loop turns."""
        while True:
            self._turn = time.monotonic()
            # Of a long lease a renewal is rarer than the thread is patient.
            await shared_ticks.tick(min(self._lease, STALL) / RENEWALS)

    async def _renew_forever(self, lane: Lane) -> None:
        while True:
            await asyncio.sleep(self._lease / RENEWALS)
            if self._thread and time.monotonic() - self._turn > STALL:
                log.error("the event loop stands still; its leases are not renewed", extra={"lane": self.lane.name})
                continue
            try:
                await self._renew(lane)
            except RedisError as error:
                # Deadlines keep running: if the broker stays away, `check` refuses writes in time.
                log.warning("leases could not be renewed", extra={"lane": self.lane.name, "error": str(error)})
            except Exception:
                log.exception("leases could not be renewed", extra={"lane": self.lane.name})

    async def _renew(self, lane: Lane | None = None) -> None:
        with self._lock:
            held = list(self._held)
        if not held:
            return
        # Before the call, not after its answer: the broker's lease begins in between, and must outlast ours.
        before = time.monotonic()
        lost = await (lane or self.lane).renew(held)
        for lease in held:
            with self._lock:
                # Settled while the renewal was under way.
                if lease not in self._held:
                    continue
                if lease not in lost and before <= self._deadlines[lease]:
                    self._deadlines[lease] = before + self._lease
                    continue
                # Forgotten first, so that `work` can tell this cancellation from its caller's.
                task = self._held.pop(lease)
                del self._deadlines[lease]
            if task is not None:
                self._loop.call_soon_threadsafe(task.cancel)
            log.warning("a lease was lost", extra={"key": lease.key})
