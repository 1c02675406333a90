"""Which parts of a status decisions may read."""

from typing import Any

from tests.support.tables import for_each
from workers.api.kinds import JOB_FLOW, QUEUE, SCALED_JOB, VC_JOB, Kind
from workers.api.statuses import is_finished, readable

NOW = "2026-03-01T08:00:00Z"
READY = {"type": "Ready", "status": "True", "reason": "AsSpecified", "lastTransitionTime": NOW}


def body(kind: Kind, status: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}, "status": status}


@for_each(
    *[({"status": {"phase": phase}}, True) for phase in ("Succeeded", "Failed")],
    *[({"status": {"phase": phase}}, False) for phase in ("Pending", "Running", "Unknown", "")],
    ({"status": {}}, False),
    ({}, False),
)
def test_a_pod_is_finished_once_it_has_succeeded_or_failed(pod: Any, expected: bool) -> None:
    assert is_finished(pod) is expected


@for_each(

        (SCALED_JOB, {"conditions": [READY], "lastActiveTime": NOW}),
        (SCALED_JOB, None),
        (VC_JOB, {"state": {"phase": "Running"}, "conditions": [{"status": "Pending", "lastTransitionTime": NOW}]}),
        (JOB_FLOW, {"conditions": {"a-e0": {"phase": "Running"}}, "flowConditions": [READY], "active": ["a-1"]}),
        (JOB_FLOW, {"state": {"phase": "Scheduled"}, "lastScheduleTime": NOW}),
        (QUEUE, {"state": "Open", "inqueue": 1}),
        (Kind("apps", "v1", "Job", "jobs"), {"active": 3}),

)  # fmt: skip
def test_what_a_controller_writes_stays_as_it_is(kind: Kind, status: Any) -> None:
    found = body(kind, status)
    assert readable(found) is found


@for_each(
    ("text", None),
    ({"conditions": "x", "phase": "A"}, {"phase": "A"}),
    ({"conditions": [READY, 1, {"type": 3}, {}]}, {"conditions": [READY]}),
    ({"state": [], "lastScheduleTime": " "}, {}),
    ({"startTime": 5}, {}),
    ({"active": [{"uid": 1}, "a", {"uid": "u"}]}, {"active": ["a", {"uid": "u"}]}),
    ({"conditions": [{**READY, "lastTransitionTime": "soon"}]}, {"conditions": []}),
)
def test_what_cannot_be_read_counts_as_absent(status: Any, left: Any) -> None:
    assert readable(body(SCALED_JOB, status)).get("status") == left
