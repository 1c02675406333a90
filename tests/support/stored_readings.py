"""Readings in the broker without a poll that made them."""

from collections.abc import Collection, Mapping

from scheduler.queue import Lane
from workers.decision.snapshot import Reading
from workers.handoff.readings import Readings, ReadingsStored


async def store_readings(
    of: Readings, readings: Mapping[str, Reading], lane: Lane, *, news: Collection[str] = ()
) -> ReadingsStored:
    """Stores readings, and marks the keys in `news`, as a poll does that holds no lease."""
    stored, _ = await of.hand_over(readings, lane, [], lane, news=news)
    return stored
