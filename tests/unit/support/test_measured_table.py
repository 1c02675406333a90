"""README's table of measurements: every figure beside the one of its own row, and nothing else of the page changes."""

import json
from pathlib import Path

import pytest

from tests.benchmarks import harness, readme
from tests.benchmarks.harness import Figure
from tests.support.paths import ROOT

PUSHES = Figure(
    "HTTP pushes", "one event | each", 4591.3, "/s", against="bare route, 12,736/s", ratio=0.3605, goal="0.5"
)
POLLS = Figure("polls", "a poll", 245.0, "us")


def test_a_row_has_its_own_ratio_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    page, source = tmp_path / "README.md", tmp_path / "bench.json"
    page.write_text(f"before\n{readme.BEGIN}an old table\n{readme.END}after\n")
    harness.save([PUSHES], source)
    harness.save([POLLS], source)
    harness.save([PUSHES], source)
    for _ in range(2):
        assert readme.main(page, source) == 0
    before, _, rest = page.read_text().partition(readme.BEGIN)
    table, _, after = rest.partition(readme.END)
    assert (before, after) == ("before\n", "after\n")
    lines = [line for line in table.splitlines() if line.startswith("| ") and " measured " not in line]
    assert lines == [
        "| a poll | 245 us |  |  |  |",
        "| one event \\| each | 4,591.3 /s | bare route, 12,736/s | 0.36 | 0.5 |",
    ]
    assert len(json.loads(source.read_text())["figures"]) == 2


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="measured: end"):
        readme.replaced(f"before\n{readme.BEGIN}", "a table")
    with pytest.raises(ValueError, match="measured: begin"):
        readme.replaced("before\n", "a table")


def test_without_measurements_the_page_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert readme.main(tmp_path / "README.md", tmp_path / "bench.json") == 1
    assert "run `make bench` first" in capsys.readouterr().err


def test_the_readme_has_the_place() -> None:
    assert readme.replaced((ROOT / "README.md").read_text(), "a table")
