"""A dashboard as a few values, and its form as Grafana's JSON model."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

#: Grafana's interval for rates: at least four scrapes.
INTERVAL = "$__rate_interval"
#: The version of Grafana's model that the files have (Grafana 11 and newer).
SCHEMA = 39
#: Columns of a row, and the height of a panel.
COLUMNS, HEIGHT = 24, 8

Unit = Literal["short", "s", "ops", "bytes", "percentunit", "none"]
Shape = Literal["timeseries", "stat", "table"]


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """One PromQL expression. legend: how Grafana names its series, such as ``{{lane}}``."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class BoardPanel:
    """One panel. width: of the 24 columns. red: the value from which it is shown in red, if there is one."""

    title: str
    queries: tuple[PanelQuery, ...]
    text: str
    unit: Unit = "short"
    shape: Shape = "timeseries"
    width: int = 8
    red: float | None = None


@dataclass(frozen=True, slots=True)
class BoardRow:
    """Panels side by side below a heading."""

    title: str
    panels: tuple[BoardPanel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. uid: also its file's name, and its address in Grafana."""

    uid: str
    title: str
    text: str
    rows: tuple[BoardRow, ...]
    links: tuple[str, ...] = field(default=("penstock",))


def render(board: Board) -> str:
    """Returns the dashboard as the text of a JSON file."""
    return json.dumps(model(board), indent=2) + "\n"


def model(board: Board) -> dict[str, Any]:
    """Returns Grafana's model of a dashboard. The data source is a variable: any Prometheus can be chosen."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.text,
        "tags": ["penstock"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {"type": "dashboards", "tags": list(board.links), "title": "Penstock", "asDropdown": True, "keepTime": True}
        ],
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data"}]},
        "panels": list(_panels(board)),
    }


def _panels(board: Board) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in board.rows:
        number += 1
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top, left = top + 1, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                top, left = top + HEIGHT, 0
            number += 1
            place = {"h": HEIGHT, "w": panel.width, "x": left, "y": top}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            left += panel.width
        top += HEIGHT


def _panel(panel: BoardPanel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "red", "value": panel.red})
    return {
        "type": panel.shape,
        "title": panel.title,
        "description": panel.text,
        "datasource": source,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": source,
                "expr": query.expression,
                "legendFormat": query.legend or "__auto",
                "instant": panel.shape == "table",
                "format": "table" if panel.shape == "table" else "time_series",
            }
            for index, query in enumerate(panel.queries)
        ],
    }
