"""Push to Job on the embedded API server: how long after an item is pushed to a list its Job exists.

The item is seen by a notification or by polling alone. Events over HTTP are in `events`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from deploy.demo.report import percentile
from tests.benchmarks.harness import Figure
from tests.benchmarks.manifests import scaled_job
from tests.benchmarks.stack import Stack, stack, version_of
from workers.api.kinds import JOB, SCALED_JOB

GROUP = "push to Job created, embedded API server"
PUSHES = 100
POLLED_PUSHES = 20
#: With polling alone: seconds between two polls.
POLLING = 1


async def figures() -> list[Figure]:
    async with stack() as running:
        woken = await _delays(running, "woken", PUSHES, polling=3600)
    async with stack(wakeups=False) as running:
        polled = await _delays(running, "polled", POLLED_PUSHES, polling=POLLING)
    return [
        *(figure(GROUP, "woken by the push", woken, share, goal="< 50 ms") for share in (0.5, 0.99)),
        *(figure(GROUP, f"polled every {POLLING} s", polled, share) for share in (0.5, 0.99)),
    ]


def figure(group: str, subject: str, delays: list[float], share: float, goal: str = "") -> Figure:
    return Figure(group, f"{subject}, p{share * 100:.0f}", percentile(delays, share) * 1000, "ms", goal=goal)


async def _delays(running: Stack, name: str, pushes: int, *, polling: int) -> list[float]:
    """Seconds from each push until the watch shows its Job. Items stay in the list, so each asks for one Job more."""
    await running.cluster.create(SCALED_JOB, scaled_job(name, running.address, most=10_000, polling=polling))
    async with arrivals(running) as arrived:
        await running.work.rpush(name, "warm")
        await arrived.get()
        # An idle machine, and no step with the polls.
        pause = (0.2, 0.3) if polling > POLLING else (0, POLLING)
        return [
            await delay(arrived, lambda number=number: running.work.rpush(name, str(number)), pause)  # type: ignore[misc]
            for number in range(pushes)
        ]


async def delay(
    arrived: asyncio.Queue[float], push: Callable[[], Awaitable[object]], pause: tuple[float, float]
) -> float:
    """Seconds from a push, after a pause of a random length, until its Job is there."""
    await asyncio.sleep(random.uniform(*pause))
    pushed = time.perf_counter()
    await push()
    return await asyncio.wait_for(arrived.get(), 60) - pushed


@asynccontextmanager
async def arrivals(running: Stack) -> AsyncIterator[asyncio.Queue[float]]:
    """Follows the Jobs: the moment at which each was seen."""
    version = await version_of(running.cluster, JOB)
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def watch() -> None:
        async for event in running.cluster.watch(JOB, "default", resource_version=version, timeout=600):
            if event.type == "ADDED":
                arrived.put_nowait(time.perf_counter())

    watching = asyncio.create_task(watch())
    try:
        yield arrived
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
