"""The beat within a process: due keys become ready on time, and a booking wakes it."""

import asyncio
import time

import pytest
from redis.exceptions import ConnectionError

from scheduler.keys import Keys
from scheduler.queue import Failed, Lane, RequeueAt
from tests.support.bookings import book
from tests.support.conditions import eventually
from tests.support.tables import for_each
from workers.runtime import lane_clock
from workers.runtime.lane_clock import tick_forever

KEY = "jobs.batch/default/crunch"


@pytest.fixture
async def lane(fake_redis):
    lane = Lane(fake_redis, "reconcile", Keys("test"))
    await lane.open()
    return lane


class Ticking:
    """A running beat: its steps, and what it notified."""

    def __init__(self, lane):
        self.steps = 0
        self.notified = 0
        self.task = asyncio.create_task(tick_forever(lane, self.notify, self.tick))

    def tick(self):
        self.steps += 1

    async def notify(self, notifications):
        self.notified += sum(notifications.values())


@pytest.fixture
async def ticking(lane, monkeypatch):
    # Only a booking can end such a pause.
    monkeypatch.setattr(lane_clock, "LONGEST_PAUSE", 3600.0)
    ticking = Ticking(lane)
    await eventually(lambda: ticking.steps == 1)
    yield ticking
    ticking.task.cancel()
    await asyncio.gather(ticking.task, return_exceptions=True)


@for_each(lambda: RequeueAt(time.time() + 0.2), lambda: Failed("once", within=0.1))
async def test_a_key_that_this_process_books_is_ready_when_it_is_due(outcome, lane, ticking):
    await lane.mark([KEY])
    (lease,) = (await lane.claim(1, notified=True)).leases
    await lane.finish([(lease, outcome())])
    await eventually(lambda: ticking.notified == 1)
    assert (await lane.stats()).ready == 1


async def test_it_goes_on_after_an_outage(lane, fake_redis, ticking, monkeypatch):
    sweep, fails = lane.sweep, True

    async def broken(limit):
        if fails:
            raise ConnectionError("away")
        return await sweep(limit)

    monkeypatch.setattr(lane, "sweep", broken)
    before = ticking.steps
    await book(fake_redis, lane.keys, {KEY: time.time()})
    lane.booked()
    await eventually(lambda: ticking.steps > before)
    fails = False
    lane.booked()
    await eventually(lambda: ticking.notified == 1)


async def test_many_bookings_at_once_are_one_step(lane, ticking):
    before = ticking.steps
    await lane.mark(f"{KEY}-{number}" for number in range(50))
    for lease in (await lane.claim(50, notified=True)).leases:
        await lane.finish([(lease, RequeueAt(time.time() + 3600))])
    await eventually(lambda: ticking.steps > before)
    assert ticking.steps <= before + 10
