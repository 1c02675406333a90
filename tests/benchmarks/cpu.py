"""CPU time of processes: what a piece of work costs, which a busy machine changes little, unlike how long it takes."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import psutil
import redis.asyncio as redis

from tests.benchmarks.harness import Figure
from tests.benchmarks.stack import Stack

#: What follows the last Job counts, too, its status above all: until all processes together used less CPU than so many
#: seconds in as many; and at most so many seconds.
QUIET, WITHIN, MOST = 0.05, 1.5, 30.0
BROKER = "broker"


async def broker_pid(client: redis.Redis) -> int:
    """The process id of the server that this client is connected to."""
    info = await client.info("server")
    return int(info["process_id"])


def seconds(pid: int) -> float:
    """The CPU time, user and system, that a process has used so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@dataclass
class CpuUse:
    """The CPU time that processes used for so many pieces of work. pids: by name."""

    pids: Mapping[str, int]
    used: dict[str, float] = field(default_factory=dict)
    pieces: int = 0

    @classmethod
    async def of_stack(cls, running: Stack) -> "CpuUse":
        """All processes of this Penstock, and its broker; neither the API server nor the benchmark."""
        async with redis.Redis.from_url(running.broker) as client:
            return cls({**running.pids, BROKER: await broker_pid(client)})

    @asynccontextmanager
    async def of(self, pieces: int) -> AsyncIterator[None]:
        """Counts what is used while open, and until the processes rest again, for so many pieces."""
        before = self._now()
        async with self.at_rest():
            yield
        for name, used in self._now().items():
            self.used[name] = self.used.get(name, 0.0) + used - before[name]
        self.pieces += pieces

    @asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Ends when the processes rest again after what is done while open."""
        yield
        last = self._now()
        for _ in range(round(MOST / WITHIN)):
            await asyncio.sleep(WITHIN)
            earlier, last = last, self._now()
            if sum(last.values()) - sum(earlier.values()) < QUIET:
                break

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stops the processes while open, so that they do nothing; the broker goes on."""
        stopped = [psutil.Process(pid) for name, pid in self.pids.items() if name != BROKER]
        try:
            for process in stopped:
                process.suspend()
            yield
        finally:
            for process in stopped:
                process.resume()

    def forget(self) -> None:
        """Begins the count anew."""
        self.used.clear()
        self.pieces = 0

    def _now(self) -> dict[str, float]:
        return {name: seconds(pid) for name, pid in self.pids.items()}

    def figures(self, group: str, piece: str, goal: str = "") -> list[Figure]:
        """Milliseconds for each piece: of every process, and of all together if there are several."""
        each = {name: used / self.pieces * 1000 for name, used in self.used.items()}
        rows = [Figure(group, f"CPU of {name}", ms, f"ms for each {piece}") for name, ms in each.items()]
        if len(rows) > 1:
            rows.append(Figure(group, "CPU of all processes", sum(each.values()), f"ms for each {piece}", goal=goal))
        return rows
