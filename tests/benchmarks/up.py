"""`penstock up` as a user types it, at rest: broker, cluster and all processes embedded, and forks of one process.

Memory is the share (PSS): what the forks have in common counts for each of them by its part. CPU time is the
processes' own.
"""

import asyncio
import os
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import psutil

from deploy.processes import command_lines
from tests.benchmarks import cpu
from tests.benchmarks.footprint import memory
from tests.benchmarks.harness import Figure

GROUP = "penstock up, all embedded, at rest"
#: Seconds until all has settled, and those of the measurement: two of the default pollingInterval.
SETTLING, MEASURED = 35.0, 60.0
#: What the figures should stay below: seconds, and megabytes of one process.
READY, MEMORY = 3, 60


async def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as home:
        async with _up(home) as (pids, ready):
            await asyncio.sleep(SETTLING)
            before, began = _cpu(pids), time.monotonic()
            await asyncio.sleep(MEASURED)
            percent = (_cpu(pids) - before) / (time.monotonic() - began) * 100
            shares = {name: memory(pid)[1] for name, pid in pids.items()}
    goal = f"below {MEMORY}"
    return [
        Figure(GROUP, "start to ready", ready, "s", goal=f"below {READY}"),
        *(Figure(GROUP, f"{name}: share of memory (PSS)", share, "MB", goal=goal) for name, share in shares.items()),
        Figure(GROUP, "all together: share of memory (PSS)", sum(shares.values()), "MB"),
        Figure(GROUP, "all together: CPU", percent, "% of a core"),
    ]


@asynccontextmanager
async def _up(home: str) -> AsyncIterator[tuple[Mapping[str, int], float]]:
    """Runs `penstock up` in this folder; the process ids by name once it is ready, and the seconds until then."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command_lines.own("up", "--home", home), stdout=PIPE, stderr=asyncio.subprocess.DEVNULL, env=variables
    )
    try:
        parts = await _announced(process)
        ready = time.perf_counter() - began
        yield _named(process.pid, parts), ready
    finally:
        process.terminate()
        await process.communicate()


async def _announced(process: Process) -> dict[str, int]:
    """Returns the process ids in the table that `up` prints once it is ready. Raises RuntimeError if it ends before."""
    assert process.stdout is not None
    parts = {}
    async for line in process.stdout:
        match line.decode().split():
            case [name, pid] if pid.isdecimal():
                parts[name] = int(pid)
            case ["Ctrl-C", *_]:
                return parts
    raise RuntimeError("penstock up ended before it was ready")


def _named(up: int, parts: Mapping[str, int]) -> dict[str, int]:
    """The process ids of `up`, of its parts, and of the processes beside them, each named by whose child it is."""
    names = {up: "up", **{pid: name for name, pid in parts.items()}}
    # Parents come before their children.
    for child in psutil.Process(up).children(recursive=True):
        words = " ".join(child.cmdline())
        what = next((each for each in ("fork server", "guard", "starter") if each in words), "child")
        names.setdefault(child.pid, f"{what} of {names[child.ppid()]}")
    return {name: pid for pid, name in names.items()}


def _cpu(pids: Mapping[str, int]) -> float:
    return sum(map(cpu.seconds, pids.values()))
