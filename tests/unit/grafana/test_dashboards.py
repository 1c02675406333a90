"""The dashboards: in step with their description, of metrics that there are, and drawn without overlaps."""

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from deploy import metrics_reference
from deploy.grafana import boards, dashboard
from deploy.grafana.dashboard import Board, BoardPanel
from tests.support import promql
from tests.support.paths import ROOT
from tests.support.prometheus_rules import RULES

FOLDER = ROOT / "deploy" / "grafana"
LABELS = {row.name: set(row.labels) for rows in metrics_reference.sections().values() for row in rows}
#: Shown by the Prometheus client itself.
LABELS["process_start_time_seconds"] = set()


def panels_of(board: Board) -> Iterator[BoardPanel]:
    """All panels, from top to bottom."""
    return (panel for row in board.rows for panel in row.panels)


def expressions() -> Iterator[str]:
    for board in boards.BOARDS:
        for panel in panels_of(board):
            yield from (query.expression for query in panel.queries)
    yield from (each["expr"] for each in RULES)


@pytest.mark.parametrize("board", boards.BOARDS, ids=lambda board: board.uid)
def test_the_file_is_in_step(board: Board) -> None:
    assert (FOLDER / f"{board.uid}.json").read_text() == dashboard.render(board), "run: python -m deploy.grafana"


def test_there_is_no_other_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {board.uid for board in boards.BOARDS}


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    named = list(promql.metrics(expression))
    assert named or "penstock:" in expression
    for metric in named:
        assert metric.name in LABELS
        assert metric.labels <= LABELS[metric.name] | {"instance", "job"}


@pytest.mark.parametrize("board", boards.BOARDS, ids=lambda board: board.uid)
def test_panels_have_places_of_their_own(board: Board) -> None:
    panels: list[dict[str, Any]] = json.loads(dashboard.render(board))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= dashboard.COLUMNS for panel in panels)


@pytest.mark.parametrize("board", boards.BOARDS, ids=lambda board: board.uid)
def test_every_panel_says_what_it_shows(board: Board) -> None:
    for panel in panels_of(board):
        assert panel.text.endswith("."), panel.title
    titles = [panel.title for panel in panels_of(board)]
    assert len(set(titles)) == len(titles)
