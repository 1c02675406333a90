"""The page with 10,000 objects: its first filling, its answers, and what 100 watchers cost.

Next to `/session` of the same process, which reads no object. BENCH_PAGE=1000 shortens a run.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import redis.asyncio as redis

from scheduler.keys import Keys
from tests.benchmarks.harness import Figure, broker
from tests.support.page_server import PREFIX, page_server
from workers.api import times
from workers.api.kinds import JOB, Object
from workers.cache.store import ObjectVersion, Store

OBJECTS = int(os.environ.get("BENCH_PAGE", "10000"))
WATCHERS, SECONDS, ANSWERS = 100, 20, 100
_GROUP = "page"


def a_job(number: int, version: int) -> Object:
    """A Job with a status, of about 2.5 kB."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "echo " + "x" * 1200]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": f"team-{number % 20}",
            "name": f"crunch-{number:05}",
            "uid": f"uid-{number}",
            "resourceVersion": str(version),
            "creationTimestamp": times.render(datetime.fromtimestamp(1_770_000_000 + number, UTC)),
            "labels": {f"label-{each}": "x" * 40 for each in range(12)},
        },
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
        "status": {"active": 1 + version % 5, "ready": 1, "startTime": "2026-03-01T00:00:00Z"},
    }


async def figures() -> list[Figure]:
    """Measures one page process."""
    with broker() as url:
        async with redis.Redis.from_url(url) as client:
            store = Store(client, Keys(PREFIX), {})
            for first in range(0, OBJECTS, 200):
                await store.apply(JOB, [ObjectVersion(a_job(number, 1)) for number in range(first, first + 200)])
            async with _process(url) as (pid, address), aiohttp.ClientSession(f"{address}/api/v1/") as http:
                return await _measured(store, pid, http)


async def _measured(store: Store, pid: int, http: aiohttp.ClientSession) -> list[Figure]:
    began = perf_counter()
    async with http.get("objects") as answer:
        assert (await answer.json())["total"] == OBJECTS
    filled = perf_counter() - began
    bare = await _answers(http, "session")
    found = [Figure(_GROUP, f"first answer of a new process, {OBJECTS:,} objects", filled, "s")]
    for what, query in (
        ("first page by name", "objects?limit=50"),
        ("first page by tone, searched", "objects?limit=50&sort=tone&q=team-7+crunch"),
        ("kinds with counts", "kinds"),
        ("one object", "objects/jobs.batch/team-7/crunch-00007"),
    ):
        spent = await _answers(http, query)
        against = f"/session, {statistics.median(bare) * 1000:.1f} ms"
        found.append(Figure(_GROUP, f"{what}, median", statistics.median(spent) * 1000, "ms", against, goal="< 100"))
        found.append(Figure(_GROUP, f"{what}, longest of {ANSWERS}", max(spent) * 1000, "ms"))
    found.append(Figure(_GROUP, f"memory with {OBJECTS:,} rows", _memory(pid) / 2**20, "MiB"))
    for rate in (0, 1, 50):
        share = await _watched(store, pid, http, rate)
        subject = f"{WATCHERS} watchers, {rate} object{'' if rate == 1 else 's'} changed a second"
        found.append(Figure(_GROUP, subject, share * 100, "% of a core", goal="< 20" if rate == 1 else ""))
    return found


async def _answers(http: aiohttp.ClientSession, query: str) -> Sequence[float]:
    spent = []
    for _ in range(ANSWERS):
        began = perf_counter()
        async with http.get(query) as answer:
            assert answer.status == 200
            await answer.read()
        spent.append(perf_counter() - began)
    return spent


async def _watched(store: Store, pid: int, http: aiohttp.ClientSession, rate: int) -> float:
    """Returns the part of a core that the process takes while watchers follow all Jobs."""
    received = 0

    async def watch() -> None:
        nonlocal received
        timeout = aiohttp.ClientTimeout(total=None)
        async with http.get(f"updates?topic=objects:{JOB.id}", timeout=timeout) as answer:
            async for chunk in answer.content.iter_any():
                received += chunk.count(b"event: row")

    connector: Any = http.connector
    connector._limit = 0
    tasks = [asyncio.create_task(watch()) for _ in range(WATCHERS)]
    await asyncio.sleep(2)
    began, spent = perf_counter(), _cpu(pid)
    received = 0
    version = round(perf_counter() * 1000)
    for second in range(SECONDS):
        changes = [ObjectVersion(a_job(number, version + second)) for number in range(rate)]
        if changes:
            await store.apply(JOB, changes)
        await asyncio.sleep(max(0.0, began + second + 1 - perf_counter()))
    share = (_cpu(pid) - spent) / (perf_counter() - began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert received >= rate * WATCHERS * (SECONDS - 3), received
    return share


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def _process(url: str) -> AsyncIterator[tuple[int, str]]:
    """Serves the page in a process of its own; yields its id and address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.benchmarks.page", url), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process.pid, (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def _serve(url: str) -> None:
    async with redis.Redis.from_url(url) as client, page_server(client) as served:
        print(served.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
