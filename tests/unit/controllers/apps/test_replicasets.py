"""ReplicaSets: how many pods, which go first, and what the status says."""

from datetime import timedelta
from typing import Any

import pytest

from tests.support.tables import for_each
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.plans import back, conditions_of, created, deleted, status_of
from workers.api import times
from workers.api.kinds import POD, REPLICA_SET, Object, Ref
from workers.controllers.apps.replicaset import COST, cost, decide, rank
from workers.controllers.pod_names import pod_name
from workers.decision.plan import NOTHING, PatchStatus
from workers.decision.snapshot import CachedObject, Snapshot


def replica_set(replicas: int, **more: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
    metadata = {"name": "web-1", "namespace": "default", "uid": "u", "generation": 4, "resourceVersion": "9"}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, "spec": {**spec, **more}}


def pod(name: str, *, ready: float | None = None, phase: str = "Running", node: str = "local", **more: Any) -> Object:
    """ready: for how many seconds it has been, None if it is not."""
    shown: Object = {"phase": phase}
    if ready is not None:
        since = times.render(NOW - timedelta(seconds=ready))
        shown["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    owner = {"uid": "u", "controller": True, "kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-1"}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": {"app": "web"},
        "ownerReferences": [owner],
        "creationTimestamp": times.render(NOW - timedelta(hours=1)),
    }
    return {"metadata": {**metadata, **more}, "spec": {"nodeName": node} if node else {}, "status": shown}


def snapshot(body: Object | None, *pods: Object, gone: tuple[str, ...] = (), **more: Any) -> Snapshot:
    entries = [CachedObject(Ref(POD, "default", each["metadata"]["name"]), each, 0) for each in pods]
    entries += [CachedObject(Ref(POD, "default", name), None, 0) for name in gone]
    return Snapshot(Ref(REPLICA_SET, "default", "web-1"), body, children={POD.id: tuple(entries)}, **more)


def test_what_is_missing_is_made_under_names_never_used_before():
    body = replica_set(3)
    plan = decide(snapshot(body, pod(pod_name(body, "", 1)), gone=(pod_name(body, "", 0),)), NOW)
    assert created(plan) == [pod_name(body, "", 2), pod_name(body, "", 3)]
    assert (status_of(plan)["replicas"], status_of(plan)["fullyLabeledReplicas"]) == (3, 3)


def test_a_set_that_names_no_number_has_one_pod() -> None:
    body = replica_set(5)
    del body["spec"]["replicas"]
    assert len(created(decide(snapshot(body), NOW))) == 1


def test_a_pod_belongs_to_its_set_and_is_made_from_the_template():
    (step,) = decide(snapshot(replica_set(1)), NOW).steps[0].steps
    assert step.body["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    assert step.body["metadata"]["labels"] == {"app": "web"}
    assert step.body["spec"] == {"containers": [{"name": "main"}]}


def test_pods_that_ended_or_are_leaving_count_for_nothing():
    ended, leaving = pod("a", phase="Failed"), pod("b", ready=5, deletionTimestamp=times.render(NOW))
    plan = decide(snapshot(replica_set(1), ended, leaving), NOW)
    assert len(created(plan)) == 1
    assert status_of(plan)["terminatingReplicas"] == 1
    assert "readyReplicas" not in status_of(plan)


def test_at_most_a_burst_at_once_and_then_the_rest():
    plan = decide(snapshot(replica_set(501)), NOW)
    assert len(created(plan)) == 500
    assert back(plan) == 0


ROWS = [
    pytest.param(pod("z", node="", phase="Pending"), pod("y", phase="Pending"), id="without a node"),
    pytest.param(pod("z", phase="Pending"), pod("y"), id="not running"),
    pytest.param(pod("z"), pod("y", ready=1), id="not ready"),
    pytest.param(
        pod("z", ready=100, annotations={COST: "-5"}), pod("y", ready=1, annotations={COST: "1"}), id="cheaper"
    ),
    pytest.param(
        pod("z", annotations={COST: "100"}), pod("y", ready=1, annotations={COST: "-9"}), id="cost bends to readiness"
    ),
    pytest.param(pod("z", ready=1), pod("y", ready=100), id="ready for a shorter time"),
    pytest.param(pod("z", ready=9, creationTimestamp=times.render(NOW)), pod("y", ready=9), id="younger"),
]


@pytest.mark.parametrize(("first", "last"), ROWS)
def test_which_pod_goes_first(first: Object, last: Object):
    assert rank(first) < rank(last)
    plan = decide(snapshot(replica_set(1), last, first), NOW)
    assert deleted(plan) == ["z"]
    assert (status_of(plan)["replicas"], status_of(plan)["terminatingReplicas"]) == (1, 1)
    assert back(plan) == 1


@for_each(("7", 7), ("-7", -7), ("0", 0), ("", 0), ("+7", 0), ("07", 0), ("seven", 0), ("99999999999", 0), ("٣", 0))
def test_a_cost_is_a_small_whole_number(text: str, value: int):
    assert cost(pod("x", annotations={COST: text})) == value


def test_pods_become_available_in_their_time():
    pods = [pod("a", ready=3), pod("b", ready=10), pod("c")]
    plan = decide(snapshot(replica_set(3, minReadySeconds=10), *pods), NOW)
    assert (status_of(plan)["readyReplicas"], status_of(plan)["availableReplicas"]) == (2, 1)
    assert back(plan) == 7


def test_why_pods_cannot_be_made_is_reported_before_it_is_tried_again():
    plan = decide(snapshot(replica_set(2), failures=1, last_error="no quota"), NOW)
    assert isinstance(plan.steps[0], PatchStatus)
    assert len(created(plan)) == 2
    assert conditions_of(plan) == [("ReplicaFailure", "True", "FailedCreate")]
    again = replica_set(2)
    again["status"] = {
        "conditions": [{**status_of(plan)["conditions"][0], "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    }
    [kept] = status_of(decide(snapshot(again, failures=2, last_error="no quota"), NOW))["conditions"]
    assert kept["lastTransitionTime"] == "2026-01-01T00:00:00Z", "it has failed since then"
    failed = replica_set(1)
    failed["status"] = status_of(plan)
    assert conditions_of(decide(snapshot(failed, pod("a")), NOW)) == []


def test_why_pods_cannot_be_deleted_is_reported_too():
    plan = decide(snapshot(replica_set(0), pod("a"), failures=1), NOW)
    [failure] = status_of(plan)["conditions"]
    assert (failure["status"], failure["reason"], failure["message"]) == (
        "True",
        "FailedDelete",
        "the last attempt failed",
    )


def test_a_set_on_its_way_out_makes_and_deletes_nothing():
    body = replica_set(1, metadata={"deletionTimestamp": times.render(NOW)})
    for pods in ((), (pod("a"), pod("b"))):
        plan = decide(snapshot(body, *pods), NOW)
        assert (created(plan), deleted(plan)) == ([], [])
        assert status_of(plan)["replicas"] == len(pods)


def test_what_is_gone_needs_nothing():
    assert decide(snapshot(None, pod("a")), NOW) is NOTHING
