"""What operators see of a running Penstock: traces of events, and dashboards and alerts in a real Prometheus."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from deploy.grafana import boards
from deploy.grafana.dashboard import INTERVAL
from tests.support import prometheus_rules, promserver
from tests.support.otlp import CollectedSpan, Collector
from tests.support.promserver import Prometheus
from tests.support.terminal import Terminal, until
from workers.api.kinds import Object

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


def job_spec(program: str) -> Object:
    container = {"name": "main", "image": "none", "command": ["python3", "-c", program]}
    return {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}


def event_job(name: str, program: str) -> str:
    spec = {"push": {"anonymous": True}, "jobTemplate": {"spec": job_spec(program)}}
    body = {"apiVersion": "penstock.dev/v1alpha1", "kind": "EventJob", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(body)


def scaled_job(name: str, program: str) -> str:
    spec = {
        "scalingStrategy": {"strategy": "claim"},
        "jobTargetRef": job_spec(program),
        "triggers": [{"type": "push", "metadata": {}}],
        "push": {"anonymous": True},
    }
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(body)


def post(terminal: Terminal, target: str, id_: str) -> None:
    """Pushes an event with this id over HTTP."""
    url = (Path(terminal.variables["PENSTOCK_HOME"]) / "gateway.url").read_text().strip()
    headers = {"Content-Type": "text/plain", "Idempotency-Key": id_}
    with urlopen(Request(f"{url}/events/default/{target}", b"yes", headers), timeout=30) as answer:
        assert answer.status == 202


def begun_by_a_push(terminal: Terminal, traces: Collector, target: str, id_: str) -> CollectedSpan:
    """Pushes an event with this id over HTTP and returns the span of the push."""
    post(terminal, target, id_)

    def push() -> CollectedSpan | None:
        return next((span for span in list(traces.spans) if span.attributes.get("cloudevents.event_id") == id_), None)

    return until(push, "the push is exported")


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
def test_the_gateway_begins_a_trace(traced: str, terminal: Terminal, traces: Collector) -> None:
    begun = begun_by_a_push(terminal, traces, traced, "g1")
    assert (begun.name, begun.parent_id) == ("push", "")
    spans = whole(traces, begun.trace_id)
    assert sorted(spans) == sorted(["push", *STEPS])
    assert {spans[name].parent_id for name in STEPS} == {begun.span_id}
    # The broker's clock and the gateway's are this machine's; entries of streams have milliseconds.
    assert begun.start <= spans["route"].start + 1_000_000


@pytest.mark.timeout(300)
def test_the_job_of_an_eventjob_goes_on_with_the_trace_of_its_event(
    up: subprocess.Popen[bytes], terminal: Terminal, traces: Collector
) -> None:
    terminal.type("apply", "-f", "-", stdin=event_job("goes-on", "import os; print(os.environ['TRACEPARENT'])"))
    begun = begun_by_a_push(terminal, traces, "goes-on", "e1")
    spans = whole(traces, begun.trace_id)
    assert sorted(spans) == sorted(["push", *STEPS])
    assert {spans[name].parent_id for name in STEPS} == {begun.span_id}
    assert {spans[name].attributes["penstock.owner.name"] for name in STEPS} == {"goes-on"}
    assert {span.error for span in spans.values()} == {""}
    assert f"00-{begun.trace_id}-{begun.span_id}-01" in terminal.type("logs", "eventjob/goes-on")
    terminal.type("delete", "eventjob", "goes-on")


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
    with promserver.prometheus(tmp_path_factory.mktemp("prometheus"), metrics_ports, prometheus_rules.FILES) as server:
        # A rate needs two scrapes of which the second has counted something.
        until(lambda: len(server.query("penstock_build_info")) == len(metrics_ports), "all processes are scraped")
        before = float(value(server, 'sum(penstock_event_to_job_seconds_count{kind="scaledjobs.keda.sh"})') or 0)
        post(terminal, traced, "s1")
        post(terminal, traced, "s2")

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
            for row in board.rows
            for panel in row.panels
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
