"""Answering a bell: claim what is ready, hand it to the lane's handler, until nothing is ready or a second is over."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from redis.exceptions import RedisError

from scheduler.queue import ClaimedKeys, Failed
from workers.logs import Outage
from workers.metrics import process
from workers.runtime.leases import LeaseKeeper, Notify

log = logging.getLogger(__name__)

#: Works off one claim, settling every lease of it; returns when all of them are settled or lost.
Handler = Callable[[ClaimedKeys, LeaseKeeper], Awaitable[None]]


class Consumer:
    """One lane of one process.

    batch: most keys of one claim. work: seconds after which a bell hands over to the next one, so that no bell is
    held for ever by a lane that never runs dry. linger: seconds after which a claim that is not worked off yet goes on
    by itself, and its bell to the next claim: a few keys that take long hold up none that do not. lingering: claims at
    most that go on so; any more are waited for.
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
        """Answer one bell; answers how many keys were worked off."""
        lane = self._keeper.lane
        until = time.monotonic() + self._work
        worked, first = 0, True
        while True:
            claim = await lane.claim(self._batch, notified=first)
            if not claim.leases:
                if first:
                    process.EMPTY_NOTIFICATIONS.labels(lane.name).inc()
                return worked
            first = False
            worked += len(claim.leases)
            process.CLAIMED.labels(lane.name).inc(len(claim.leases))
            self._keeper.take(claim.leases)
            await self._begin(claim)
            if time.monotonic() > until:
                # Marking nothing answers how many bells are missing for what is ready.
                marked = await lane.mark(())
                await self._notify({lane.name: marked.notifications})
                return worked

    async def close(self) -> None:
        """Give up the claims that go on by themselves; what is not settled of them expires."""
        lingering = tuple(self._lingering)
        for task in lingering:
            task.cancel()
        await asyncio.gather(*lingering, return_exceptions=True)

    async def _begin(self, claim: ClaimedKeys) -> None:
        """Wait for the claim to be worked off, or until it may go on by itself."""
        if self._linger is None or len(self._lingering) >= self._most:
            await self._answer(claim)
            return
        answering = asyncio.create_task(self._answer(claim))
        self._lingering.add(answering)
        answering.add_done_callback(self._lingering.discard)
        try:
            done, _ = await asyncio.wait({answering}, timeout=self._linger)
        except asyncio.CancelledError:
            answering.cancel()
            raise
        if done:
            answering.result()
        else:
            answering.add_done_callback(_tell)

    async def _answer(self, claim: ClaimedKeys) -> None:
        """Hand the claim over; whatever happens, none of its leases is renewed afterwards."""
        try:
            with process.ACTIVE.labels(self._keeper.lane.name).track_inprogress():
                await self._handle(claim, self._keeper)
        except Exception as error:
            log.exception("a claim could not be worked off", extra={"lane": self._keeper.lane.name})
            left = [lease for lease in claim.leases if self._keeper.holds(lease)]
            reason = f"{type(error).__name__}: {error}"[:500]
            await self._keeper.settle_all([(lease, Failed(reason)) for lease in left])
        finally:
            self._keeper.drop(claim.leases)

    async def sweep_forever(self, every: float = 1.0) -> None:
        """Keep the lane moving when beat or a bell got lost: what is due becomes ready, missing bells are rung."""
        lane, outage = self._keeper.lane, Outage(log)
        while True:
            await asyncio.sleep(every)
            try:
                swept = await lane.sweep()
                await self._notify({lane.name: swept.notifications})
                process.lane(lane.name, await lane.stats())
            except RedisError as error:
                # The broker may be away for a while; the sweep is what gets things moving when it is back.
                outage.lasts("the broker is away; waiting for it", lane=lane.name, error=str(error))
            except Exception:
                log.exception("a sweep failed", extra={"lane": lane.name})
            else:
                outage.over("the broker is back", lane=lane.name)


def _tell(answering: "asyncio.Task[None]") -> None:
    """Nobody waits for it any more who would hear of an error."""
    if not answering.cancelled() and (error := answering.exception()):
        log.error("a claim that went on by itself could not be settled", exc_info=error)
