"""The rules that every write of a Job's status must keep."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver import strategies
from deploy.local.apiserver.strategies import job_status
from tests.support.tables import cases
from tests.unit.apiserver.examples import created, job, refusals
from workers.api.kinds import JOB

START, END = "2026-01-10T12:00:00Z", "2026-01-10T12:01:00Z"
INDEXED = {"completionMode": "Indexed", "completions": 10, "parallelism": 10, "backoffLimitPerIndex": 1}
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}


def true(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True"} for kind in kinds]


COMPLETE = {
    "startTime": START,
    "completionTime": END,
    "succeeded": 1,
    "conditions": true("SuccessCriteriaMet", "Complete"),
}
FAILED = {"startTime": START, "failed": 1, "conditions": true("FailureTarget", "Failed")}


def errors(before: dict[str, Any], now: dict[str, Any], **spec: Any) -> list[str]:
    """The lines of `field: message`, below the status, that a write of `now` over `before` is refused with."""
    rules = strategies.strategy(JOB)
    old = {**created(JOB, job(**spec)), "status": before}
    new = rules.prepare_status({**old, "status": now}, old)
    return [str(error).removeprefix("status.") for error in rules.validate_status(new, old)]


def refused(before: dict[str, Any], now: dict[str, Any], **spec: Any) -> list[str]:
    """The fields that a write of `now` over `before` is refused for."""
    return [error.partition(": ")[0] for error in errors(before, now, **spec)]


@cases(
    ("a start", {}, {"startTime": START, "active": 1, "ready": 0}, {}),
    ("success in one write", {"startTime": START, "active": 1}, COMPLETE, {}),
    ("failure in one write", {"startTime": START, "active": 1}, FAILED, {}),
    ("counters of a finished job grow", COMPLETE, {**COMPLETE, "succeeded": 2}, {}),
    ("an elastic job shrinks", {"succeeded": 5}, {"succeeded": 4}, INDEXED),
    ("a suspended job forgets its start", {"startTime": START}, {**SUSPENDED}, {"suspend": True}),
    ("a resumed job starts anew", {"startTime": START, **SUSPENDED}, {"startTime": END}, {}),
    ("index texts", {}, {"completedIndexes": "0,2-4", "failedIndexes": "5"}, INDEXED),
    ("no index failed", {}, {"failedIndexes": ""}, INDEXED),
    (
        "two ends of an older server",
        *({**COMPLETE, "conditions": true("Complete", "Failed", *more)} for more in ((), ("Other",))),
        {},
    ),
    (
        "an end without a time of an older server",
        {"startTime": START, "conditions": true("Complete")},
        {"startTime": START, "conditions": true("Complete", "Other")},
        {},
    ),
    (
        "a suspended job with nothing to do ends without a start",
        {},
        {"conditions": true("SuccessCriteriaMet", "Complete"), "completionTime": END},
        {"suspend": True, "completions": 0},
    ),
    ("an old fault is not held against a new write", {"ready": 5}, {"ready": 5, "startTime": START}, {}),
    (
        "a job of an older server",
        {"conditions": true("Complete"), "startTime": START, "completionTime": END},
        {"conditions": true("Complete"), "startTime": START, "completionTime": END, "succeeded": 1},
        {},
    ),
)
def test_a_status_is_accepted(before: Any, now: Any, spec: Any) -> None:
    assert refused(before, now, **spec) == []


@cases(
    ("less than none", {}, {"active": -1}, {}, ["active"]),
    ("failures are not forgotten", {"failed": 2}, {"failed": 1}, {}, ["failed"]),
    ("successes are not forgotten", {"succeeded": 2}, {}, {}, ["succeeded"]),
    ("more ready than there are", {}, {"active": 1, "ready": 2}, {}, ["ready"]),
    (
        "uncounted uids",
        {},
        {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
        {},
        ["uncountedTerminatedPods.succeeded[1]", "uncountedTerminatedPods.failed[0]"],
    ),
    (
        "complete is for ever",
        COMPLETE,
        {**COMPLETE, "conditions": true("SuccessCriteriaMet"), "completionTime": None},
        {},
        ["conditions"],
    ),
    ("failed is for ever", FAILED, {**FAILED, "conditions": true("FailureTarget")}, {}, ["conditions"]),
    ("both ways", {}, {"conditions": true("SuccessCriteriaMet", "FailureTarget")}, {}, ["conditions"]),
    ("failed at once", {"startTime": START}, {**FAILED, "conditions": true("Failed")}, {}, ["conditions"]),
    ("done at once", {"startTime": START}, {**COMPLETE, "conditions": true("Complete")}, {}, ["conditions"]),
    (
        "criteria after the fact",
        {"conditions": true("Complete"), "startTime": START, "completionTime": END},
        {"conditions": true("Complete", "SuccessCriteriaMet"), "startTime": START, "completionTime": END},
        {},
        ["conditions"],
    ),
    ("no end", {"startTime": START}, {**COMPLETE, "completionTime": None}, {}, ["completionTime"]),
    ("an end", {"startTime": START}, {"startTime": START, "completionTime": END}, {}, ["completionTime"]),
    ("another end", COMPLETE, {**COMPLETE, "completionTime": "2026-01-10T13:00:00Z"}, {}, ["completionTime"]),
    (
        "an end before the start",
        {"startTime": END},
        {**COMPLETE, "startTime": END, "completionTime": START},
        {},
        ["completionTime"],
    ),
    ("another start", {"startTime": START}, {"startTime": END}, {}, ["startTime"]),
    ("no start any more", {"startTime": START}, {}, {}, ["startTime"]),
    ("finished and never started", {}, {**COMPLETE, "startTime": None}, {}, ["startTime"]),
    ("finished with active pods", {}, {**COMPLETE, "active": 1}, {}, ["active"]),
    ("finished with terminating pods", {}, {**FAILED, "terminating": 1}, {}, ["terminating"]),
    (
        "finished with uncounted pods",
        {},
        {**FAILED, "uncountedTerminatedPods": {"failed": ["a"]}},
        {},
        ["uncountedTerminatedPods"],
    ),
    ("indexes of a job without", {}, {"completedIndexes": "1"}, {}, ["completedIndexes"]),
    ("failed indexes of a job without", {}, {"failedIndexes": ""}, {}, ["failedIndexes"]),
    ("falling indexes", {}, {"completedIndexes": "3,2"}, INDEXED, ["completedIndexes"]),
    ("an interval of one", {}, {"completedIndexes": "3-3"}, INDEXED, ["completedIndexes"]),
    ("an index twice", {}, {"completedIndexes": "3,3"}, INDEXED, ["completedIndexes"]),
    ("no numbers", {}, {"completedIndexes": "x"}, INDEXED, ["completedIndexes"]),
    ("beyond the end", {}, {"completedIndexes": "10"}, INDEXED, ["completedIndexes"]),
    ("overlap", {}, {"completedIndexes": "1-3", "failedIndexes": "3"}, INDEXED, ["failedIndexes"]),
)
def test_a_status_is_refused(before: Any, now: Any, spec: Any, fields: list[str]) -> None:
    now = {name: value for name, value in now.items() if value is not None}
    assert refused(before, now, **spec) == fields


def test_a_status_write_touches_nothing_else() -> None:
    rules = strategies.strategy(JOB)
    old = created(JOB, job())
    new = {**old, "spec": {}, "metadata": {}, "status": {"active": 1}}
    assert rules.prepare_status(new, old) == {**old, "status": {"active": 1}}


@refusals(
    {
        'completionTime: Invalid value: "2026-01-10T13:00:00Z": completionTime cannot be mutated': (
            (COMPLETE, {**COMPLETE, "completionTime": "2026-01-10T13:00:00Z"}, {})
        ),
        "startTime: Invalid value: null: field is immutable for unsuspended job once set": (
            {"startTime": START},
            {},
            {},
        ),
        "conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition": (
            ({"startTime": START}, {"startTime": START, "conditions": true("Failed")}, {})
        ),
        "conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition": (
            ({"conditions": true("SuccessCriteriaMet")}, {}, {})
        ),
        'failedIndexes: Invalid value: "1,4-5": failedIndexes and completedIndexes overlap at index: 4': (
            ({}, {"completedIndexes": "0,2-4", "failedIndexes": "1,4-5"}, INDEXED)
        ),
        'completedIndexes: Invalid value: "1-2-3": error parsing completedIndexes: the fragment "1-2-3" violates the '
        "requirement that an index interval can have at most two parts separated by '-'": (
            ({}, {"completedIndexes": "1-2-3"}, INDEXED)
        ),
    }
)
def test_a_refusal_names_field_and_rule(refusal: str, body: Any) -> None:
    before, now, spec = body
    assert refusal in errors(before, now, **spec)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("0", 1), ("1,3-5,7", 5), ("0-2147483645", 2**31 - 2)], ids=repr)
def test_indexes_are_counted_however_many_they_are(text: str, count: int) -> None:
    assert job_status.index_count(text, 2**31 - 1) == count


@given(
    st.lists(st.integers(0, 60), max_size=12, unique=True).map(sorted),
    st.lists(st.integers(0, 60), max_size=12, unique=True).map(sorted),
)
def test_completed_and_failed_indexes_never_overlap(completed: list[int], failed: list[int]) -> None:
    now = {"completedIndexes": ",".join(map(str, completed)), "failedIndexes": ",".join(map(str, failed))}
    found = refused({}, now, completionMode="Indexed", completions=100, parallelism=100, backoffLimitPerIndex=1)
    assert found == ["failedIndexes"] * bool(set(completed) & set(failed))


@cases(("another", {"startTime": END}, f'"{END}"'), ("none any more", {}, "null"))
def test_why_a_start_may_not_change(now: Any, value: str) -> None:
    (error,) = job_status.validate({"spec": {}, "status": now}, {"spec": {}, "status": {"startTime": START}})
    assert error.message == f"Invalid value: {value}: field is immutable for unsuspended job once set"
