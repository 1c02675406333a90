"""The consumer of a lane: on a notification it claims ready keys, batch by batch, and passes them to a handler."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from redis.exceptions import RedisError, ResponseError

from scheduler.queue import ClaimedKeys, Failed
from workers.json_logs import Outage
from workers.metrics import process
from workers.runtime.leases import LeaseKeeper, Notify

log = logging.getLogger(__name__)

#: Processes one claim; returns when every lease of it is settled or lost.
Handler = Callable[[ClaimedKeys, LeaseKeeper], Awaitable[None]]


class Consumer:
    """The consumer of one lane in one process.

    batch: most keys of one claim. work: seconds after which `consume` returns and notifies for the rest, so that a lane
    that never runs dry does not keep a Celery thread for ever. linger: seconds after which an unfinished claim
    continues in the background and the next one is made: a few slow keys delay no fast ones. lingering: most claims in
    the background; any more are waited for.
    """

    def __init__(
        self,
        keeper: LeaseKeeper,
        handle: Handler,
        notify: Notify,
        *,
        batch: int,
        work: float,
        linger: float | None = None,
        lingering: int = 256,
    ) -> None:
        self._keeper = keeper
        self._handle = handle
        self._notify = notify
        self._batch = batch
        self._work = work
        self._linger = linger
        self._most = lingering
        self._lingering: set[asyncio.Task[None]] = set()

    async def consume(self) -> int:
        """Handles one notification. Returns how many keys were processed."""
        lane = self._keeper.lane
        until = time.monotonic() + self._work
        processed, first = 0, True
        while True:
            claim = await lane.claim(self._batch, notified=first)
            if not claim.leases:
                if first:
                    process.EMPTY_NOTIFICATIONS.labels(lane.name).inc()
                return processed
            first = False
            processed += len(claim.leases)
            process.CLAIMED.labels(lane.name).inc(len(claim.leases))
            self._keeper.take(claim.leases)
            await self._start(claim)
            if time.monotonic() > until:
                # Marking nothing returns how many notifications are missing for the ready keys.
                marked = await lane.mark(())
                await self._notify({lane.name: marked.notifications})
                return processed

    async def close(self) -> None:
        """Cancels the claims in the background; their unsettled leases expire."""
        lingering = tuple(self._lingering)
        for task in lingering:
            task.cancel()
        await asyncio.gather(*lingering, return_exceptions=True)

    async def _start(self, claim: ClaimedKeys) -> None:
        """Processes the claim; returns when it is done, or after `linger` seconds while it continues."""
        if self._linger is None or len(self._lingering) >= self._most:
            await self._process(claim)
            return
        task = asyncio.create_task(self._process(claim))
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._linger)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            task.result()
        else:
            task.add_done_callback(_log_error)

    async def _process(self, claim: ClaimedKeys) -> None:
        """Passes the claim to the handler; afterwards none of its leases is renewed."""
        try:
            with process.ACTIVE.labels(self._keeper.lane.name).track_inprogress():
                await self._handle(claim, self._keeper)
        except Exception as error:
            # Of a broker that is away the leases expire, and the sweep resumes the lane.
            log.exception("a claim could not be processed", extra={"lane": self._keeper.lane.name})
            left = [lease for lease in claim.leases if self._keeper.holds(lease)]
            reason = f"{type(error).__name__}: {error}"[:500]
            await self._keeper.settle_all([(lease, Failed(reason)) for lease in left])
        finally:
            self._keeper.drop(claim.leases)

    async def sweep_forever(self, every: float = 1.0) -> None:
        """Sweeps the lane, so that it moves on without a beat or after a lost notification, and shows its metrics."""
        lane, outage = self._keeper.lane, Outage(log)
        while True:
            await asyncio.sleep(every)
            try:
                swept = await lane.sweep()
                await self._notify({lane.name: swept.notifications})
                process.lane(lane.name, await lane.stats())
            except ResponseError as error:
                outage.lasts("the broker answers with an error", lane=lane.name, error=str(error))
            except RedisError as error:
                # The sweep resumes the lane when the broker is back.
                outage.lasts("the broker is away; waiting for it", lane=lane.name, error=str(error))
            except Exception:
                log.exception("a sweep failed", extra={"lane": lane.name})
            else:
                outage.over("the broker is back", lane=lane.name)


def _log_error(task: "asyncio.Task[None]") -> None:
    # A claim in the background has no caller that an error could reach.
    if not task.cancelled() and (error := task.exception()):
        log.error("a claim in the background could not be settled", exc_info=error)
