"""Polls that are due one after another are claimed together: claims and notifications of simulated seconds, counted."""

import random
from dataclasses import dataclass

from redis.asyncio import Redis

from scalers.polling.object_poll import COMMON, ObjectPoll
from scalers.triggers.parse import Parsed
from scheduler.queue import Lane, RequeueAt
from tests.integration.scalers.world import KEYS, key, scaled_job
from tests.support.bookings import book

OBJECTS, SECONDS, CLAIM = 500, 4, 64
START = 1_700_000_000_000_000


@dataclass
class Counts:
    """Of one simulation: `late` in seconds, of each poll, against the interval since the one before."""

    sweeps: int = 0
    notifications: int = 0
    claims: int = 0
    polls: int = 0
    late: float = 0.0


async def simulated(client: Redis, *, common: bool, spread: int | None) -> Counts:
    """Every object is polled every second, first at a random moment; a beat sweeps when the next key is due.

    A sweep and a claim with its polls take half a millisecond of simulated time each.
    """
    now = [START]
    lane = Lane(client, "poll", KEYS, lease=60.0, spread=spread, clock=lambda: now[0])
    await lane.open()
    draw = random.Random(1)
    names = [f"work-{number}" for number in range(OBJECTS)]
    bodies = {key(name): scaled_job(name, pollingInterval=1) for name in names}
    await book(client, lane.keys, {each: START / 1e6 + draw.random() for each in bodies})
    await lane.claim(0)
    counts, last = Counts(), {}
    while now[0] < START + SECONDS * 1_000_000:
        swept = await lane.sweep(2000)
        counts.sweeps += 1
        counts.notifications += swept.notifications
        for _ in range(swept.notifications):
            claim = await lane.claim(CLAIM, notified=True)
            counts.claims += 1
            outcomes = []
            for lease in claim.leases:
                poll = ObjectPoll(lease, bodies[lease.key], Parsed(()), None, claim.now, 1.0)
                counts.polls += 1
                if lease.key in last:
                    counts.late = max(counts.late, (claim.now - last[lease.key]) / 1e6 - 1)
                last[lease.key] = claim.now
                outcomes.append((lease, RequeueAt(poll.next() if common else claim.now / 1e6 + 1)))
            if outcomes:
                await lane.finish(outcomes)
            now[0] += 500
        now[0] = max(now[0] + 500, round((swept.next or 0) * 1e6))
    return counts


async def test_polls_of_one_second_are_claimed_in_claims_that_are_filled(real_redis: Redis) -> None:
    counts = await simulated(real_redis, common=True, spread=CLAIM)
    assert counts.polls >= OBJECTS * (SECONDS - 1)
    # The first second's polls begin at random; then the objects share the moments of their interval.
    assert counts.claims <= OBJECTS + (SECONDS - 1) * COMMON * 1.5
    assert counts.notifications == counts.claims
    assert counts.late <= 0.05
