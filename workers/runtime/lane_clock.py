"""The beat within a process: it makes due keys ready and notifies, as Celery's beat does with `scheduler.beat`."""

import asyncio
import logging
from collections.abc import Callable

from redis.exceptions import RedisError, ResponseError

from scheduler import shared_ticks
from scheduler.lane_sweep import sweep_due
from scheduler.queue import Lane
from workers.json_logs import Outage, outage_reason
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)

#: Seconds that one step may take.
DEADLINE = 20.0
#: Pause between two steps, seconds, half as long at least and at most by half longer: the delay of a key that another
#: process books during the pause.
LONGEST_PAUSE = 1.0
#: Shortest time between two steps, seconds: the delay of a key that becomes due right after one, so that many keys that
#: are due one after another do not cost a step each.
SPACING = 0.1


async def tick_forever(lane: Lane, notify: Notify, ticking: Callable[[], None]) -> None:
    """Makes the lane's due keys ready until cancelled. ticking: called at the begin of each step.

    It sleeps until the next key is due. A booking by this process wakes it, because it may be an earlier one.
    """
    outage, booked, loop = Outage(log), asyncio.Event(), asyncio.get_running_loop()
    lane.booked = booked.set
    while True:
        ticking()
        booked.clear()
        began, pause = loop.time(), shared_ticks.until_tick(LONGEST_PAUSE)
        try:
            async with asyncio.timeout(DEADLINE):
                notifications, due = await sweep_due(lane)
                pause = min(pause, due)
                if notifications:
                    await notify({lane.name: notifications})
        except ResponseError as error:
            outage.lasts("the broker answers with an error; ticking on", lane=lane.name, error=str(error))
        except (RedisError, OSError, TimeoutError) as error:
            outage.lasts("the broker is away; ticking on", lane=lane.name, error=outage_reason(error))
        else:
            outage.over("the broker is back", lane=lane.name)
        await _set_within(booked, pause)
        await asyncio.sleep(max(0.0, began + SPACING - loop.time()))


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
