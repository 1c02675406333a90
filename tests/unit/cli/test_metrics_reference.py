"""docs/metrics.md tells of every metric there is, and of no other."""

from collections import Counter

from prometheus_client import REGISTRY

from deploy import generated_docs, metrics_reference
from tests.support.paths import ROOT
from workers.metrics.objects import OBJECT_METRICS

PAGE = ROOT / "docs" / "metrics.md"

#: What the Prometheus client shows by itself.
CLIENTS = ("process_", "python_")


def test_the_page_is_in_step() -> None:
    assert PAGE.read_text() == generated_docs.filled(PAGE.name, metrics_reference.render()), (
        "run: python -m deploy.metrics_reference"
    )


def test_every_registered_metric_is_on_the_page_exactly_once() -> None:
    suffixes = {"counter": "_total", "info": "_info"}
    registered = {
        family.name + suffixes.get(family.type, "")
        for family in REGISTRY.collect()
        if not family.name.startswith(CLIENTS)
    }
    told = Counter(row.name for rows in metrics_reference.sections().values() for row in rows)
    assert {family.name for family in OBJECT_METRICS.collect()} < registered
    assert set(told) == registered
    assert set(told.values()) == {1}
