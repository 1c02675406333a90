"""Notifications within a process: they start its own consumers, and reach other processes when all of these are busy.

Without Celery's messages in between, work that this process marks begins in the same turn of its event loop. Processes
that notify by Celery are heard, too: their messages wait in a list of the broker, from which a process with a free slot
takes them, a Celery worker as well as this one.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.cancellation import cancelled
from workers.json_logs import Outage
from workers.lanes import queue_key
from workers.metrics import process
from workers.runtime.consumer import Consumer, end
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)

#: Seconds of one wait for a message, and of the pause after one that failed.
WAIT, PAUSE = 2.0, 1.0
#: Seconds that running consumers have to finish when the process stops.
GRACE = 10.0


class LaneRunner:
    """Runs the consumer of one lane, as often side by side as there are slots."""

    def __init__(self, lane: str, consumer: Consumer, slots: int) -> None:
        self.lane = lane
        self._consumer = consumer
        self._slots = slots
        self._running: set[asyncio.Task[None]] = set()
        self._outage = Outage(log)
        self._stopping = False

    @property
    def free(self) -> int:
        """The number of slots that nothing runs in."""
        return 0 if self._stopping else self._slots - len(self._running)

    def start(self, notifications: int) -> int:
        """Starts a consumer for each notification that finds a free slot. Returns how many found none."""
        starting = min(notifications, self.free)
        for _ in range(starting):
            # A notification comes out of the work on another key, whose fence and priority must not be inherited.
            task = asyncio.create_task(self._consume(), name=f"consume {self.lane}", context=Context())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return notifications - starting

    async def slot(self) -> None:
        """Returns when there is a free slot."""
        while self._running and self.free <= 0:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self, grace: float = GRACE) -> None:
        """Starts no more, and ends what runs after `grace` seconds, in the background, too; its leases expire."""
        self._stopping = True
        await asyncio.gather(self._consumer.close(grace), end(self._running.copy(), grace))

    async def _consume(self) -> None:
        # A notification that fails is lost as a Celery message can be: the sweep sends another one.
        try:
            await self._consumer.consume()
        except RedisError as error:
            self._outage.lasts("the broker is away; waiting for it", lane=self.lane, error=str(error))
        except Exception:
            log.exception("a notification could not be handled", extra={"lane": self.lane})
        else:
            self._outage.over("the broker is back", lane=self.lane)


class InProcessNotifier:
    """Sends notifications to the lane runners of this process, and what finds no free slot there to others.

    others: sends notifications to other processes. Before a lane's runner is added, they get all of that lane.
    """

    def __init__(self, others: Notify) -> None:
        self._others = others
        self._runners: dict[str, LaneRunner] = {}

    def add(self, runner: LaneRunner) -> None:
        """Lets this one have the notifications of its lane from now on."""
        self._runners[runner.lane] = runner

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Sends so many notifications for each lane."""
        left = {}
        for lane, count in notifications.items():
            if count <= 0:
                continue
            runner = self._runners.get(lane)
            missed = runner.start(count) if runner else count
            process.NOTIFICATIONS.labels(lane).inc(count - missed)
            if missed:
                left[lane] = missed
        if left:
            await self._others(left)


async def take_messages(client: Redis, prefix: str, runners: Sequence[LaneRunner]) -> None:
    """Takes Celery's messages for these lanes out of the broker while slots are free, until cancelled.

    A message has no content, so that none is kept until it is done: the sweep replaces one that a crash loses.
    """
    outage = Outage(log)
    by_key = {queue_key(prefix, runner.lane): runner for runner in runners}
    while True:
        free = [key for key, runner in by_key.items() if runner.free > 0]
        if not free:
            waiting = [asyncio.create_task(runner.slot()) for runner in runners]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancelled(*waiting)
            continue
        try:
            found: Any = await client.brpop(free, timeout=WAIT)
        except RedisError as error:
            outage.lasts("notifications of other processes are not heard", error=str(error))
            await asyncio.sleep(PAUSE)
            continue
        outage.over("notifications of other processes are heard again")
        if found:
            runner = by_key[str(found[0], "utf-8")]
            # All slots may have been taken while this waited.
            await runner.slot()
            runner.start(1)
