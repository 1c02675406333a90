"""Memory of each process: at rest, and with 100,000 Jobs in the cluster."""

import asyncio
import os
import time

import psutil
import redis.asyncio as redis

from scheduler.keys import Keys
from tests.benchmarks.harness import Figure, side_by_side
from tests.benchmarks.manifests import TEMPLATE, body
from tests.benchmarks.stack import Stack, stack
from workers.api.kinds import JOB
from workers.cache.store import Store

#: BENCH_JOBS shortens a run: storing 100,000 Jobs through an API server takes minutes.
JOBS = int(os.environ.get("BENCH_JOBS", "100000"))


async def figures() -> list[Figure]:
    async with stack() as running, redis.Redis.from_url(running.broker) as client:
        store = Store(client, Keys("penstock"), {})
        rest = await _resident(running, client)
        await _create(running)
        await _mirrored(store, client)
        full = await _resident(running, client)
    group = f"memory, at rest and with {JOBS:,} Jobs mirrored"
    found = []
    for name, value in rest.items():
        found.append(Figure(group, f"{name}, at rest", value, "MB"))
        found.append(Figure(group, f"{name}, {JOBS:,} Jobs", full[name], "MB"))
    return found


async def _resident(running: Stack, client: redis.Redis) -> dict[str, float]:
    """Resident memory by process; of the broker what it says itself."""
    sizes = {name: psutil.Process(pid).memory_info().rss / 1e6 for name, pid in running.pids.items()}
    info = await client.info("memory")
    return {"broker": info["used_memory"] / 1e6, **sizes}


async def _create(running: Stack) -> None:
    async def post(number: int) -> None:
        await running.cluster.create(JOB, body(JOB, f"job-{number}", spec={"template": TEMPLATE}))

    await side_by_side(post, JOBS)


async def _mirrored(store: Store, client: redis.Redis) -> None:
    deadline = time.monotonic() + 300
    while await client.hlen(store.keys.objects(JOB.id)) < JOBS:
        if time.monotonic() > deadline:
            raise RuntimeError("the informer did not mirror all Jobs within five minutes")
        await asyncio.sleep(0.2)
