"""The rules that every write of a Job's status must keep."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver import strategies
from deploy.local.apiserver.strategies import job_status
from tests.unit.apiserver.examples import created, job, spelled
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


def refused(before: dict[str, Any], now: dict[str, Any], **spec: Any) -> list[str]:
    """The fields that a write of `now` over `before` is refused for."""
    rules = strategies.strategy(JOB)
    old = {**created(JOB, job(**spec)), "status": before}
    new = rules.prepare_status({**old, "status": now}, old)
    return [field.removeprefix("status.") for field, _ in spelled(rules.validate_status(new, old))]


@pytest.mark.parametrize(
    ("before", "now", "spec"),
    [
        pytest.param({}, {"startTime": START, "active": 1, "ready": 0}, {}, id="a start"),
        pytest.param({"startTime": START, "active": 1}, COMPLETE, {}, id="success in one write"),
        pytest.param({"startTime": START, "active": 1}, FAILED, {}, id="failure in one write"),
        pytest.param(COMPLETE, {**COMPLETE, "succeeded": 2}, {}, id="counters of a finished job grow"),
        pytest.param({"succeeded": 5}, {"succeeded": 4}, INDEXED, id="an elastic job shrinks"),
        pytest.param({"startTime": START}, {**SUSPENDED}, {"suspend": True}, id="a suspended job forgets its start"),
        pytest.param({"startTime": START, **SUSPENDED}, {"startTime": END}, {}, id="a resumed job starts anew"),
        pytest.param({}, {"completedIndexes": "0,2-4", "failedIndexes": "5"}, INDEXED, id="index texts"),
        pytest.param({}, {"failedIndexes": ""}, INDEXED, id="no index failed"),
        pytest.param(
            {**COMPLETE, "conditions": true("Complete", "Failed")},
            {**COMPLETE, "conditions": true("Complete", "Failed", "Other")},
            {},
            id="two ends of an older server",
        ),
        pytest.param(
            {"startTime": START, "conditions": true("Complete")},
            {"startTime": START, "conditions": true("Complete", "Other")},
            {},
            id="an end without a time of an older server",
        ),
        pytest.param(
            {},
            {"conditions": true("SuccessCriteriaMet", "Complete"), "completionTime": END},
            {"suspend": True, "completions": 0},
            id="a suspended job with nothing to do ends without a start",
        ),
        pytest.param(
            {"ready": 5}, {"ready": 5, "startTime": START}, {}, id="an old fault is not held against a new write"
        ),
        pytest.param(
            {"conditions": true("Complete"), "startTime": START, "completionTime": END},
            {"conditions": true("Complete"), "startTime": START, "completionTime": END, "succeeded": 1},
            {},
            id="a job of an older server",
        ),
    ],
)
def test_a_status_is_accepted(before: Any, now: Any, spec: Any) -> None:
    assert refused(before, now, **spec) == []


@pytest.mark.parametrize(
    ("before", "now", "spec", "fields"),
    [
        pytest.param({}, {"active": -1}, {}, ["active"], id="less than none"),
        pytest.param({"failed": 2}, {"failed": 1}, {}, ["failed"], id="failures are not forgotten"),
        pytest.param({"succeeded": 2}, {}, {}, ["succeeded"], id="successes are not forgotten"),
        pytest.param({}, {"active": 1, "ready": 2}, {}, ["ready"], id="more ready than there are"),
        pytest.param(
            {},
            {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
            {},
            ["uncountedTerminatedPods.succeeded[1]", "uncountedTerminatedPods.failed[0]"],
            id="uncounted uids",
        ),
        pytest.param(
            COMPLETE,
            {**COMPLETE, "conditions": true("SuccessCriteriaMet"), "completionTime": None},
            {},
            ["conditions"],
            id="complete is for ever",
        ),
        pytest.param(
            FAILED, {**FAILED, "conditions": true("FailureTarget")}, {}, ["conditions"], id="failed is for ever"
        ),
        pytest.param(
            {}, {"conditions": true("SuccessCriteriaMet", "FailureTarget")}, {}, ["conditions"], id="both ways"
        ),
        pytest.param(
            {"startTime": START}, {**FAILED, "conditions": true("Failed")}, {}, ["conditions"], id="failed at once"
        ),
        pytest.param(
            {"startTime": START}, {**COMPLETE, "conditions": true("Complete")}, {}, ["conditions"], id="done at once"
        ),
        pytest.param(
            {"conditions": true("Complete"), "startTime": START, "completionTime": END},
            {"conditions": true("Complete", "SuccessCriteriaMet"), "startTime": START, "completionTime": END},
            {},
            ["conditions"],
            id="criteria after the fact",
        ),
        pytest.param({"startTime": START}, {**COMPLETE, "completionTime": None}, {}, ["completionTime"], id="no end"),
        pytest.param(
            {"startTime": START}, {"startTime": START, "completionTime": END}, {}, ["completionTime"], id="an end"
        ),
        pytest.param(
            COMPLETE, {**COMPLETE, "completionTime": "2026-01-10T13:00:00Z"}, {}, ["completionTime"], id="another end"
        ),
        pytest.param(
            {"startTime": END},
            {**COMPLETE, "startTime": END, "completionTime": START},
            {},
            ["completionTime"],
            id="an end before the start",
        ),
        pytest.param({"startTime": START}, {"startTime": END}, {}, ["startTime"], id="another start"),
        pytest.param({"startTime": START}, {}, {}, ["startTime"], id="no start any more"),
        pytest.param({}, {**COMPLETE, "startTime": None}, {}, ["startTime"], id="finished and never started"),
        pytest.param({}, {**COMPLETE, "active": 1}, {}, ["active"], id="finished with active pods"),
        pytest.param({}, {**FAILED, "terminating": 1}, {}, ["terminating"], id="finished with terminating pods"),
        pytest.param(
            {},
            {**FAILED, "uncountedTerminatedPods": {"failed": ["a"]}},
            {},
            ["uncountedTerminatedPods"],
            id="finished with uncounted pods",
        ),
        pytest.param({}, {"completedIndexes": "1"}, {}, ["completedIndexes"], id="indexes of a job without"),
        pytest.param({}, {"failedIndexes": ""}, {}, ["failedIndexes"], id="failed indexes of a job without"),
        pytest.param({}, {"completedIndexes": "3,2"}, INDEXED, ["completedIndexes"], id="falling indexes"),
        pytest.param({}, {"completedIndexes": "3-3"}, INDEXED, ["completedIndexes"], id="an interval of one"),
        pytest.param({}, {"completedIndexes": "3,3"}, INDEXED, ["completedIndexes"], id="an index twice"),
        pytest.param({}, {"completedIndexes": "x"}, INDEXED, ["completedIndexes"], id="no numbers"),
        pytest.param({}, {"completedIndexes": "10"}, INDEXED, ["completedIndexes"], id="beyond the end"),
        pytest.param({}, {"completedIndexes": "1-3", "failedIndexes": "3"}, INDEXED, ["failedIndexes"], id="overlap"),
    ],
)
def test_a_status_is_refused(before: Any, now: Any, spec: Any, fields: list[str]) -> None:
    now = {name: value for name, value in now.items() if value is not None}
    assert refused(before, now, **spec) == fields


def test_a_status_write_touches_nothing_else() -> None:
    rules = strategies.strategy(JOB)
    old = created(JOB, job())
    new = {**old, "spec": {}, "metadata": {}, "status": {"active": 1}}
    assert rules.prepare_status(new, old) == {**old, "status": {"active": 1}}


@pytest.mark.parametrize(
    ("before", "now", "spec", "field", "message"),
    [
        pytest.param(
            COMPLETE,
            {**COMPLETE, "completionTime": "2026-01-10T13:00:00Z"},
            {},
            "completionTime",
            'Invalid value: "2026-01-10T13:00:00Z": completionTime cannot be mutated',
            id="another end",
        ),
        pytest.param(
            {"startTime": START},
            {},
            {},
            "startTime",
            "Required value: startTime cannot be removed for unsuspended job",
            id="no start any more",
        ),
        pytest.param(
            {"startTime": START},
            {"startTime": START, "conditions": true("Failed")},
            {},
            "conditions",
            "Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            id="failed at once",
        ),
        pytest.param(
            {"conditions": true("SuccessCriteriaMet")},
            {},
            {},
            "conditions",
            "Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            id="criteria are met for ever",
        ),
        pytest.param(
            {},
            {"completedIndexes": "0,2-4", "failedIndexes": "1,4-5"},
            INDEXED,
            "failedIndexes",
            'Invalid value: "1,4-5": failedIndexes and completedIndexes overlap at index: 4',
            id="overlap",
        ),
        pytest.param(
            {},
            {"completedIndexes": "1-2-3"},
            INDEXED,
            "completedIndexes",
            'Invalid value: "1-2-3": error parsing completedIndexes: the fragment "1-2-3" violates the requirement '
            "that an index interval can have at most two parts separated by '-'",
            id="three ends",
        ),
    ],
)
def test_a_refusal_names_field_and_rule(before: Any, now: Any, spec: Any, field: str, message: str) -> None:
    rules = strategies.strategy(JOB)
    old = {**created(JOB, job(**spec)), "status": before}
    new = rules.prepare_status({**old, "status": now}, old)
    assert (f"status.{field}", message) in spelled(rules.validate_status(new, old))


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
