"""The parts that all benchmarks share: figures, their table and JSON, and the servers they run on.

Speed is not asserted anywhere. A figure is a ratio of two things measured in the same run wherever there is something
to compare with: absolute numbers belong to the machine.
"""

import asyncio
import json
import os
import platform
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table

from tests.support.valkeys import ValkeyServer


@dataclass(frozen=True)
class Figure:
    """One measured number.

    subject: what was measured. value and unit: the median over the runs, or a rate over all of them. against: what it
    stands next to, measured in the same run; ratio: how many times better than that it is (above 1 is better), or None.
    goal: what the ratio, or the value where there is none, should reach.
    """

    group: str
    subject: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    goal: str = ""


#: Requests at once, of the bare client and of ours.
IN_FLIGHT = 16


def compared(group: str, subject: str, ours: float, bare: float, unit: str, client: str = "bare client") -> Figure:
    """Two rates of the same writes; the ratio is above 1 where ours is the higher."""
    return Figure(group, subject, ours, unit, against=f"{client}, {bare:,.0f} {unit}", ratio=ours / bare)


async def side_by_side(work: Callable[[int], Awaitable[object]], number: int, in_flight: int = IN_FLIGHT) -> float:
    """Calls `work` for all numbers below this one, so many in flight; seconds that it takes."""
    numbers = iter(range(number))

    async def take() -> None:
        for each in numbers:
            await work(each)

    started = perf_counter()
    await asyncio.gather(*(take() for _ in range(in_flight)))
    return perf_counter() - started


@contextmanager
def broker(**config: str) -> Iterator[str]:
    """A fresh bundled Valkey server; its URL."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "KEA", **config}) as server:
        yield f"{server.connection_url}/0"


async def median(work: Callable[[], Awaitable[float]], runs: int) -> float:
    """The median of what `work` measures over several runs, after one that does not count."""
    await work()
    return statistics.median([await work() for _ in range(runs)])


def show(figures: Sequence[Figure]) -> None:
    """Print the figures as a table."""
    table = Table(title=f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for name in ("", "measured", "", "next to", "ratio", "goal"):
        table.add_column(name, justify="right" if name in ("measured", "ratio") else "left")
    group = None
    for figure in figures:
        if figure.group != group:
            group = figure.group
            table.add_section()
            table.add_row(f"[bold]{group}[/bold]")
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        table.add_row(f"  {figure.subject}", f"{figure.value:,.6g}", figure.unit, figure.against, ratio, figure.goal)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def save(figures: Sequence[Figure], path: Path) -> None:
    """Write the figures as JSON. Groups that the file has and this run did not measure stay in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    groups = {figure.group for figure in figures}
    earlier = json.loads(path.read_text())["figures"] if path.exists() else []
    kept = [each for each in earlier if each["group"] not in groups]
    path.write_text(json.dumps({**machine, "figures": [*kept, *map(asdict, figures)]}, indent=2) + "\n")
