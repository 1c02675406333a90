"""Decisions about objects with any contents: none crashes, as a crash would prevent even the cleanup."""

from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, CronCluster, cron_job, scheduled_job
from workers.api.kinds import Object

FOREVER = "9999-12-31T23:59:59Z"
BEGINNING = "0001-01-01T00:00:00Z"
YEARLY = "59 23 31 12 *"
SHORTLY = {"exclusions": [{"schedule": "* * * * *", "durationSeconds": 5}]}
LONG = {"exclusions": [{"end": FOREVER}, {"schedule": YEARLY, "durationSeconds": 2**31 - 1}]}


@cases(
    ("suspended for ever", {"suspendUntil": FOREVER}, {}, False),
    ("suspended beyond all time", {"suspendUntil": "9999-12-31T23:59:59-14:00"}, {}, False),
    ("suspended, with jitter", {"suspendUntil": FOREVER, "jitterSeconds": 2**31 - 1}, {}, False),
    ("excluded for ever", LONG, {}, False),
    ("excluded at both ends", {"exclusions": [{"dates": ["9999-12-31", "0001-01-01"]}]}, {}, True),
    ("ran last before there were clocks", SHORTLY, {"lastScheduleTime": BEGINNING}, True),
)
def test_time_has_two_ends(spec: Object, status: Object, runs: bool) -> None:
    cluster = CronCluster({**scheduled_job("@every 1s", **spec), "status": status})
    cluster.settle(NOON + timedelta(seconds=6))
    assert bool(cluster.made) is runs


NUMBERS = st.sampled_from([0, 1, 5, -1, 10**6, 2**31 - 1, 2**63, 10**30])
INSTANTS = st.sampled_from(
    ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00+05:30", BEGINNING, FOREVER, "0001-01-01T00:00:00+14:00", "junk"]
)
SCHEDULES = st.sampled_from(
    [
        "* * * * *",
        "*/5 * * * * *",
        "@every 1s",
        "@every 90s",
        "@every 1000000h",
        "0 0 30 2 *",
        "0 0 29 2 *",
        "TZ=UTC * * * * *",
        "CRON_TZ=Asia/Tokyo 0 9 * * *",
        YEARLY,
        "bogus",
        "@every 0s",
        "",
    ]
)
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "No/Where", "Local", "../etc/passwd"])
EXCLUSIONS = st.fixed_dictionaries(
    {},
    optional={
        "start": INSTANTS,
        "end": INSTANTS,
        "dates": st.lists(st.sampled_from(["2026-03-01", "9999-12-31", "0001-01-01", "x"]), max_size=2),
        "schedule": SCHEDULES,
        "durationSeconds": NUMBERS,
        "timeZone": ZONES,
    },
)
BOTH = {
    "timeZone": ZONES,
    "startingDeadlineSeconds": NUMBERS,
    "concurrencyPolicy": st.sampled_from(["Allow", "Forbid", "Replace"]),
    "suspend": st.booleans(),
    "successfulJobsHistoryLimit": NUMBERS,
    "failedJobsHistoryLimit": NUMBERS,
}
WISHES = {
    "schedules": st.lists(st.fixed_dictionaries({"schedule": SCHEDULES}, optional={"timeZone": ZONES}), max_size=3),
    "jitterSeconds": NUMBERS,
    "suspendUntil": INSTANTS,
    "catchUp": st.fixed_dictionaries({"policy": st.sampled_from(["All", "None"])}, optional={"limit": NUMBERS}),
    "exclusions": st.lists(EXCLUSIONS, max_size=2),
    "retry": st.fixed_dictionaries({"limit": NUMBERS}, optional={"delaySeconds": NUMBERS, "maxDelaySeconds": NUMBERS}),
    "runTimeLimitSeconds": NUMBERS,
    "outcomesLimit": NUMBERS,
}
RUNS = st.fixed_dictionaries(
    {"job": st.just("report-1"), "outcome": st.sampled_from(["Running", "Retrying", "huh"])},
    optional={
        "attempts": st.sampled_from([1, 2, 0, -3, 10**30, "x"]),
        "scheduledTime": INSTANTS,
        "startTime": INSTANTS,
        "retryTime": INSTANTS,
    },
)
STATUSES = st.fixed_dictionaries(
    {}, optional={"lastScheduleTime": INSTANTS, "lastMissedTime": INSTANTS, "runs": st.lists(RUNS, max_size=2)}
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "penstock.dev/run.a": st.sampled_from(
            ["", "{}", '{"env": {"A": "1"}}', "[", '{"env": {"A": 1}}', "null", '"x"']
        ),
        "penstock.dev/last-missed-time": INSTANTS,
    },
)
AGES = st.sampled_from([0, 1, 3600, 86400 * 40, 86400 * 3000])


def _decided(body: Object, status: Object, annotations: Object) -> None:
    cluster = CronCluster({**body, "status": status, "metadata": {**body["metadata"], "annotations": annotations}})
    for seconds in (0, 0, 600):
        cluster.step(NOON + timedelta(seconds=seconds))


@given(SCHEDULES, st.fixed_dictionaries({}, optional=BOTH), STATUSES, ANNOTATIONS, AGES)
def test_a_cronjob_is_decided_on_with_any_contents(
    schedule: str, spec: Object, status: Object, annotations: Object, age: int
) -> None:
    _decided(cron_job(schedule, created=NOON - timedelta(seconds=age), **spec), status, annotations)


def _run(outcome: str, **fields: object) -> Object:
    return {"runs": [{"job": "report-1", "attempts": 1, "outcome": outcome, **fields}]}


@example(YEARLY, {"runTimeLimitSeconds": 1}, _run("Running", startTime=FOREVER), {}, 0)
@example(YEARLY, {"retry": {"limit": 1}}, _run("Retrying", startTime=FOREVER, retryTime=FOREVER), {}, 0)
@given(SCHEDULES, st.fixed_dictionaries({}, optional={**BOTH, **WISHES}), STATUSES, ANNOTATIONS, AGES)
def test_a_scheduledjob_is_decided_on_with_any_contents(
    schedule: str, spec: Object, status: Object, annotations: Object, age: int
) -> None:
    _decided(scheduled_job(schedule, created=NOON - timedelta(seconds=age), **spec), status, annotations)
