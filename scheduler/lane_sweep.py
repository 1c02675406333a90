"""The beat's step for one lane, which makes ready all that is due; for Celery's beat and for a process's own."""

import math

from scheduler.queue import Lane

#: Entries moved by one call, some milliseconds of the broker: it serves other clients between two calls.
PIECE = 500

#: Most calls per step: a lane with more due entries continues after the other lanes.
CALLS = 80


async def sweep_due(lane: Lane) -> tuple[int, float]:
    """Makes due keys ready. Returns the notifications to send, and the seconds until the next are due (or infinity).

    Raises redis.exceptions.RedisError, as the lane does.
    """
    notifications = 0
    for _ in range(CALLS):
        swept = await lane.sweep(PIECE)
        notifications += swept.notifications
        if swept.moved < PIECE:
            break
    return notifications, math.inf if swept.next is None else max(swept.next - swept.now, 0.0)
