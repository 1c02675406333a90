"""``make bench``: every benchmark, or those named (``make bench ARGS="queue beat"``), as a table and as JSON."""

import importlib
import sys
from pathlib import Path

import uvloop

from tests.benchmarks import harness

#: Modules of this package, in the order of the report. Each has `async def figures() -> list[Figure]`.
BENCHMARKS = (
    "commands",
    "queue",
    "beat",
    "creation",
    "latency",
    "events",
    "polling",
    "prometheus",
    "reconcile",
    "cron",
    "job",
    "volcano",
    "memory",
    "footprint",
    "up",
    "apiserver",
    "failover",
    "page",
    "pressure",
    "scale",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    figures: list[harness.Figure] = []
    for name in names or BENCHMARKS:
        print(f"measuring: {name} ...", file=sys.stderr, flush=True)
        measured = uvloop.run(importlib.import_module(f"tests.benchmarks.{name}").figures())
        # At once: a whole run takes long, and a later benchmark may fail.
        harness.save(measured, Path("build/bench.json"))
        figures += measured
    harness.show(figures)
    return 0


sys.exit(main(sys.argv[1:]))
