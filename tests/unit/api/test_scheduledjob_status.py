"""Every status that the decision writes is kept whole by the schema: what a server prunes would be written for ever."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.support.tables import cases
from tests.unit.api.test_scheduledjob import FORM
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, CronCluster, clock, cron_job, scheduled_job, second
from workers.api.kinds import CRON_JOB


@pytest.fixture
def new_cluster() -> Callable[..., CronCluster]:
    """A ScheduledJob in a small cluster; the keywords are fields of its spec."""

    def make(**spec: Any) -> CronCluster:
        return CronCluster(scheduled_job(**{"schedule": "* * * * *", **spec}))

    return make


def kept(report: CronCluster, *fields: str) -> None:
    """The schema knows every field of the status, and finds nothing wrong with it; these are among them."""
    assert set(fields) <= report.status.keys()
    # A malformed spec does not matter to the status.
    good = {**report.body, "spec": scheduled_job()["spec"]}
    decoded, unknown = FORM.decode(good, strict="Warn")
    assert (unknown, decoded["status"]) == ([], report.status)
    assert FORM.validate(decoded) == []


def test_runs_at_work(new_cluster: Callable[..., CronCluster]) -> None:
    report = new_cluster()
    report.settle(clock("12:01"))
    kept(report, "active", "runs", "lastScheduleTime", "nextScheduleTime", "conditions", "observedGeneration")


def test_a_run_that_succeeded(new_cluster: Callable[..., CronCluster]) -> None:
    report = new_cluster()
    report.settle(clock("12:01"))
    report.end(second("12:01"), at=clock("12:01:30"))
    report.settle(clock("12:01:31"))
    kept(report, "outcomes", "lastSuccessfulTime")


def test_a_run_between_two_attempts_that_was_requested(new_cluster: Callable[..., CronCluster]) -> None:
    report = new_cluster(retry={"limit": 1}, suspend=True)
    report.ask("abc", '{"env": {"DAY": "today"}}')
    report.settle(clock("12:00:01"))
    report.end("report-abc", "Failed", clock("12:00:02"), reason="BackoffLimitExceeded", message="too often")
    report.settle(clock("12:00:02"))
    kept(report, "runs")
    assert {"retryTime", "env", "reason", "message", "attempts"} <= report.status["runs"][0].keys()


def test_missed_runs(new_cluster: Callable[..., CronCluster]) -> None:
    report = new_cluster(startingDeadlineSeconds=1)
    report.settle(clock("12:01:30"))
    kept(report, "missedRuns", "lastMissedTime")


@cases(
    ("a manifest that cannot be read", {"jitterSeconds": -1}),
    ("a schedule that never fires", {"schedule": "0 0 30 2 *"}),
    ("no schedule", {"schedule": "x"}),
    ("an unknown zone", {"timeZone": "Mars/Olympus"}),
    ("suspended", {"suspend": True}),
    ("suspended for a while", {"suspendUntil": "2027-01-01T00:00:00Z"}),
)
def test_an_object_that_does_not_run(spec: Any, new_cluster: Callable[..., CronCluster]) -> None:
    report = new_cluster(**spec)
    report.step(NOON + timedelta(seconds=1))
    kept(report, "conditions")


def test_a_cronjobs_status_has_kubernetes_fields_alone() -> None:
    report = CronCluster(cron_job())
    report.settle(clock("12:01"))
    report.ask("abc")
    report.settle(clock("12:01:01"))
    (name, *_) = report.made
    report.end(name, at=clock("12:01:30"))
    report.settle(clock("12:02:30"))
    assert report.kind == CRON_JOB
    assert report.status.keys() == {"active", "lastScheduleTime", "lastSuccessfulTime"}
