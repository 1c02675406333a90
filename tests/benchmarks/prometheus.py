"""Many ScaledJobs whose triggers ask one real Prometheus, each polled every second: what a poll and a request cost.

Once with a query for each ScaledJob, and once with the same few queries for all. Next to a bare client that sends a
query at a time on each of as many connections. Needs a `prometheus` on the PATH. BENCH_SCALEDJOBS shortens a run.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.benchmarks import cpu
from tests.benchmarks.harness import Figure, side_by_side
from tests.benchmarks.manifests import TEMPLATE, body
from tests.benchmarks.stack import Stack, stack
from tests.support import promserver
from tests.support.ports import free_port
from workers.api.kinds import SCALED_JOB, Object

SCALED_JOBS = int(os.environ.get("BENCH_SCALEDJOBS", "2000"))
INTERVAL = 1
#: Queries of all ScaledJobs, where they share them.
SHARED = 100
#: Seconds that are measured; before them the polls spread over the second as they come.
WINDOW, WARM = 20.0, 10.0


async def figures() -> list[Figure]:
    if not promserver.PROGRAM:
        print("there is no prometheus on the PATH: its queries are not measured", file=sys.stderr)
        return []
    return [*await _polled(SCALED_JOBS), *await _polled(SHARED)]


async def _polled(queries: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, promserver.prometheus(Path(folder), (), ()) as server:
        metrics = free_port()
        async with stack(metrics_port=metrics) as running, aiohttp.ClientSession() as http:
            await _create(running, server.url, queries)
            scaler, ports = running.pids["scaler-1"], range(metrics, metrics + len(running.pids))

            async def now() -> tuple[float, ...]:
                polls, asked = await _polls(http, ports), await _asked(http, server.url)
                return time.perf_counter(), cpu.seconds(scaler), polls, asked

            await _all_polled(http, ports)
            await asyncio.sleep(WARM)
            began = await now()
            await asyncio.sleep(WINDOW)
            ended = await now()
        seconds, spent, polls, asked = (after - before for before, after in zip(began, ended, strict=True))
        bare = await _bare(server.url)
    group = f"{SCALED_JOBS:,} ScaledJobs on one Prometheus, polled every {INTERVAL} s, {queries:,} queries"
    cost = spent / polls * 1e6
    return [
        Figure(group, "polls", polls / seconds, "per second", goal=f"{SCALED_JOBS / INTERVAL:,.0f}"),
        Figure(group, "requests that Prometheus answers", asked / seconds, "per second"),
        Figure(
            group,
            "CPU of the scaler process per poll",
            cost,
            "us",
            against=f"bare client, {bare:.0f} us for a query",
            ratio=bare / cost,
        ),
        Figure(group, "share of one core", spent / seconds * 100, "%"),
    ]


def _query(number: int) -> str:
    return f"vector({number})"


def _scaled_job(number: int, url: str, queries: int) -> Object:
    metadata = {"serverAddress": url, "query": _query(number % queries), "threshold": "1", "activationThreshold": "1e9"}
    spec = {
        "pollingInterval": INTERVAL,
        "maxReplicaCount": 1,
        "jobTargetRef": {"template": TEMPLATE},
        "triggers": [{"type": "prometheus", "metadata": metadata}],
    }
    return body(SCALED_JOB, f"work-{number}", spec=spec)


async def _create(running: Stack, url: str, queries: int) -> None:
    await side_by_side(
        lambda number: running.cluster.create(SCALED_JOB, _scaled_job(number, url, queries)), SCALED_JOBS
    )


async def _all_polled(http: aiohttp.ClientSession, ports: Sequence[int]) -> None:
    """Returns when a second has as many polls as there are ScaledJobs, or nearly, or no more than the one before."""
    before, rate = await _polls(http, ports), 0.0
    for _ in range(60):
        await asyncio.sleep(2)
        now = await _polls(http, ports)
        earlier, rate = rate, (now - before) / 2
        before = now
        if rate > 0.98 * SCALED_JOBS / INTERVAL or (earlier and abs(rate - earlier) < 0.02 * rate):
            return
    raise RuntimeError(f"{rate:g} polls a second after two minutes, and no steady number")


async def _polls(http: aiohttp.ClientSession, ports: Sequence[int]) -> float:
    """Polls so far, of all processes."""
    return sum([await _sum(http, f"http://127.0.0.1:{port}", "penstock_claimed_keys", lane="poll") for port in ports])


async def _asked(http: aiohttp.ClientSession, url: str) -> float:
    """Instant queries that Prometheus has answered so far."""
    return await _sum(http, url, "prometheus_http_requests", handler="/api/v1/query", code="200")


async def _sum(http: aiohttp.ClientSession, url: str, counter: str, **labels: str) -> float:
    try:
        async with http.get(f"{url}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
    except aiohttp.ClientConnectionError:
        # The beat serves none.
        return 0.0
    return sum(
        sample.value
        for family in families
        if family.name == counter
        for sample in family.samples
        if sample.name == f"{counter}_total" and labels.items() <= sample.labels.items()
    )


async def _bare(url: str) -> float:
    """Microseconds of CPU per query, of a client that does nothing but ask."""
    async with aiohttp.ClientSession() as http:

        async def ask(number: int) -> None:
            async with http.get(f"{url}/api/v1/query", params={"query": _query(number)}) as answer:
                assert answer.status == 200
                await answer.read()

        before = time.process_time()
        await side_by_side(ask, SCALED_JOBS)
        return (time.process_time() - before) / SCALED_JOBS * 1e6
