"""The rows of `penstock top`: states, numbers, order and filter. Unknown is not zero."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.cli.top import top_reader, top_rows
from deploy.cli.top.top_rows import JobTally, TopRow, TopView, chosen
from scheduler.queue import Stats
from tests.support.tables import cases
from tests.unit.cli.fake import FakeCluster
from workers.api.kinds import (
    CRON_JOB,
    EVENT_JOB,
    JOB,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
    VC_JOB,
    Kind,
    Object,
    Ref,
)
from workers.decision.claims import ClaimLedger
from workers.decision.snapshot import Reading, TriggerSample
from workers.errors import UserError

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)


def body(name: str = "work", **more: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"u-{name}", **more.pop("metadata", {})}
    return {"metadata": metadata, **more}


def ready(status: str, reason: str = "") -> Object:
    return {"conditions": [{"type": "Ready", "status": status, "reason": reason}]}


def job(owner: str | None, age: int = 0, end: str | None = None) -> Object:
    created = datetime.fromtimestamp(NOW.timestamp() - age, UTC).isoformat()
    owners = [{"uid": owner, "controller": True, "kind": "ScaledJob", "name": "x"}] if owner else []
    ends = [{"type": end, "status": "True"}] if end else []
    metadata = {"name": "j", "creationTimestamp": created, "ownerReferences": owners}
    return {"metadata": metadata, "status": {"conditions": ends}}


STATES: list[tuple[str, Kind, Object, str]] = [
    ("a ScaledJob that is ready", SCALED_JOB, body(status=ready("True")), "Idle"),
    ("one that is not", SCALED_JOB, body(status=ready("False", "TriggerError")), "NotReady"),
    ("one that was not measured", SCALED_JOB, body(), "New"),
    (
        "one that is paused",
        SCALED_JOB,
        body(metadata={"annotations": {"autoscaling.keda.sh/paused": "true"}}, status=ready("True")),
        "Paused",
    ),
    ("an EventJob that is suspended", EVENT_JOB, body(spec={"suspend": True}), "Suspended"),
    ("an EventJob whose channel is taken", EVENT_JOB, body(status=ready("False", "ChannelTaken")), "NotReady"),
    ("a CronJob has no conditions", CRON_JOB, body(spec={"suspend": False}), "Scheduled"),
    ("a Job that runs", JOB, body(status={"active": 1, "ready": 1}), "Running"),
    ("a Job whose pods have not started", JOB, body(status={"active": 1}), "Pending"),
    ("a Job that has not begun", JOB, body(), "Pending"),
    ("a Job that failed", JOB, body(status={"conditions": [{"type": "Failed", "status": "True"}]}), "Failed"),
    ("a Volcano Job", VC_JOB, body(status={"state": {"phase": "Aborted"}}), "Aborted"),
    (
        "an object that is being deleted",
        JOB,
        body(metadata={"deletionTimestamp": "2026-03-01T08:00:00Z"}),
        "Terminating",
    ),
]


@pytest.mark.parametrize(("kind", "found", "expected"), [row[1:] for row in STATES], ids=[row[0] for row in STATES])
def test_states(kind: Kind, found: Object, expected: str) -> None:
    assert top_rows.row(kind, found, {}, {}).state == expected


def test_a_row_says_why_an_object_is_in_its_state() -> None:
    found = top_rows.row(EVENT_JOB, body(status=ready("False", "ChannelTaken")), {}, {})
    assert found.why == "ChannelTaken"
    assert chosen([found], None, "channeltaken") == [found]


def test_an_object_that_is_suspended_is_known_as_such_in_every_state() -> None:
    suspended = body(spec={"suspend": True}, status={**ready("True"), "events": {"parked": 1}})
    found = top_rows.row(EVENT_JOB, suspended, {}, {})
    assert (found.state, found.paused) == ("Parked", True)


def test_an_object_that_is_being_deleted_says_what_it_waits_for() -> None:
    metadata = {"deletionTimestamp": "2026-03-01T08:00:00Z", "finalizers": ["penstock.dev/eventjob"]}
    found = top_rows.row(EVENT_JOB, body(metadata=metadata, status=ready("True")), {}, {})
    assert (found.state, found.why) == ("Terminating", "deleted, and waits for penstock.dev/eventjob")


def reading(*values: float | None, problem: str | None = None) -> Reading:
    samples = tuple(
        TriggerSample(f"s{index}", "redis", value=value or 0.0, error="no answer" if value is None else None)
        for index, value in enumerate(values)
    )
    return Reading(1, 0, 1, samples, problem)


KEY = "scaledjobs.keda.sh/default/work"
TALLY = {"u-work": JobTally(active=2, young=5)}

NUMBERS: list[tuple[str, Kind, Object, Any, Any, tuple[float | None, ...]]] = [
    ("a ScaledJob's triggers are added up", SCALED_JOB, body(), TALLY, {KEY: reading(3, 4)}, (7, 2, None, 5)),
    (
        "a trigger that failed makes the sum unknown",
        SCALED_JOB,
        body(),
        TALLY,
        {KEY: reading(3, None)},
        (None, 2, None, 5),
    ),
    ("a spec that cannot be measured", SCALED_JOB, body(), {}, {KEY: reading(problem="malformed")}, (None, 0, None, 0)),
    (
        "items that are parked beside the queue",
        SCALED_JOB,
        body(),
        TALLY,
        {KEY: replace(reading(3), ledger=ClaimLedger("s0", counts={"parked": 4}))},
        (3, 2, 4, 5),
    ),
    ("no reading yet", SCALED_JOB, body(), {}, {}, (None, 0, None, 0)),
    ("no broker", SCALED_JOB, body(), TALLY, None, (None, 2, None, 5)),
    ("Jobs that may not be listed are unknown", SCALED_JOB, body(), None, {KEY: reading(0)}, (0, None, None, None)),
    ("a ScaledObject has no Jobs", SCALED_OBJECT, body(), TALLY, {}, (None, None, None, None)),
    (
        "an EventJob's events",
        EVENT_JOB,
        body(status={"events": {"waiting": 3, "delayed": 1, "retrying": None, "parked": 2, "running": 9}}),
        TALLY,
        None,
        (4, 2, 2, 5),
    ),
    ("an EventJob that was not measured", EVENT_JOB, body(), {}, None, (None, 0, None, 0)),
    ("an EventJob's own count of Jobs", EVENT_JOB, body(status={"active": 4}), None, None, (None, 4, None, None)),
    ("a ScheduledJob's runs", SCHEDULED_JOB, body(), TALLY, None, (None, 2, None, 5)),
    ("a Job's pods", JOB, body(status={"active": 3}), TALLY, None, (None, 3, None, None)),
    ("a Volcano Job's pods", VC_JOB, body(status={"pending": 1, "running": 2}), TALLY, None, (1, 2, None, None)),
]


@pytest.mark.parametrize(
    ("kind", "found", "tallies", "readings", "expected"), [row[1:] for row in NUMBERS], ids=[row[0] for row in NUMBERS]
)
def test_numbers(kind: Kind, found: Object, tallies: Any, readings: Any, expected: tuple[float | None, ...]) -> None:
    row = top_rows.row(kind, found, tallies, readings)
    assert (row.waiting, row.active, row.parked, row.rate) == expected


def test_jobs_count_for_their_owner() -> None:
    jobs = [job("a"), job("a", 59, "Complete"), job("a", 61), job("b", 999, "Failed"), job(None)]
    one = {"Complete": 1}
    assert top_rows.tally(jobs, NOW) == {
        "a": JobTally(active=2, young=2, finished=one),
        "b": JobTally(finished={"Failed": 1}, old=frozenset({"Failed"})),
    }


async def test_the_kinds_that_there_are_can_be_told_apart() -> None:
    with pytest.raises(UserError) as caught:
        await top_reader.find_kind(FakeCluster(), "pods")  # type: ignore[arg-type]
    _, _, named = str(caught.value).partition("none of ")
    assert named == "eventjobs, scaledjobs, scaledobjects, scheduledjobs, cronjobs, jobs.batch.volcano.sh, jobs"


def ttl(seconds: int) -> Object:
    return {"template": {}, "ttlSecondsAfterFinished": seconds}


FULL = {"Complete": 100}


@cases(
    ("Jobs that stay", SCALED_JOB, {}, {}, 5, "5"),
    ("Jobs that stay for a minute", SCALED_JOB, {"jobTargetRef": ttl(60)}, {}, 5, "5"),
    ("Jobs that leave sooner", SCALED_JOB, {"jobTargetRef": ttl(59)}, {}, 5, "5+"),
    ("none left of those", SCALED_JOB, {"jobTargetRef": ttl(0)}, {}, 0, "-"),
    ("runs that leave sooner", CRON_JOB, {"jobTemplate": {"spec": ttl(5)}}, {}, 1, "1+"),
    ("Jobs of events", EVENT_JOB, {"ttlSecondsAfterFinished": 5}, {}, 1, "1+"),
    ("a full history of this minute", SCALED_JOB, {}, {"finished": FULL}, 104, "104+"),
    ("a full history", SCALED_JOB, {}, {"finished": FULL, "old": frozenset({"Complete"})}, 104, "104"),
    ("a longer history", SCALED_JOB, {"successfulJobsHistoryLimit": 101}, {"finished": FULL}, 104, "104"),
    ("no history of failures", SCHEDULED_JOB, {"failedJobsHistoryLimit": 0}, {}, 2, "2+"),
    ("no history limit", EVENT_JOB, {}, {"finished": FULL}, 104, "104"),
)
def test_a_rate_that_deleted_jobs_may_be_missing_from_is_a_lower_bound(
    kind: Kind, spec: Object, tally: Any, young: int, shown: str
) -> None:
    row = top_rows.row(kind, body(spec=spec), {"u-work": JobTally(young=young, **tally)}, None)
    assert top_rows.cells(row, "1s")[-2] == shown
    [printed] = top_rows.as_objects(TopView((row,)), [row])["objects"]
    known = shown == str(young)
    assert (printed["jobsPerMinute"], printed["jobsOfLastMinute"]) == (young if known else None, young)


def rows(*waiting: float | None) -> list[TopRow]:
    return [TopRow(Ref(SCALED_JOB, "default", f"n{index}"), "Ready", each) for index, each in enumerate(waiting)]


def test_the_largest_number_comes_first_and_an_unknown_one_last() -> None:
    found = top_rows.ordered(rows(0, 5, None, 2), "WAITING")
    assert [row.waiting for row in found] == [5, 2, 0, None]


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=8),
    st.sampled_from(list(top_rows.COLUMNS)),
    st.booleans(),
)
def test_order_loses_no_row(waiting: list[float | None], column: str, backwards: bool) -> None:
    found = rows(*waiting)
    assert set(top_rows.ordered(found, column, backwards=backwards)) == set(found)


def test_filter() -> None:
    one = TopRow(Ref(SCALED_JOB, "default", "crunch"), "Ready")
    other = TopRow(Ref(EVENT_JOB, "ops", "orders"), "Suspended")
    assert top_rows.chosen([one, other], None, "") == [one, other]
    assert top_rows.chosen([one, other], EVENT_JOB, "") == [other]
    assert top_rows.chosen([one, other], None, "OPS/ord") == [other]
    assert top_rows.chosen([one, other], None, "suspended") == [other]
    assert top_rows.chosen([one, other], SCALED_JOB, "orders") == []


def test_unknown_numbers_are_null_in_json() -> None:
    found = top_rows.as_objects(TopView((), None, {"Job": "forbidden"}), rows(None))
    assert found["lanes"] is None
    assert found["missing"] == {"Job": "forbidden"}
    assert found["objects"][0]["waiting"] is None


def test_the_pipeline() -> None:
    lanes = {"poll": Stats(0, 3, 0, 0, 0, 0, 0, 0, None), "reconcile": Stats(2, 9, 1, 4, 0, 0, 5, 1, 1.25)}
    assert top_rows.pipeline(lanes) == [
        "reconcile   2 ready, oldest 1.2 s, 4 at work, 1 due, 9 later, 5 failing",
        "poll        0 ready, 0 at work, 0 due, 3 later",
    ]
    assert "does not answer" in top_rows.pipeline(None)[0]
