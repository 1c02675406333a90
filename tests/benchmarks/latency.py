"""Push to Job on the embedded API server: how long after an item or event arrives its Job exists.

An item of a list is seen by a notification or by polling alone. An event is pushed over HTTP, at rest and while ten
thousand others of its EventJob wait for their turn.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from deploy.demo.report import percentile
from tests.benchmarks.harness import Figure
from tests.benchmarks.manifests import TEMPLATE, body, scaled_job
from tests.benchmarks.stack import Stack, stack
from tests.support.ports import free_port
from workers.api.kinds import EVENT_JOB, JOB, SCALED_JOB

PUSHES = 100
POLLED_PUSHES = 20
#: With polling alone: seconds between two polls.
POLLING = 1
#: Events that wait, and events of one request.
WAITING, BATCH = 10_000, 500


async def figures() -> list[Figure]:
    async with stack() as running:
        woken = await _delays(running, "woken", PUSHES, polling=3600)
    async with stack(wakeups=False) as running:
        polled = await _delays(running, "polled", POLLED_PUSHES, polling=POLLING)
    async with stack(gateway=f"127.0.0.1:{free_port()}") as running:
        posted, behind = await _posted(running)
    group = "push to Job created, embedded API server"
    return [
        *(_figure(group, "woken by the push", woken, share, goal="< 50 ms") for share in (0.5, 0.99)),
        *(_figure(group, "pushed over HTTP", posted, share, goal="< 20 ms") for share in (0.5, 0.99)),
        *(_figure(group, f"pushed over HTTP, {WAITING:,} waiting", behind, share) for share in (0.5, 0.99)),
        *(_figure(group, f"polled every {POLLING} s", polled, share) for share in (0.5, 0.99)),
    ]


def _figure(group: str, subject: str, delays: list[float], share: float, goal: str = "") -> Figure:
    return Figure(group, f"{subject}, p{share * 100:.0f}", percentile(delays, share) * 1000, "ms", goal=goal)


async def _delays(running: Stack, name: str, pushes: int, *, polling: int) -> list[float]:
    """Seconds from each push until the watch shows its Job. Items stay in the list, so each asks for one Job more."""
    await running.cluster.create(SCALED_JOB, scaled_job(name, running.address, most=10_000, polling=polling))
    async with _arrivals(running) as arrived:
        await running.work.rpush(name, "warm")
        await arrived.get()
        # An idle machine, and no step with the polls.
        pause = (0.2, 0.3) if polling > POLLING else (0, POLLING)
        return [
            await _delay(arrived, lambda number=number: running.work.rpush(name, str(number)), pause)  # type: ignore[misc]
            for number in range(pushes)
        ]


async def _posted(running: Stack) -> tuple[list[float], list[float]]:
    """Seconds from each request with an event until the watch shows its Job: at rest, and with others waiting.

    Those that wait are all of one ordering key, whose first Job never ends.
    """
    concurrency = {"total": 1_000, "orderingKey": "event.subject"}
    spec = {
        **{"concurrency": concurrency, "push": {"anonymous": True}, "maxEvents": 10 * WAITING},
        "jobTemplate": {"spec": {"template": TEMPLATE}},
    }
    await running.cluster.create(EVENT_JOB, body(EVENT_JOB, "orders", spec=spec))
    url = f"http://{running.gateway}/events/default/orders"
    async with aiohttp.ClientSession() as http, _arrivals(running) as arrived:

        async def push_one(subject: str) -> None:
            event = {"specversion": "1.0", "id": subject, "source": "/bench", "type": "t", "subject": subject}
            async with http.post(url, json=event, headers={"Content-Type": _EVENT}) as answer:
                if answer.status != 202:
                    raise RuntimeError(f"{answer.status} {await answer.text()}")

        async def measured(prefix: str) -> list[float]:
            return [
                await _delay(arrived, lambda number=number: push_one(f"{prefix}-{number}"), (0.2, 0.3))  # type: ignore[misc]
                for number in range(PUSHES)
            ]

        while True:
            # The gateway knows the EventJob once its cache has it.
            try:
                await push_one("first")
                break
            except RuntimeError:
                await asyncio.sleep(0.1)
        await arrived.get()
        at_rest = await measured("rest")
        for first in range(0, WAITING, BATCH):
            events = [
                {"specversion": "1.0", "id": f"w-{first + each}", "source": "/bench", "type": "t", "subject": "one"}
                for each in range(BATCH)
            ]
            async with http.post(url, json=events, headers={"Content-Type": _EVENTS}) as answer:
                answer.raise_for_status()
        await arrived.get()
        # All of them are taken in before the first is measured.
        await asyncio.sleep(5)
        return at_rest, await measured("behind")


_EVENT, _EVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"


async def _delay(
    arrived: asyncio.Queue[float], push: Callable[[], Awaitable[object]], pause: tuple[float, float]
) -> float:
    """Seconds from a push, after a pause of a random length, until its Job is there."""
    await asyncio.sleep(random.uniform(*pause))
    pushed = time.perf_counter()
    await push()
    return await asyncio.wait_for(arrived.get(), 60) - pushed


@asynccontextmanager
async def _arrivals(running: Stack) -> AsyncIterator[asyncio.Queue[float]]:
    """Follows the Jobs: the moment at which each was seen."""
    _, version = await running.cluster.list(JOB, "default", limit=1)
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
