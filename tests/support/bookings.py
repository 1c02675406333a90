"""Keys of a lane that are due at a moment, without a decision that books them."""

from collections.abc import Mapping

from redis.asyncio import Redis

from scheduler.keys import LaneKeys
from scheduler.queue import PIECE


async def book(client: Redis, lane: LaneKeys, due: Mapping[str, float]) -> None:
    """Books each key for its moment (seconds since the epoch), whatever it is booked for so far."""
    moments = [(key, round(at * 1e6)) for key, at in due.items()]
    for first in range(0, len(moments), PIECE):
        await client.zadd(lane.of("later"), dict(moments[first : first + PIECE]))
