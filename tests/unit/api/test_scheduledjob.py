"""The typed ScheduledJob and its schema: what is accepted, what is refused, and that both say the same."""

from typing import Any

import pytest

from deploy.local.apiserver.schema import schema
from tests.support.crd_copies import crd_copies
from tests.support.tables import cases
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Object
from workers.api.penstock_dev import scheduledjob
from workers.errors import UserError

TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}}
(FORM,) = (
    schema.custom(crd["spec"]["versions"][0])
    for crd in crd_copies()
    if crd["spec"]["names"]["kind"] == SCHEDULED_JOB.kind
)


def scheduled_job(**spec: Any) -> Object:
    """A ScheduledJob that runs each minute; None takes a field away."""
    given = {"schedule": "* * * * *", "jobTemplate": TEMPLATE, **spec}
    return {
        "apiVersion": SCHEDULED_JOB.api_version,
        "kind": SCHEDULED_JOB.kind,
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {field: value for field, value in given.items() if value is not None},
    }


def test_a_short_manifest_behaves_as_a_cronjob_does() -> None:
    spec = scheduledjob.parse(scheduled_job()).spec
    assert (spec.concurrency_policy, spec.suspend, spec.starting_deadline_seconds) == ("Allow", False, None)
    assert (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit) == (3, 1)
    assert (spec.jitter_seconds, spec.catch_up.policy, spec.exclusions, spec.retry) == (0, "Latest", (), None)


def test_the_server_fills_in_what_the_model_assumes() -> None:
    body = scheduled_job(catchUp={"policy": "All"}, retry={"limit": 1})
    stored = FORM.default(body)
    assert scheduledjob.parse(stored) == scheduledjob.parse(body)
    spec = stored["spec"]
    assert (spec["concurrencyPolicy"], spec["suspend"], spec["successfulJobsHistoryLimit"]) == ("Allow", False, 3)
    assert spec["catchUp"] == {"policy": "All", "limit": 100}
    assert spec["retry"] == {"limit": 1, "delaySeconds": 10, "maxDelaySeconds": 600}


def test_a_cronjob_is_read_by_the_same_model() -> None:
    body = {**scheduled_job(suspend=True), "apiVersion": CRON_JOB.api_version, "kind": CRON_JOB.kind}
    assert scheduledjob.parse(body).spec.suspend is True
    body["spec"]["schedule"] = 5
    with pytest.raises(UserError, match=r"^CronJob default/tick: spec\.schedule: "):
        scheduledjob.parse(body)


@cases(
    ("several schedules alone", {"schedule": None, "schedules": [{"schedule": "@daily"}]}),
    ("both", {"schedules": [{"schedule": "@daily", "timeZone": "Asia/Tokyo"}]}),
    ("an exclusion without an end", {"exclusions": [{"start": "2026-03-01T00:00:00Z"}]}),
    ("an exclusion without a start", {"exclusions": [{"end": "2026-03-01T00:00:00Z"}]}),
    ("a holiday", {"exclusions": [{"dates": ["2026-12-24"]}]}),
    ("a window", {"exclusions": [{"schedule": "@daily", "durationSeconds": 1}]}),
    ("nothing of each", {"retry": {"limit": 0}, "outcomesLimit": 0, "jitterSeconds": 0}),
    ("no history", {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}),
)
def test_both_take_it(spec: Any) -> None:
    body = scheduled_job(**spec)
    assert FORM.validate(body) == []
    scheduledjob.parse(body)


@cases(
    ("no schedule at all", {"schedule": None}, "spec"),
    ("an empty schedule", {"schedule": ""}, "spec.schedule"),
    ("a number for a schedule", {"schedule": 5}, "spec.schedule"),
    ("no schedules in the list", {"schedule": None, "schedules": []}, "spec.schedules"),
    ("a zone alone", {"schedules": [{"timeZone": "UTC"}]}, "spec.schedules[0].schedule"),
    ("an empty zone", {"timeZone": ""}, "spec.timeZone"),
    ("a negative deadline", {"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
    ("a text for a number", {"startingDeadlineSeconds": "5"}, "spec.startingDeadlineSeconds"),
    ("an unknown policy", {"concurrencyPolicy": "allow"}, "spec.concurrencyPolicy"),
    ("a text for a flag", {"suspend": "yes"}, "spec.suspend"),
    ("jitter backwards", {"jitterSeconds": -1}, "spec.jitterSeconds"),
    ("jitter of a lifetime", {"jitterSeconds": 2**31}, "spec.jitterSeconds"),
    ("no instant", {"suspendUntil": "tomorrow"}, "spec.suspendUntil"),
    ("an instant of no zone", {"suspendUntil": "2026-03-01T00:00:00"}, "spec.suspendUntil"),
    ("a day where an instant is meant", {"exclusions": [{"start": "2026-03-01"}]}, "spec.exclusions[0].start"),
    ("an unknown way to catch up", {"catchUp": {"policy": "Some"}}, "spec.catchUp.policy"),
    ("catching up with nothing", {"catchUp": {"limit": 0}}, "spec.catchUp.limit"),
    ("an exclusion of no time", {"exclusions": [{}]}, "spec.exclusions[0]"),
    ("a window of no length", {"exclusions": [{"schedule": "@daily"}]}, "spec.exclusions[0]"),
    (
        "a window of length zero",
        {"exclusions": [{"schedule": "@daily", "durationSeconds": 0}]},
        "spec.exclusions[0].durationSeconds",
    ),
    ("another calendar", {"exclusions": [{"dates": ["24.12.2026"]}]}, "spec.exclusions[0].dates[0]"),
    ("retries without a number", {"retry": {}}, "spec.retry.limit"),
    ("fewer than no retries", {"retry": {"limit": -1}}, "spec.retry.limit"),
    ("no time at all", {"runTimeLimitSeconds": 0}, "spec.runTimeLimitSeconds"),
    ("fewer than no outcomes", {"outcomesLimit": -1}, "spec.outcomesLimit"),
    ("fewer than no Jobs", {"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit"),
    ("no Job", {"jobTemplate": None}, "spec.jobTemplate"),
    ("a Job without a spec", {"jobTemplate": {}}, "spec.jobTemplate.spec"),
)
def test_both_refuse_it_and_name_the_field(spec: Any, field: str) -> None:
    body = scheduled_job(**spec)
    assert field in [error.field for error in FORM.validate(body)]
    with pytest.raises(UserError) as refused:
        scheduledjob.parse(body)
    assert str(refused.value).startswith(f"ScheduledJob default/tick: {field}: ")


def test_the_model_alone_knows_the_calendar_and_the_schema_alone_the_labels() -> None:
    body = scheduled_job(exclusions=[{"dates": ["2026-02-30"]}])
    assert FORM.validate(body) == []
    with pytest.raises(UserError, match=r"spec\.exclusions\[0\]\.dates\[0\]: day is out of range"):
        scheduledjob.parse(body)
    body = scheduled_job(jobTemplate={**TEMPLATE, "metadata": {"labels": {"a": 1}}})
    assert [error.field for error in FORM.validate(body)] == ["spec.jobTemplate.metadata.labels.a"]


def test_a_job_without_a_pod_template_is_refused() -> None:
    body = scheduled_job(jobTemplate={"spec": {}})
    assert [error.field for error in FORM.validate(body)] == ["spec.jobTemplate.spec.template"]
    with pytest.raises(UserError, match=r"spec\.jobTemplate\.spec: template is required"):
        scheduledjob.parse(body)
