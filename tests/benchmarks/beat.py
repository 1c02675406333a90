"""Beat: how long 10,000 due entries take, next to celery-redbeat emitting as many in the same run."""

import time
from datetime import timedelta
from time import perf_counter

import redis.asyncio as redis
from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatSchedulerEntry
from redbeat.schedulers import RedBeatScheduler

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.benchmarks.harness import Figure, broker, median
from tests.support.bookings import book

DUE = 10_000
#: redbeat takes seconds for what is timed here, so it is timed once.
RUNS = 5


async def figures() -> list[Figure]:
    with broker() as url:
        ours = await _ours(url)
    with broker() as url:
        theirs = _redbeat(url)
    return [
        Figure("beat, 10,000 due entries", "celery-redbeat: tick", theirs, "s"),
        Figure(
            "beat, 10,000 due entries",
            "moved into the work queue",
            ours,
            "s",
            against=f"celery-redbeat, {theirs:.2f} s",
            ratio=theirs / ours,
            goal="80",
        ),
    ]


async def _ours(url: str) -> float:
    names = [f"cronjobs.batch/team-{number % 20}/nightly-{number}" for number in range(DUE)]
    async with redis.Redis.from_url(url) as client:

        async def run() -> float:
            await client.flushall()
            lane = Lane(client, "reconcile", Keys("bench"))
            await lane.open()
            await book(client, lane.keys, dict.fromkeys(names, time.time() - 1))
            started = perf_counter()
            moved = 0
            while moved < DUE:
                moved += (await lane.sweep()).moved
            return perf_counter() - started

        return await median(run, RUNS)


def _redbeat(url: str) -> float:
    app = Celery("redbeat", broker=url, set_as_current=False)
    app.conf.update(redbeat_redis_url=url, redbeat_lock_key=None, timezone="UTC", beat_max_loop_interval=5)
    yesterday = app.now() - timedelta(days=1)
    for number in range(DUE):
        entry = RedBeatSchedulerEntry(
            f"nightly-{number}", "empty", schedule(timedelta(days=1), app=app), app=app, last_run_at=yesterday
        )
        entry.save()
    scheduler = RedBeatScheduler(app=app, lazy=True)
    started = perf_counter()
    scheduler.tick()
    took = perf_counter() - started
    left = app.connection().default_channel.client.llen("celery")
    if left < DUE:
        raise RuntimeError(f"celery-redbeat sent {left} of {DUE} entries: the comparison does not hold")
    app.close()
    return took
