"""Push to Job: how long after an item arrives its Job exists, woken by the push and by polling alone.

On the embedded API server only: the whole way needs a server that stores ScaledJobs, and kube-apiserver 1.20 built
with Go 1.18 or newer dies on custom resources.
"""

import asyncio
import random
import time

from deploy.demo.report import percentile
from tests.benchmarks.harness import Figure
from tests.benchmarks.manifests import scaled_job
from tests.benchmarks.stack import Stack, stack
from workers.api.kinds import JOB, SCALED_JOB

PUSHES = 100
POLLED_PUSHES = 20
#: With polling alone: seconds between two polls.
POLLING = 1


async def figures() -> list[Figure]:
    async with stack() as running:
        woken = await _delays(running, "woken", PUSHES, polling=3600)
    async with stack(wakeups=False) as running:
        polled = await _delays(running, "polled", POLLED_PUSHES, polling=POLLING)
    group = "push to Job created, embedded API server"
    return [
        *(_figure(group, "woken by the push", woken, share, goal="< 50 ms") for share in (0.5, 0.99)),
        *(_figure(group, f"polled every {POLLING} s", polled, share) for share in (0.5, 0.99)),
    ]


def _figure(group: str, subject: str, delays: list[float], share: float, goal: str = "") -> Figure:
    return Figure(group, f"{subject}, p{share * 100:.0f}", percentile(delays, share) * 1000, "ms", goal=goal)


async def _delays(running: Stack, name: str, pushes: int, *, polling: int) -> list[float]:
    """Seconds from each push until the watch shows its Job. Items stay in the list, so each asks for one Job more."""
    await running.cluster.create(SCALED_JOB, scaled_job(name, running.address, most=10_000, polling=polling))
    _, version = await running.cluster.list(JOB, "default", limit=1)
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def watch() -> None:
        async for event in running.cluster.watch(JOB, "default", resource_version=version, timeout=600):
            if event.type == "ADDED":
                arrived.put_nowait(time.perf_counter())

    watching = asyncio.create_task(watch())
    delays = []
    await running.work.rpush(name, "warm")
    await arrived.get()
    for number in range(pushes):
        # An idle machine, and no step with the polls.
        await asyncio.sleep(random.uniform(0.2, 0.3) if polling > POLLING else random.uniform(0, POLLING))
        pushed = time.perf_counter()
        await running.work.rpush(name, str(number))
        delays.append(await asyncio.wait_for(arrived.get(), 60) - pushed)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return delays
