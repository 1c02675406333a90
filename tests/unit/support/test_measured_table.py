"""The tables of measurements: every figure beside the one of its own row, and nothing else of the pages changes."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.benchmarks import harness, tables
from tests.benchmarks.harness import Figure
from tests.support.paths import ROOT

PUSHES = Figure(
    "HTTP pushes", "one event | each", 4591.3, "/s", against="bare route, 12,736/s", ratio=0.3605, goal="0.5"
)
POLLS = Figure("polls", "a poll", 245.0, "us")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A folder with the two pages, which have old tables."""
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/measurements.md"):
        (tmp_path / name).write_text(f"before\n{tables.BEGIN}an old table\n{tables.END}after\n")
    return tmp_path


def rows(page: Path) -> list[str]:
    """Returns the rows of a page's tables. Raises AssertionError if anything around them changed."""
    before, _, rest = page.read_text().partition(tables.BEGIN)
    table, _, after = rest.partition(tables.END)
    assert (before, after) == ("before\n", "after\n")
    return [line for line in table.splitlines() if line.startswith("| ") and " measured " not in line]


def test_a_row_has_its_own_ratio_and_the_rest_of_the_pages_stays(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SUMMARY", {"a poll of a list": (POLLS.group, POLLS.subject)})
    source = pages / "bench.json"
    harness.save([PUSHES], source)
    harness.save([POLLS], source)
    harness.save([PUSHES], source)
    for _ in range(2):
        assert tables.main(pages, source) == 0
    assert rows(pages / "docs" / "measurements.md") == [
        "| a poll | 245 us |  |  |  |",
        "| one event \\| each | 4,591 /s | bare route, 12,736/s | 0.36 | 0.5 |",
    ]
    assert rows(pages / "README.md") == ["| a poll of a list | 245 us |  |  |  |"]
    assert len(json.loads(source.read_text())["figures"]) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (5, "5"),
        (45196.7, "45,197"),
        (999.6, "1,000"),
        (16.4738, "16.5"),
        (0.70502, "0.705"),
        (0.0042, "0.00420"),
    ],
)
def test_a_number_has_three_digits_that_count(value: float, shown: str) -> None:
    table = tables.every({"machine": "m", "cores": 2, "python": "3", "figures": [asdict(replace(POLLS, value=value))]})
    assert f"| a poll | {shown} us |" in table


def test_pages_stay_without_a_figure_that_the_readme_shows(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness.save([PUSHES], pages / "bench.json")
    assert tables.main(pages, pages / "bench.json") == 1
    assert "lacks woken by the push, p50 of push to Job created" in capsys.readouterr().err
    for name in ("README.md", "docs/measurements.md"):
        assert "an old table" in (pages / name).read_text()


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="measured: end"):
        tables.replaced(f"before\n{tables.BEGIN}", "a table")
    with pytest.raises(ValueError, match="measured: begin"):
        tables.replaced("before\n", "a table")


def test_without_measurements_the_page_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main(tmp_path / "README.md", tmp_path / "bench.json") == 1
    assert "run `make bench` first" in capsys.readouterr().err


@pytest.mark.parametrize("page", ["README.md", "docs/measurements.md"])
def test_the_pages_have_the_place(page: str) -> None:
    assert tables.replaced((ROOT / page).read_text(), "a table")
