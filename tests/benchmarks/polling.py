"""Many ScaledJobs whose lists are on one Redis, each polled every second: what a poll costs and how late it is.

Lateness is measured where the questions arrive: the measured server tells (MONITOR) when each list was asked for. Next
to a bare client that asks the same questions in one pipeline a second. BENCH_SCALEDJOBS shortens a run.
"""

import asyncio
import itertools
import os
import re
import time
from collections import defaultdict
from collections.abc import Sequence

import psutil

from deploy.demo.report import percentile
from tests.benchmarks.harness import Figure, side_by_side
from tests.benchmarks.manifests import scaled_job
from tests.benchmarks.stack import Stack, stack
from workers.api.kinds import SCALED_JOB

SCALED_JOBS = int(os.environ.get("BENCH_SCALEDJOBS", "1000"))
INTERVAL = 1
#: Seconds that are measured; before them the polls spread over the second as they come.
WINDOW, WARM = 20.0, 10.0
#: What MONITOR tells of a list: what a script does is told, too, and it asks for the list's type first.
_TOLD = re.compile(rb'^\+(\S+) \[[^]]*\] "TYPE" "([^"]+)"', re.MULTILINE | re.IGNORECASE)


async def figures() -> list[Figure]:
    async with stack() as running:
        await _create(running)
        await _all_polled(running)
        await asyncio.sleep(WARM)
        connections = await _connections(running)
        scaler = psutil.Process(running.pids["scaler-1"])
        before = _seconds(scaler)
        asked = await _asked(running, WINDOW)
        spent, memory = _seconds(scaler) - before, scaler.memory_info().rss
        polls = sum(map(len, asked.values()))
        bare = await _bare(running)
    group = f"{SCALED_JOBS:,} ScaledJobs on one Redis, polled every {INTERVAL} s"
    late = _lateness(asked)
    cost = spent / polls * 1e6
    return [
        Figure(group, "polls", polls / WINDOW, "per second", goal=f"{SCALED_JOBS / INTERVAL:,.0f}"),
        Figure(
            group,
            "CPU of the scaler process per poll",
            cost,
            "us",
            against=f"bare client, one pipeline a second, {bare:.0f} us",
            ratio=bare / cost,
        ),
        Figure(group, "share of one core", spent / WINDOW * 100, "%"),
        Figure(group, "memory of the scaler process (RSS)", memory / 1e6, "MB"),
        Figure(group, "connections to the measured Redis", connections, ""),
        Figure(group, "lateness of a poll, p50", percentile(late, 0.5) * 1000, "ms"),
        Figure(group, "lateness of a poll, p99", percentile(late, 0.99) * 1000, "ms"),
        Figure(group, "lateness of a poll, worst", max(late) * 1000, "ms"),
    ]


async def _create(running: Stack) -> None:
    async def post(number: int) -> None:
        body = scaled_job(f"work-{number}", running.address, most=10, polling=INTERVAL)
        await running.cluster.create(SCALED_JOB, body)

    await side_by_side(post, SCALED_JOBS)


async def _all_polled(running: Stack) -> None:
    deadline = time.monotonic() + 120
    while len(await _asked(running, 2.0)) < SCALED_JOBS:
        if time.monotonic() > deadline:
            raise RuntimeError("not all ScaledJobs were polled within two minutes")


async def _connections(running: Stack) -> int:
    """Of others than this process."""
    clients = await running.work.client_list()
    ours = psutil.Process()
    ports = {connection.laddr.port for connection in ours.net_connections() if connection.laddr}
    return sum(int(client["addr"].rpartition(":")[2]) not in ports for client in clients)


async def _asked(running: Stack, seconds: float) -> dict[str, list[float]]:
    """When each list was asked for, in seconds on the measured server's clock."""
    host, _, port = running.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    told = bytearray()
    try:
        writer.write(b"MONITOR\r\n")
        async with asyncio.timeout(seconds):
            while chunk := await reader.read(1 << 20):
                told += chunk
        raise RuntimeError("the measured server ended the connection")
    except TimeoutError:
        pass
    finally:
        writer.close()
    # Read afterwards: ten thousand lines a second would take a core from those who are measured.
    asked: defaultdict[str, list[float]] = defaultdict(list)
    for moment, name in _TOLD.findall(told):
        asked[name.decode()].append(float(moment))
    return asked


def _lateness(asked: dict[str, list[float]]) -> Sequence[float]:
    """By how much each poll came later than one interval after the poll before it; not below 0."""
    return [
        max(0.0, later - earlier - INTERVAL)
        for moments in asked.values()
        for earlier, later in itertools.pairwise(moments)
    ]


def _seconds(process: psutil.Process) -> float:
    """CPU that the process and its children have used."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        times = each.cpu_times()
        total += times.user + times.system
    return total


async def _bare(running: Stack) -> float:
    """Microseconds of CPU per list, of a client that does nothing but ask."""
    rounds = 10
    before = time.process_time()
    for _ in range(rounds):
        pipeline = running.work.pipeline(transaction=False)
        for number in range(SCALED_JOBS):
            pipeline.llen(f"work-{number}")
        await pipeline.execute()
    return (time.process_time() - before) / rounds / SCALED_JOBS * 1e6
