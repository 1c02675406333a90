"""What operators see of a running Penstock: traces of events, and dashboards and alerts in a real Prometheus."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana import boards
from deploy.grafana.dashboard import INTERVAL
from deploy.prometheus import rule_files
from tests.support import promserver
from tests.support.otlp import CollectedSpan, Collector
from tests.support.paths import ROOT
from tests.support.promserver import Prometheus
from tests.support.terminal import Terminal, until

TRACE, PUSH = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
#: The way of an event after its push, in the order of its steps.
STEPS = ["route", "decide", "create Job", "wait", "run"]

#: Panels that show nothing on a healthy system that ran nothing but a ScaledJob: each needs a fault or other objects.
QUIET = {
    "Objects that are not ready",
    "Parked events",
    "Not done",
    "Failures",
    "Leases lost",
    # Of ScaledJobs that claim nothing.
    "Unfinished Jobs of ScaledJobs",
    "Runs later than their time",
    "Kubernetes Events dropped",
}


def scaled_job(name: str, program: str) -> str:
    container = {"name": "main", "image": "none", "command": ["python3", "-c", program]}
    spec = {
        "scalingStrategy": {"strategy": "claim"},
        "jobTargetRef": {
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
        "triggers": [{"type": "push", "metadata": {}}],
    }
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(body)


def whole(traces: Collector, trace_id: str) -> dict[str, CollectedSpan]:
    """The trace once all its spans have arrived."""
    until(lambda: traces.trace(trace_id).keys() >= set(STEPS), f"the trace {trace_id} is whole")
    return traces.trace(trace_id)


@pytest.fixture(scope="module")
def traced(up: subprocess.Popen[bytes], terminal: Terminal) -> Iterator[str]:
    """A ScaledJob whose Jobs take an event each and fail if its data is `no`; the namespace has no other claims."""
    program = "import json, os, sys; sys.exit(json.loads(os.environ['PENSTOCK_ITEM']).get('data') == 'no')"
    terminal.type("apply", "-f", "-", stdin=scaled_job("traced", program))
    yield "traced"
    terminal.type("delete", "scaledjob", "traced")


@pytest.mark.timeout(300)
def test_one_trace_leads_from_the_push_to_the_end_of_the_pod(
    traced: str, terminal: Terminal, traces: Collector
) -> None:
    terminal.type("push", traced, "-a", f"traceparent=00-{TRACE}-{PUSH}-01", "--data", "yes")
    spans = whole(traces, TRACE)
    assert sorted(spans) == sorted(STEPS)
    assert {span.parent_id for span in spans.values()} == {PUSH}
    assert len({span.span_id for span in spans.values()} | {PUSH}) == len(STEPS) + 1
    steps = [spans[name] for name in STEPS]
    starts = [span.start for span in steps]
    assert starts == sorted(starts)
    assert all(span.start <= span.end for span in steps)
    assert spans["wait"].end == spans["run"].start
    assert {span.attributes["penstock.owner.name"] for span in steps} == {traced}
    assert {span.error for span in steps} == {""}


@pytest.mark.timeout(300)
def test_the_run_of_a_job_that_failed_is_an_error(traced: str, terminal: Terminal, traces: Collector) -> None:
    failing = TRACE[::-1]
    terminal.type("push", traced, "-a", f"traceparent=00-{failing}-{PUSH}-01", "--data", "no")
    spans = whole(traces, failing)
    assert spans["run"].error.startswith("BackoffLimitExceeded")
    assert spans["create Job"].error == ""


@pytest.mark.timeout(300)
def test_an_event_that_is_not_sampled_leaves_no_trace(traced: str, terminal: Terminal, traces: Collector) -> None:
    quiet, loud = "a" * 32, "b" * 32
    terminal.type("push", traced, "-a", f"traceparent=00-{quiet}-{PUSH}-00")
    terminal.type("push", traced, "-a", f"traceparent=00-{loud}-{PUSH}-01")
    whole(traces, loud)
    assert traces.trace(quiet) == {}


@pytest.fixture(scope="module")
def scraped(
    traced: str, terminal: Terminal, metrics_ports: tuple[int, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    if promserver.PROGRAM is None:
        pytest.skip("prometheus is not installed")
    rules = [ROOT / "deploy" / "prometheus" / name for name in rule_files.render()]
    with promserver.prometheus(tmp_path_factory.mktemp("prometheus"), metrics_ports, rules) as server:
        # A rate needs two scrapes of which the second has counted something.
        until(lambda: len(server.query("penstock_build_info")) == len(metrics_ports), "all processes are scraped")
        before = float(value(server, 'sum(penstock_event_to_job_seconds_count{kind="scaledjobs.keda.sh"})') or 0)
        terminal.type("push", traced, "--data", "yes")
        terminal.type("push", traced, "--data", "yes")

        def counted() -> bool:
            count = 'sum(penstock_event_to_job_seconds_count{kind="scaledjobs.keda.sh"})'
            return float(value(server, count) or 0) >= before + 2

        until(counted, "the events are counted")
        yield server


def value(server: Prometheus, expression: str) -> str | None:
    series = server.query(expression)
    return series[0]["value"][1] if series else None


@pytest.mark.timeout(300)
def test_every_query_of_the_dashboards_is_answered(scraped: Prometheus) -> None:
    def silent() -> set[str]:
        return {
            panel.title
            for board in boards.BOARDS
            for panel in board.panels
            if not any(scraped.query(query.expression.replace(INTERVAL, "1m")) for query in panel.queries)
        }

    with contextlib.suppress(AssertionError):
        until(lambda: silent() <= QUIET, "all panels but those that need a fault show something", patience=30)
    assert silent() - QUIET == set()


@pytest.mark.timeout(300)
def test_every_rule_is_evaluated_and_none_fires(scraped: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in scraped.ask("rules")["groups"] for rule in group["rules"]]

    until(lambda: all(rule["health"] == "ok" for rule in rules()), "all rules are evaluated")
    firing = {rule["name"] for rule in rules() if rule.get("state") == "firing"}
    # Other tests of this embedded Penstock push entries that are no events, and change clocks.
    assert firing <= {"PenstockEventsDropped"}
    recorded = {rule["name"] for rule in rules() if rule["type"] == "recording"}
    assert recorded
    assert all(Path(rule["name"]).name for rule in rules())
