"""Every alert: when it fires and when it does not, by promtool; and its runbook."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from tests.support.prometheus_rules import ALERTS, FILES

RUNBOOKS = ROOT / "docs" / "runbooks"
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


@dataclass(frozen=True)
class Firing:
    """One case of an alert.

    series: selectors and values, one a minute. labels: of the alert that fires at `at`; None: none fires.
    """

    alert: str
    at: str
    series: dict[str, str]
    labels: dict[str, str] | None


def bucket(metric: str, bound: str, values: str, **labels: str) -> tuple[str, str]:
    text = ", ".join(f'{name}="{value}"' for name, value in {**labels, "le": bound}.items())
    return f"{metric}_bucket{{{text}}}", values


LANE = 'penstock_oldest_ready_seconds{lane="poll", instance="a"}'
EVENT, LAG = "penstock_event_to_job_seconds", "penstock_cronjob_controller_job_creation_skew_duration_seconds"
FAILED = 'penstock_reconcile_total{kind="jobs.batch", outcome="Invalid"}'
DONE = 'penstock_reconcile_total{kind="jobs.batch", outcome="done"}'
RACES = 'penstock_reconcile_total{kind="jobs.batch", outcome="Conflict"}'
ERRORS = 'keda_scaler_detail_errors_total{namespace="default", scaledObject="work", scaler="redis", type="scaledjob"}'
LATE = 'keda_internal_scale_loop_latency_seconds{namespace="default", resource="work", type="scaledjob"}'
UNREADY = 'penstock_not_ready{kind="EventJob", namespace="default", name="orders"}'
PARKED = 'penstock_eventjob_events{namespace="default", eventJob="orders", state="parked"}'
WORK = {"namespace": "default", "scaledObject": "work", "scaler": "redis"}
OK, REFUSED = (f'rest_client_requests_total{{method="POST", code="{code}"}}' for code in (201, 429))

CASES = {
    "keys wait": Firing("PenstockQueueStalled", "5m", {LANE: "90+0x10"}, {"lane": "poll"}),
    "keys wait for a moment": Firing("PenstockQueueStalled", "5m", {LANE: "5 90 5 90 5 5"}, None),
    "no worker": Firing("PenstockNoWorkers", "5m", {}, {"lane": "reconcile"}),
    "a worker": Firing("PenstockNoWorkers", "5m", {'penstock_active_reconciles{lane="reconcile"}': "0+0x10"}, None),
    "no scaler": Firing("PenstockNoScalers", "5m", {}, {"lane": "poll"}),
    "a scaler": Firing("PenstockNoScalers", "5m", {'penstock_active_reconciles{lane="poll"}': "0+0x10"}, None),
    "nobody leads": Firing(
        "PenstockNoLeader",
        "5m",
        {f'penstock_leader{{kind="pods", instance="{each}"}}': "0+0x10" for each in "ab"},
        {"kind": "pods"},
    ),
    "no watch at all": Firing("PenstockNoLeader", "5m", {}, {}),
    "another one leads": Firing(
        "PenstockNoLeader",
        "5m",
        {
            'penstock_leader{kind="pods", instance="a"}': "0+0x10",
            'penstock_leader{kind="pods", instance="b"}': "1+0x10",
        },
        None,
    ),
    "a watch is behind": Firing(
        "PenstockStaleKinds",
        "15m",
        {'penstock_reconcile_total{kind="jobs.batch", outcome="Stale"}': "0+1x20"},
        {"kind": "jobs.batch"},
    ),
    "a watch was behind": Firing(
        "PenstockStaleKinds",
        "20m",
        {'penstock_reconcile_total{kind="jobs.batch", outcome="Stale"}': "0 5 5+0x20"},
        None,
    ),
    "reconciles fail": Firing("PenstockReconcilesFail", "20m", {FAILED: "0+2x30", DONE: "0+8x30"}, {}),
    "reconciles race": Firing("PenstockReconcilesFail", "20m", {RACES: "0+20x30", DONE: "0+8x30"}, None),
    "leases are lost": Firing(
        "PenstockLeasesLost", "20m", {'penstock_leases_lost_total{lane="reconcile"}': "0+6x30"}, {"lane": "reconcile"}
    ),
    "one lease is lost": Firing(
        "PenstockLeasesLost", "20m", {'penstock_leases_lost_total{lane="reconcile"}': "0 1 1+0x30"}, None
    ),
    "a process starts again and again": Firing(
        "PenstockProcessRestarts",
        "14m",
        {
            'process_start_time_seconds{instance="a", job="penstock"}': "0+120x20",
            'penstock_build_info{instance="a", job="penstock"}': "1+0x20",
        },
        {"instance": "a", "job": "penstock"},
    ),
    "a process of others starts again and again": Firing(
        "PenstockProcessRestarts", "14m", {'process_start_time_seconds{instance="a", job="other"}': "0+120x20"}, None
    ),
    "events wait": Firing(
        "PenstockEventsLate",
        "20m",
        dict(
            (
                bucket(EVENT, "5", "0+1x30", kind="eventjobs.penstock.dev"),
                bucket(EVENT, "10", "0+9x30", kind="eventjobs.penstock.dev"),
                bucket(EVENT, "+Inf", "0+9x30", kind="eventjobs.penstock.dev"),
            )
        ),
        {"kind": "eventjobs.penstock.dev"},
    ),
    "events are quick": Firing(
        "PenstockEventsLate",
        "20m",
        dict((bucket(EVENT, "5", "0+9x30", kind="x"), bucket(EVENT, "+Inf", "0+9x30", kind="x"))),
        None,
    ),
    "an event is parked": Firing(
        "PenstockEventsParked", "10m", {PARKED: "1+0x20"}, {"namespace": "default", "eventJob": "orders"}
    ),
    "a parked event is replayed": Firing("PenstockEventsParked", "10m", {PARKED: "1 1 0+0x20"}, None),
    "events are dropped": Firing(
        "PenstockEventsDropped",
        "5m",
        {'penstock_pushed_events_total{outcome="dropped"}': "0 0 3+0x10"},
        {"outcome": "dropped"},
    ),
    "events are taken": Firing(
        "PenstockEventsDropped", "5m", {'penstock_pushed_events_total{outcome="accepted"}': "0+9x10"}, None
    ),
    "pushes find no room": Firing(
        "PenstockPushesRefused",
        "20m",
        {'penstock_events_received_total{route="push", code="429"}': "0+5x30"},
        {"code": "429"},
    ),
    "pushes are wrong": Firing(
        "PenstockPushesRefused", "20m", {'penstock_events_received_total{route="push", code="400"}': "0+5x30"}, None
    ),
    "runs are late": Firing(
        "PenstockSchedulesLate",
        "20m",
        dict((bucket(LAG, "32", "0+0x30"), bucket(LAG, "64", "0+5x30"), bucket(LAG, "+Inf", "0+5x30"))),
        {},
    ),
    "runs are punctual": Firing(
        "PenstockSchedulesLate", "20m", dict((bucket(LAG, "1", "0+5x30"), bucket(LAG, "+Inf", "0+5x30"))), None
    ),
    "a trigger fails": Firing("PenstockTriggersFail", "30m", {ERRORS: "0+2x40"}, WORK),
    "a trigger works": Firing("PenstockTriggersFail", "30m", {ERRORS: "2+0x40"}, None),
    "polls are late": Firing(
        "PenstockPollsLate", "20m", {LATE: "45+0x30"}, {"namespace": "default", "resource": "work"}
    ),
    "polls are punctual": Firing("PenstockPollsLate", "20m", {LATE: "0.2+0x30"}, None),
    "an object is not ready": Firing(
        "PenstockObjectNotReady",
        "20m",
        {UNREADY: "1+0x30"},
        {"kind": "EventJob", "namespace": "default", "name": "orders"},
    ),
    "an object was not ready": Firing("PenstockObjectNotReady", "20m", {UNREADY: "1 1 1 stale"}, None),
    "requests are refused": Firing("PenstockAPIServerFails", "20m", {OK: "0+9x30", REFUSED: "0+1x30"}, {}),
    "requests are answered": Firing("PenstockAPIServerFails", "20m", {OK: "0+9x30"}, None),
    "the broker is full": Firing(
        "PenstockBrokerMemory",
        "10m",
        {"penstock_broker_memory_bytes": "80+0x20", "penstock_broker_memory_limit_bytes": "100+0x20"},
        {},
    ),
    "the broker has room": Firing(
        "PenstockBrokerMemory",
        "10m",
        {"penstock_broker_memory_bytes": "60+0x20", "penstock_broker_memory_limit_bytes": "100+0x20"},
        None,
    ),
    "the broker evicts": Firing("PenstockBrokerEvicts", "2m", {"penstock_broker_evicted_keys": "0 0 1"}, {}),
    "the broker keeps": Firing("PenstockBrokerEvicts", "2m", {"penstock_broker_evicted_keys": "0 0 0"}, None),
    "the disk is full": Firing("PenstockBrokerNotPersistent", "10m", {"penstock_broker_persistence_ok": "0+0x20"}, {}),
    "one write failed": Firing(
        "PenstockBrokerNotPersistent", "10m", {"penstock_broker_persistence_ok": "0 0 1+0x20"}, None
    ),
}


def as_test(name: str, case: Firing) -> dict[str, Any]:
    """The case in promtool's form. It compares whole alerts: the texts are rendered with the case's own value."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected(case)}],
    }


