"""The tables of measurements, made from build/bench.json: ``python -m tests.benchmarks.tables``.

docs/measurements.md has every figure, README those that say most. Every figure and its ratio come from the same row of
the same run, so that none disagrees with its neighbour.
"""

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

#: The lines of a page between which its table stands.
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"

Row = Mapping[str, Any]

_QUEUE, _MINUTE = "Jobs for one ScaledJob, 1000 items", "1,000 CronJobs due at once"
_REST = "footprint with 1,000 objects, at rest"

#: README's rows: what each is about, and the group and subject of its figure.
SUMMARY: Mapping[str, tuple[str, str]] = {
    "push to a list to Job created, p50": ("push to Job created, embedded API server", "woken by the push, p50"),
    "the same, polled every second": ("push to Job created, embedded API server", "polled every 1 s, p50"),
    "push over HTTP to Job created, p50": (
        "push over HTTP to Job created, embedded API server",
        "four processes: at rest, p50",
    ),
    "pushes over HTTP, one process": ("events over HTTP, one gateway process", "pushes, 32 connections"),
    "1,000 items: Jobs created": (f"{_QUEUE}, embedded", "ScaledJob, all processes"),
    "1,000 items: CPU of a Job": (f"{_QUEUE}, embedded", "CPU of all processes"),
    "1,000 items, KEDA as it comes": (f"{_QUEUE}, embedded", "KEDA, by default"),
    "1,000 items, KEDA without its limits": (f"{_QUEUE}, embedded", "KEDA, limits lifted"),
    "1,000 items, on a real kube-apiserver": (f"{_QUEUE}, real kube-apiserver", "ScaledJob, all processes"),
    "1,000 schedules on one minute, on a real kube-apiserver: the last Job": (
        f"{_MINUTE}, real kube-apiserver",
        "ScheduledJobs, all processes, last Job",
    ),
    "the same, kube-controller-manager as it comes": (
        f"{_MINUTE}, real kube-apiserver",
        "kube-controller-manager, by default, last Job",
    ),
    "the same, kube-controller-manager without its limits": (
        f"{_MINUTE}, real kube-apiserver",
        "kube-controller-manager, limits lifted, last Job",
    ),
    "a Job with 1,000 completions, 50 at once": (
        "a Job with 1,000 completions, 50 at once, embedded",
        "Job, all processes",
    ),
    "reconciles of an empty key, one worker process": ("through Celery, one worker process", "empty reconciles"),
    "1,000 ScaledJobs polled every second: CPU of a poll": (
        "1,000 ScaledJobs on one Redis, polled every 1 s",
        "CPU of the scaler process per poll",
    ),
    "1,000 objects at rest, in one process: memory": (_REST, "standalone: memory (RSS)"),
    "1,000 objects at rest, in one process: CPU": (_REST, "standalone: CPU"),
}


def summary(measured: Mapping[str, Any]) -> str:
    """Returns the table of SUMMARY's rows. measured: the content of build/bench.json. Raises KeyError for a row that
    was not measured, such as one of a peer that the run had no binary of."""
    rows = {(row["group"], row["subject"]): row for row in measured["figures"]}
    return _table("what", [{**rows[which], "subject": about} for about, which in SUMMARY.items()])


def every(measured: Mapping[str, Any]) -> str:
    """Returns the tables of all groups, in the order of the figures. measured: the content of build/bench.json."""
    figures: Sequence[Row] = measured["figures"]
    groups = (_table(name, list(rows)) for name, rows in groupby(figures, key=lambda row: row["group"]))
    machine = f"{measured['machine']}, {measured['cores']} cores, Python {measured['python']}"
    return f"{machine}.\n\n" + "\n".join(groups)


def _table(name: str, rows: Iterable[Row]) -> str:
    lines = [f"| {name} | measured | next to it, in the same run | ratio | aim |", "|---|---|---|---|---|"]
    lines += (f"| {' | '.join(map(_cell, _cells(row)))} |" for row in rows)
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return row["subject"], f"{_number(row['value'])} {row['unit']}", row["against"], ratio, row["goal"]


def _number(value: float) -> str:
    """Returns the number with all digits before its point, and three digits that count: 45,197, 16.5, 0.705."""
    whole = value == int(value)
    return f"{value:,.{0 if whole else max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|")


def replaced(page: str, table: str) -> str:
    """Returns the page with this table. Raises ValueError for a page without the two lines."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the line {(BEGIN if not begin else END).strip()}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(root: Path = ROOT, source: Path = ROOT / "build" / "bench.json") -> int:
    """Writes the tables into the two pages below `root`. Returns an exit code."""
    if not source.exists():
        print(f"{source} is not there: run `make bench` first", file=sys.stderr)
        return 1
    measured = json.loads(source.read_text())
    try:
        pages = {"README.md": summary(measured), "docs/measurements.md": every(measured)}
    except KeyError as error:
        group, subject = error.args[0]
        print(f"{source} lacks {subject} of {group}, which README shows", file=sys.stderr)
        return 1
    for name, table in pages.items():
        page = root / name
        page.write_text(replaced(page.read_text(), table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
