"""README's table of measurements, made from build/bench.json: ``python -m tests.benchmarks.readme``.

Every figure and its ratio come from the same row of the same run, so that none disagrees with its neighbour.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

#: The lines of README between which the table stands.
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"

Row = Mapping[str, Any]


def rendered(measured: Mapping[str, Any]) -> str:
    """Returns the tables of all groups, in the order of the figures. measured: the content of build/bench.json."""
    figures: Sequence[Row] = measured["figures"]
    groups = (_group(name, list(rows)) for name, rows in groupby(figures, key=lambda row: row["group"]))
    machine = f"{measured['machine']}, {measured['cores']} cores, Python {measured['python']}"
    return f"{machine}.\n\n" + "\n".join(groups)


def _group(name: str, rows: Iterable[Row]) -> str:
    lines = [f"| {name} | measured | next to it, in the same run | ratio | aim |", "|---|---|---|---|---|"]
    lines += (f"| {' | '.join(map(_cell, _cells(row)))} |" for row in rows)
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    return row["subject"], f"{row['value']:,.6g} {row['unit']}", row["against"], ratio, row["goal"]


def _cell(text: str) -> str:
    return text.strip().replace("|", "\\|")


def replaced(page: str, table: str) -> str:
    """Returns the page with this table. Raises ValueError for a page without the two lines."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the line {(BEGIN if not begin else END).strip()}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(page: Path = ROOT / "README.md", source: Path = ROOT / "build" / "bench.json") -> int:
    """Writes the table into the page. Returns an exit code."""
    if not source.exists():
        print(f"{source} is not there: run `make bench` first", file=sys.stderr)
        return 1
    page.write_text(replaced(page.read_text(), rendered(json.loads(source.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
