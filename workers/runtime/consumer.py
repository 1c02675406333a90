"""The consumer of a lane: on a notification it claims ready keys, batch by batch, and passes them to a handler."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError, ResponseError

from scheduler import shared_ticks
from scheduler.queue import ClaimedKeys, Failed
from workers.cancellation import cancelled
from workers.json_logs import Outage, outage_reason
from workers.metrics import process
from workers.runtime.leases import LeaseKeeper, Notify

log = logging.getLogger(__name__)

#: Seconds for which a process that cannot work keeps a notification before it sends another one.
PASS_ON = 0.5
#: Seconds without a notification after which one that the sweep sends is not waited for.
DEAF = 5.0
#: Seconds after which a claim is made although there is no room: a lane never stands still.
PATIENCE = 30.0
#: Seconds that one sweep may take.
DEADLINE = 20.0

#: Processes one claim; returns when every lease of it is settled or lost.
Handler = Callable[[ClaimedKeys, LeaseKeeper], Awaitable[None]]
#: Returns when there is room for further work.
Room = Callable[[], Awaitable[None]]


class Consumer:
    """The consumer of one lane in one process.

    batch: most keys of one claim. work: seconds after which `consume` returns and notifies for the rest, so that a lane
    that never runs dry does not keep a Celery thread for ever. linger: seconds after which an unfinished claim
    continues in the background and the next one is made: a few slow keys delay no fast ones. lingering: most claims in
    the background; any more are waited for. able: false while this process cannot work: it claims nothing then. room:
    returns when further keys may be claimed, because not too much of what was claimed waits.
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
        able: Callable[[], bool] = lambda: True,
        room: Room | None = None,
    ) -> None:
        self._keeper = keeper
        self._handle = handle
        self._notify = notify
        self._batch = batch
        self._work = work
        self._linger = linger
        self._most = lingering
        self._able = able
        # When a notification arrived last.
        self._notified = time.monotonic()
        self._unasked: asyncio.Task[int] | None = None
        self._room = room
        self._lingering: set[asyncio.Task[None]] = set()
        self._closing = False

    async def consume(self) -> int:
        """Handles one notification. Returns how many keys were processed."""
        self._notified = time.monotonic()
        if not self._able():
            await self._pass_on()
            return 0
        return await self._work_on(notified=True)

    async def _pass_on(self) -> None:
        """Gives a notification to another process, after a pause: it may come back here."""
        await self._keeper.lane.claim(0, notified=True)
        await asyncio.sleep(PASS_ON)
        marked = await self._keeper.lane.mark(())
        await self._notify({self._keeper.lane.name: marked.notifications})

    async def _work_on(self, *, notified: bool) -> int:
        lane = self._keeper.lane
        until = time.monotonic() + self._work
        processed, first = 0, notified
        while self._able() and not self._closing:
            await self._wait_for_room()
            self._keeper.made_ready = False
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
            if notified and not claim.ready and not self._keeper.made_ready:
                # What others make ready since has a notification of its own.
                return processed
            if time.monotonic() > until:
                # Marking nothing returns how many notifications are missing for the ready keys.
                marked = await lane.mark(())
                await self._notify({lane.name: marked.notifications})
                return processed
        return processed

    async def close(self, grace: float) -> None:
        """Claims no more, and gives the claims in the background `grace` seconds to end.

        The leases that are not settled then expire.
        """
        self._closing = True
        await end((*self._lingering, *((self._unasked,) if self._unasked else ())), grace)

    async def _wait_for_room(self) -> None:
        """Keys that are not claimed wait in the broker, and other processes can take them."""
        if self._room is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._room()

    async def _start(self, claim: ClaimedKeys) -> None:
        """Processes the claim; returns when it is done, or after `linger` seconds while it continues."""
        if self._linger is None or self._closing or len(self._lingering) >= self._most:
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
            await self._keeper.settle_all([(lease, Failed(lease.still(reason))) for lease in left])
        finally:
            self._keeper.drop(claim.leases)

    async def sweep_forever(self, every: float = 1.0, sweeping: Callable[[], None] = lambda: None) -> None:
        """Sweeps the lane, so that it moves on without a beat or after a lost notification, and shows its metrics.

        sweeping: called at the begin of each sweep.
        """
        lane, outage = self._keeper.lane, Outage(log)
        while True:
            await shared_ticks.tick(every)
            sweeping()
            try:
                async with asyncio.timeout(DEADLINE):
                    swept = await lane.sweep()
                    await self._notify({lane.name: swept.notifications})
                    self._work_unasked(swept.notifications)
                    process.lane(lane.name, await lane.stats())
            except ResponseError as error:
                outage.lasts("the broker answers with an error", lane=lane.name, error=str(error))
            except (RedisError, TimeoutError) as error:
                # The sweep resumes the lane when the broker is back.
                outage.lasts("the broker is away; waiting for it", lane=lane.name, error=outage_reason(error))
            except Exception:
                log.exception("a sweep failed", extra={"lane": lane.name})
            else:
                outage.over("the broker is back", lane=lane.name)

    def _work_unasked(self, missing: int) -> None:
        """Works without a notification when none arrives although some are missing, again and again.

        Celery does not notice that its connection is half open; the connections of the sweep have deadlines.
        """
        busy = self._unasked is not None and not self._unasked.done()
        if missing and not busy and time.monotonic() - self._notified > DEAF:
            self._unasked = asyncio.create_task(self._work_on(notified=False), name="work unasked")
            self._unasked.add_done_callback(_log_error)


async def end(tasks: Collection["asyncio.Task[Any]"], grace: float) -> None:
    """Waits for these tasks for `grace` seconds, and cancels those that run on; returns when all have ended."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=grace)
    await cancelled(*late)


def _log_error(task: "asyncio.Task[Any]") -> None:
    # A claim in the background has no caller that an error could reach.
    if not task.cancelled() and (error := task.exception()):
        log.error("a claim in the background could not be settled", exc_info=error)
