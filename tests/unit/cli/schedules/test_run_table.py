"""The sections of `describe` about schedules: the next runs, and the outcomes of the last ones."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.cli.schedules import run_table
from deploy.object_rows import schedules
from tests.support.tables import cases
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import JOB, FakeCluster
from workers.api.kinds import CRON_JOB, JOB_FLOW, SCHEDULED_JOB, VC_CRON_JOB, Kind, Object

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
CREATED = "2026-03-01T00:00:00Z"
TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}}
BERLIN = {"timeZone": "Europe/Berlin"}
VC = {"jobTemplate": {"spec": {"tasks": [{"name": "main", "replicas": 1, **TEMPLATE["spec"]}]}}}
FLOW = {"jobTemplate": None, "flows": [{"name": "a"}]}
SUSPENDED = "Next runs: none while it is suspended"


def scheduled(kind: Kind = SCHEDULED_JOB, status: Any = None, **spec: Any) -> Object:
    given = {"schedule": "0 2 * * *", "jobTemplate": TEMPLATE, **spec}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "nightly", "namespace": "default", "uid": "u", "creationTimestamp": CREATED},
        "spec": {field: value for field, value in given.items() if value is not None},
        "status": status or {},
    }


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were printed, their columns parted by one space."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@cases(
    ("a CronJob in UTC", CRON_JOB, {}, ["2026-03-02T02:00:00Z 13h", "2026-03-03T02:00:00Z 37h"]),
    ("a CronJob of Volcano", VC_CRON_JOB, {**BERLIN, **VC}, ["2026-03-02T02:00:00+01:00 12h"]),
    ("a suspended one of Volcano", VC_CRON_JOB, {"suspend": True, **VC}, SUSPENDED),
    ("a flow", JOB_FLOW, FLOW, ["2026-03-02T02:00:00Z 13h", "2026-03-03T02:00:00Z 37h"]),
    ("a cancelled flow", JOB_FLOW, {**FLOW, "cancel": True}, SUSPENDED),
    ("on the clocks of its zone", SCHEDULED_JOB, BERLIN, ["2026-03-02T02:00:00+01:00 12h"]),
    (
        "each twenty seconds",
        SCHEDULED_JOB,
        {"schedule": "*/20 * * * * *"},
        ["2026-03-01T12:00:40Z 10s", "2026-03-01T12:01:00Z 30s"],
    ),
    (
        "several schedules",
        SCHEDULED_JOB,
        {"schedule": None, "schedules": [{"schedule": "0 2 * * *"}, {"schedule": "0 13 * * *"}]},
        ["2026-03-01T13:00:00Z 59m 0 13 * * *", "2026-03-02T02:00:00Z 13h 0 2 * * *"],
    ),
    ("a holiday", SCHEDULED_JOB, {"exclusions": [{"dates": ["2026-03-02"]}]}, ["2026-03-03T02:00:00Z 37h"]),
    ("after a pause", SCHEDULED_JOB, {"suspendUntil": "2026-03-05T00:00:00Z"}, ["2026-03-05T02:00:00Z 3d13h"]),
    ("suspended", SCHEDULED_JOB, {"suspend": True}, SUSPENDED),
    ("30 February", CRON_JOB, {"schedule": "0 0 30 2 *"}, "the schedule never fires"),
    ("no schedule", CRON_JOB, {"schedule": "0 0 * *"}, "expected exactly 5 fields, found 4: [0 0 * *]"),
    ("six", CRON_JOB, {"schedule": "0 0 0 * * *"}, "expected exactly 5 fields"),
    ("an unknown zone", SCHEDULED_JOB, {"timeZone": "Mars/Olympus"}, ""),
    (
        "a spec that cannot be read",
        SCHEDULED_JOB,
        {"jitterSeconds": -1},
        "ScheduledJob default/nightly: spec.jitterSeconds: ",
    ),
)
def test_the_next_runs_are_printed(
    kind: Kind, spec: Any, slots: list[str] | str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_table.show_next(kind, scheduled(kind, **spec), NOW)
    title, *printed = shown(capsys)
    if isinstance(slots, str):
        assert (title.startswith(slots if slots == SUSPENDED else f"Next runs: none: {slots}"), printed) == (True, [])
        return
    header = "SLOT STARTS IN" + " SCHEDULE" * ("schedules" in spec)
    assert (title, printed[0], len(printed)) == ("Next runs:", header, 1 + run_table.SHOWN)
    for line, expected in zip(printed[1:], slots, strict=False):
        assert line.startswith(expected)


@cases(
    ("a ScheduledJob", SCHEDULED_JOB, {}, True),
    ("a CronJob", CRON_JOB, {}, True),
    ("a CronJob of Volcano", VC_CRON_JOB, {}, True),
    ("a flow with a schedule", JOB_FLOW, {"schedule": "@hourly"}, True),
    ("a flow without one", JOB_FLOW, {}, False),
    ("a Job", JOB, {}, False),
)
def test_only_objects_with_a_schedule_have_next_runs(kind: Kind, spec: Object, wanted: bool) -> None:
    assert schedules.by_the_clock(kind, {"spec": spec}) == wanted


def test_the_jitter_of_each_run_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run_table.show_next(SCHEDULED_JOB, scheduled(schedule="0 * * * *", jitterSeconds=3600), NOW)
    _, header, *rows = shown(capsys)
    assert header == "SLOT STARTS IN JITTER"
    assert len({row.split()[2] for row in rows}) > 1


@cases(
    ("its jitter is not over", None, CREATED, 0, "2026-03-01T12:00:00Z"),
    ("its run was started", "2026-03-01T12:00:00Z", CREATED, 0, "2026-03-01T13:00:00Z"),
    ("its jitter is over", None, CREATED, 59 * 60 + 29, "2026-03-01T13:00:00Z"),
    ("the object is younger", None, "2026-03-01T12:00:10Z", 0, "2026-03-01T13:00:00Z"),
)
def test_a_slot_is_to_come_until_its_run_is_due(
    last: str | None, created: str, later: int, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body = scheduled(schedule="0 * * * *", jitterSeconds=3600, status={"lastScheduleTime": last} if last else {})
    body["metadata"]["creationTimestamp"] = created
    run_table.show_next(SCHEDULED_JOB, body, NOW + timedelta(seconds=later))
    assert shown(capsys)[2].split()[0] == first


def test_active_runs_and_outcomes_are_printed_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    first = {
        "job": "nightly-29000000",
        "trigger": "schedule",
        "scheduledTime": "2026-02-28T02:00:00Z",
        "startTime": "2026-02-28T02:00:00Z",
        "completionTime": "2026-02-28T02:03:20Z",
        "outcome": "Succeeded",
        "attempts": 1,
    }
    second = {
        "job": "nightly-abc-r2",
        "trigger": "manual",
        "completionTime": "2026-03-01T12:00:00Z",
        "outcome": "Failed",
        "attempts": 2,
        "reason": "BackoffLimitExceeded",
        "message": "too\noften",
    }
    third = {
        "job": "nightly-def",
        "trigger": "manual",
        "startTime": "2026-03-01T12:00:20Z",
        "retryTime": "2026-03-01T12:01:30Z",
        "outcome": "Retrying",
        "attempts": 1,
        "reason": "BackoffLimitExceeded",
    }
    run_table.show_runs(scheduled(status={"outcomes": [first, second], "runs": [third]}), NOW)
    assert shown(capsys) == [
        "Runs:",
        "SLOT TRIGGER OUTCOME ATTEMPTS ENDED TOOK JOB WHY",
        "manual Retrying 1 10s nightly-def BackoffLimitExceeded; again in 60s",
        "manual Failed 2 30s ago nightly-abc-r2 BackoffLimitExceeded: too often",
        "2026-02-28T02:00:00Z schedule Succeeded 1 33h ago 3m20s nightly-29000000",
    ]
    run_table.show_runs(scheduled(), NOW)
    assert shown(capsys) == []


def test_a_scheduledjob_is_described_with_both_its_jobs_and_its_conditions(
    cluster: FakeCluster, penstock: Type
) -> None:
    body = scheduled(schedule="* * * * * *")
    outcome = {"job": "nightly-1", "trigger": "schedule", "outcome": "Succeeded"}
    ready = {"type": "Ready", "status": "True", "reason": "Scheduled", "message": "as planned"}
    status = {"conditions": [ready], "outcomes": [outcome], "missedRuns": 2}
    metadata = {"uid": "u", "creationTimestamp": CREATED}
    cluster.add(SCHEDULED_JOB, "nightly", spec=body["spec"], status=status, metadata=metadata)
    owner = {"kind": "ScheduledJob", "name": "nightly", "uid": "u", "controller": True}
    cluster.add(JOB, "nightly-2", metadata={"ownerReferences": [owner]}, status={"active": 1})
    printed = penstock("describe", "schj", "nightly")
    assert printed.code == 0
    lines = printed.lines
    titles = [line for line in lines if line in ("Status:", "Conditions:", "Next runs:", "Runs:", "Jobs (1):")]
    assert titles == ["Status:", "Conditions:", "Next runs:", "Runs:", "Jobs (1):"]
    assert "missedRuns: 2" in lines
    assert "Ready True Scheduled as planned" in lines
    assert "nightly-2 Running <unknown>" in lines
    assert printed.out.count("nightly-1") == 1
