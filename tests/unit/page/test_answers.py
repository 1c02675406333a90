"""Runs of schedules, graphs, shares of queues, and problems of the pipeline: pure parts of answers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.page.answers import object_graphs, queue_shares, requests_read, schedule_runs
from deploy.page.live import pipeline_monitor
from scheduler.queue import Stats
from tests.support.tables import cases
from workers.api.kinds import CRON_JOB, JOB_FLOW, SCHEDULED_JOB, VC_JOB, Kind, Object
from workers.errors import UserError

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
DAY = timedelta(days=1)


def schedule(kind: Kind = SCHEDULED_JOB, status: Object | None = None, **spec: Any) -> Object:
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}}}
    metadata = {"namespace": "shop", "name": "it", "uid": "u", "creationTimestamp": "2026-02-01T00:00:00Z"}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status or {}}
    return {**body, "spec": {"schedule": "0 * * * *", "jobTemplate": template, **spec}}


def test_past_runs_come_from_the_status_then_from_jobs_and_missed_ones_are_marked() -> None:
    outcome = {
        "job": "it-1",
        "outcome": "Failed",
        "scheduledTime": "2026-03-01T10:00:00Z",
        "startTime": "2026-03-01T10:00:01Z",
        "completionTime": "2026-03-01T10:05:00Z",
        "attempts": 2,
        "reason": "BackoffLimitExceeded",
    }
    running = {"job": "it-2", "outcome": "Running", "startTime": "2026-03-01T12:00:00Z"}
    status = {"outcomes": [outcome], "runs": [running], "lastMissedTime": "2026-03-01T09:00:00Z", "missedRuns": 4}
    annotations = {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T11:00:00Z"}
    metadata = {"name": "it-3", "creationTimestamp": "2026-03-01T11:00:02Z", "annotations": annotations}
    job = {"metadata": metadata, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    listed = {"metadata": {"name": "it-1", "creationTimestamp": "2026-03-01T10:00:00Z"}}
    found = schedule_runs.past(schedule(status=status), [job, listed], NOW - DAY, NOW)
    assert [(each["at"][11:16], each["state"], each["job"], each["attempts"]) for each in found] == [
        ("09:00", "Missed", None, 0),
        ("10:00", "Failed", "it-1", 2),
        ("11:00", "Succeeded", "it-3", 1),
        ("12:00", "Running", "it-2", 1),
    ]
    assert found[1]["reason"] == "BackoffLimitExceeded"
    assert schedule_runs.past(schedule(status=status), [], NOW - timedelta(hours=1), NOW) == [found[3]]


@cases(
    ("every hour", schedule(), ["13:00", "14:00", "15:00"]),
    ("suspended", schedule(suspend=True), []),
    ("malformed", schedule(schedule="nonsense"), []),
    ("never", schedule(schedule="0 0 30 2 *"), []),
)
def test_next_runs(body: Object, expected: list[str]) -> None:
    found = schedule_runs.following(SCHEDULED_JOB, body, NOW, NOW + timedelta(hours=3))
    assert [each[11:16] for each in found] == expected


def test_next_runs_are_bounded() -> None:
    body = schedule(CRON_JOB, schedule="* * * * *")
    assert len(schedule_runs.following(CRON_JOB, body, NOW, NOW + 10 * DAY)) == schedule_runs.MOST


def test_the_graph_of_a_flow_has_items_states_and_reasons() -> None:
    flows = [
        {"name": "fetch"},
        {"name": "train", "dependsOn": {"targets": ["fetch"]}, "forEach": {"items": ["a", "b"]}},
        {"name": "mend", "dependsOn": {"targets": ["train"]}, "when": {"phases": ["Failed"], "match": "any"}},
    ]
    entries = {
        "fetch": {"phase": "Completed", "job": "flow-fetch"},
        "train-1": {"phase": "Failed", "attempts": 3, "reason": "Timeout"},
    }
    metadata = {"namespace": "ml", "name": "flow", "uid": "u"}
    body = {"metadata": metadata, "spec": {"flows": flows}, "status": {"entries": entries}}
    drawn = object_graphs.drawn(JOB_FLOW, body)
    assert drawn is not None
    states = [(node["id"], node["state"], node["tone"], node["detail"]) for node in drawn["nodes"]]
    assert states == [
        ("fetch", "Completed", "ok", ""),
        ("train-0", "Waiting", "waiting", ""),
        ("train-1", "Failed", "error", "3 attempts; Timeout"),
        ("mend", "Waiting", "waiting", ""),
    ]
    assert drawn["nodes"][0]["object"] == {"kind": VC_JOB.id, "namespace": "ml", "name": "flow-fetch"}
    edges = [(edge["from"], edge["to"], edge["label"]) for edge in drawn["edges"]]
    assert edges == [
        ("fetch", "train-0", ""),
        ("fetch", "train-1", ""),
        ("train-0", "mend", "any Failed"),
        ("train-1", "mend", "any Failed"),
    ]


def test_the_graph_of_a_gang_has_its_tasks() -> None:
    tasks = [{"name": "ps", "replicas": 1}, {"replicas": 2, "dependsOn": {"name": ["ps", "gone"]}}]
    counts = {"ps": {"phase": {"Running": 1, "Succeeded": 0}}}
    drawn = object_graphs.drawn(
        VC_JOB, {"metadata": {}, "spec": {"tasks": tasks}, "status": {"taskStatusCount": counts}}
    )
    assert drawn is not None
    assert [(node["id"], node["tone"], node["detail"]) for node in drawn["nodes"]] == [
        ("ps", "active", "1 replica: 1 Running"),
        ("default1", "waiting", "2 replicas: no pods"),
    ]
    assert drawn["edges"] == [{"from": "ps", "to": "default1", "label": ""}]
    assert object_graphs.drawn(CRON_JOB, {"metadata": {}}) is None


def test_queues_show_their_share_and_who_waits() -> None:
    spec = {"weight": 4, "deserved": {"cpu": "8", "memory": "16Gi"}, "capability": {"cpu": "16"}}
    research = {"metadata": {"name": "research"}, "spec": spec, "status": {"allocated": {"cpu": "2", "memory": "8Gi"}}}
    spare = {"metadata": {"name": "archive"}, "spec": {}}
    lacking = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "6 cpu"}
    metadata = {"namespace": "ml", "name": "bert", "uid": "u", "creationTimestamp": "2026-03-01T12:00:00Z"}
    group = {"metadata": metadata, "spec": {"queue": "research"}, "status": {"conditions": [lacking]}}
    archive, found = queue_shares.shares([research, spare], [group], {}, NOW)
    assert (archive["name"], archive["weight"], archive["share"], archive["waiting"]) == ("archive", 1, None, [])
    assert found["share"] == 0.5
    assert found["allocated"] == {"cpu": "2", "memory": "8Gi"}
    waiting = {"group": "ml/bert", "since": "2026-03-01T12:00:00.000Z", "why": "NotEnoughResources: 6 cpu"}
    assert found["waiting"] == [waiting]


IDLE = Stats(0, 0, 0, 0, 0, 0, 0, 0, None)


@cases(
    ("all is well", IDLE, {"jobs.batch": 1.0, "queues": None}, {}, "", []),
    ("no API server", IDLE, {}, {}, "refused", ["The API server"]),
    ("no watch", IDLE, {"jobs.batch": 60.0, "pods": 50.0}, {}, "", ["2 kinds are not followed"]),
    ("behind", Stats(9, 0, 0, 0, 0, 0, 0, 0, 31.0), {}, {}, "", ["The lane poll is behind"]),
    ("dead process", Stats(9, 0, 0, 3, 2, 0, 0, 0, 1.0), {}, {}, "", ["Leases of the lane poll"]),
    ("eviction", IDLE, {}, {"limit": 1, "policy": "allkeys-lru"}, "", ["The broker may drop"]),
    ("no limit of memory", IDLE, {}, {"limit": 0, "policy": "allkeys-lru"}, "", []),
)
def test_problems_say_what_is_wrong(
    stats: Stats, ages: dict[str, float | None], broker: dict[str, Any], api: str, expected: list[str]
) -> None:
    found = pipeline_monitor.problems({"poll": stats}, ages, broker, api=api, stale=10.0)
    assert len(found) == len(expected)
    assert all(each["what"].startswith(start) for each, start in zip(found, expected, strict=True))
    assert all(each["why"] and each["todo"] for each in found)


def test_percentiles_of_nothing_are_unknown() -> None:
    assert pipeline_monitor.percentiles([]) is None
    assert pipeline_monitor.percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0}


def test_topics_send_a_row_once() -> None:
    jobs = "jobs.batch"
    found, _ = requests_read.topics(
        [f"objects:{jobs}", f"object:{jobs}/n/x", "object:queues.scheduling.volcano.sh/-/q"]
    )
    queue = "queues.scheduling.volcano.sh//q"
    assert found == {f"rows:{jobs}", f"more:{jobs}/n/x", f"more:{queue}", f"row:{queue}"}
    with pytest.raises(UserError, match="topic"):
        requests_read.topics(["object:jobs.batch"])
