"""Memory and CPU at rest of each process, and of the single one; with and without objects.

BENCH_OBJECTS="0,1000" names the numbers of objects: half of them ScaledJobs on empty lists, but no more than one scaler
is for, and the rest CronJobs that run once a year. CPU time is the process's own, so that a busy machine disturbs it
little.
"""

import asyncio
import os
import time
from pathlib import Path

import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.benchmarks import cpu
from tests.benchmarks.harness import Figure, side_by_side
from tests.benchmarks.manifests import TEMPLATE, body, scaled_job
from tests.benchmarks.stack import Stack, stack
from workers.api.kinds import CRON_JOB, SCALED_JOB
from workers.cache.store import Store

OBJECTS = tuple(int(number) for number in os.environ.get("BENCH_OBJECTS", "0,1000").split(","))
#: Seconds until all has settled, and those of the measurement: two of the default pollingInterval.
SETTLING, MEASURED = 35.0, 60.0
#: Most ScaledJobs (docs/capacity.md).
POLLED = 20_000
#: Megabytes and percent that the single process should stay below.
MEMORY, CPU = 130, 1


async def figures() -> list[Figure]:
    found = []
    for objects in OBJECTS:
        for single in (False, True):
            found += await _measured(objects, single=single)
    return found


async def _measured(objects: int, *, single: bool) -> list[Figure]:
    async with stack(single=single, cronjobs=True) as running, redis.Redis.from_url(running.broker) as client:
        await _create(running, objects)
        await _mirrored(Store(client, Keys("penstock"), {}), client, objects)
        await _decided(client)
        await asyncio.sleep(SETTLING)
        before, began = {name: cpu.seconds(pid) for name, pid in running.pids.items()}, time.monotonic()
        await asyncio.sleep(MEASURED)
        lasted = time.monotonic() - began
        used = {name: (cpu.seconds(pid) - before[name]) / lasted * 100 for name, pid in running.pids.items()}
        sizes = {name: memory(pid) for name, pid in running.pids.items()}
    rows = [(name, used[name], *sizes[name], running.ready[name]) for name in sizes]
    if not single:
        rows.append(("the four together", sum(used.values()), *map(sum, zip(*sizes.values(), strict=True)), 0.0))
    group = f"footprint with {objects:,} objects, at rest"
    found = []
    for name, percent, resident, share, ready in rows:
        found += [
            Figure(group, f"{name}: memory (RSS)", resident, "MB", goal=f"below {MEMORY}" if single else ""),
            Figure(group, f"{name}: share of memory (PSS)", share, "MB"),
            Figure(group, f"{name}: CPU", percent, "% of a core", goal=f"below {CPU}" if single else ""),
        ]
        if ready:
            found.append(Figure(group, f"{name}: start to ready", ready, "s"))
    return found


def memory(pid: int) -> tuple[float, float]:
    """Resident memory and the process's share of it, MB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    sizes = {words[0]: int(words[1]) * 1024 / 1e6 for words in lines if words[0] in ("Rss:", "Pss:")}
    return sizes["Rss:"], sizes["Pss:"]


async def _create(running: Stack, objects: int) -> None:
    async def post(number: int) -> None:
        if number % 2 or number >= 2 * POLLED:
            made = body(CRON_JOB, f"yearly-{number}", spec={"schedule": f"{number % 60} 3 1 1 *", **_JOB})
            await running.cluster.create(CRON_JOB, made)
        else:
            name = f"work-{number}"
            await running.cluster.create(SCALED_JOB, scaled_job(name, running.address, most=10, polling=30))

    await side_by_side(post, objects)


_JOB = {"jobTemplate": {"spec": {"template": TEMPLATE}}}


async def _mirrored(store: Store, client: redis.Redis, objects: int) -> None:
    deadline = time.monotonic() + 600
    while sum([await client.hlen(store.keys.objects(kind.id)) for kind in (CRON_JOB, SCALED_JOB)]) < objects:
        if time.monotonic() > deadline:
            raise RuntimeError("the informer did not mirror all objects within ten minutes")
        await asyncio.sleep(0.2)


async def _decided(client: redis.Redis) -> None:
    """Returns once each object was decided on for the first time."""
    lane, deadline = Lane(client, "reconcile", Keys("penstock")), time.monotonic() + 1200
    while (stats := await lane.stats()).ready + stats.leased:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{stats.ready} objects wait for a decision after twenty minutes")
        await asyncio.sleep(0.2)