def expected(case: Firing) -> list[dict[str, Any]]:
    if case.labels is None:
        return []
    return [{"exp_labels": {**ALERTS[case.alert]["labels"], **case.labels}}]


def bare(rules: str) -> str:
    """The rules without annotations, whose texts contain measured values."""
    content = yaml.safe_load(rules)
    for group in content["groups"]:
        for rule in group["rules"]:
            rule.pop("annotations", None)
    return yaml.safe_dump(content)


@needs_promtool
def test_prometheus_takes_the_files() -> None:
    assert PROMTOOL
    files = [str(file) for file in FILES]
    done = subprocess.run([PROMTOOL, "check", "rules", "--lint-fatal", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_alerts_fire_when_they_should(tmp_path: Path) -> None:
    assert PROMTOOL
    for file in FILES:
        (tmp_path / file.name).write_text(bare(file.read_text()))
    content = {
        "rule_files": [file.name for file in FILES],
        "evaluation_interval": "1m",
        "group_eval_order": ["penstock.recording", "penstock.alerts"],
        "tests": [as_test(name, case) for name, case in CASES.items()],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump(content))
    done = subprocess.run([PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: str) -> None:
    fires = {case.labels is not None for case in CASES.values() if case.alert == alert}
    assert fires == {True, False}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_holds_how_long_how_bad_it_is_and_where_its_runbook_is(alert: str) -> None:
    rule = ALERTS[alert]
    assert re.fullmatch(r"\d+m", rule["for"])
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"docs/runbooks/{alert}.md"


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_a_runbook(alert: str) -> None:
    page = (RUNBOOKS / f"{alert}.md").read_text()
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    assert headings == [alert, "Meaning", "Impact", "Cause", "Action"]


def test_every_runbook_is_of_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == ALERTS.keys()
