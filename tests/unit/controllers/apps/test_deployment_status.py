"""The status of a Deployment, each part for itself: counts, availability, and the conditions of a rollout."""

from datetime import datetime, timedelta
from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from workers.api import times
from workers.api.kinds import Object
from workers.controllers.apps import deployment_status
from workers.controllers.apps.deployment_status import NEVER
from workers.controllers.apps.revisions import Sets

EARLIER = NOW - timedelta(minutes=5)


def deployment(*, wanted: int = 3, deadline: int | None = 600, **status: Any) -> Object:
    spec = {"replicas": wanted, **({} if deadline is None else {"progressDeadlineSeconds": deadline})}
    return {"metadata": {"name": "web", "generation": 4}, "spec": spec, "status": status}


def replica_set(name: str, size: int, *conditions: Object, **status: int) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"replicas": size},
        "status": {**status, "conditions": [*conditions]},
    }


def condition(type_: str, status: str, reason: str, message: str, *, moved: datetime = NOW, **more: str) -> Object:
    times_ = {"lastTransitionTime": times.render(moved), "lastUpdateTime": times.render(NOW)}
    return {"type": type_, "status": status, "reason": reason, "message": message, **times_, **more}


def progressing(reason: str, status: str = "True", updated: datetime = EARLIER) -> Object:
    stamp = times.render(updated)
    told = {"type": "Progressing", "status": status, "reason": reason, "message": "before"}
    return {**told, "lastUpdateTime": stamp, "lastTransitionTime": stamp}


NEW = replica_set("web-2", 2, replicas=2, readyReplicas=1, availableReplicas=1, terminatingReplicas=1)
OLD = replica_set("web-1", 2, replicas=2, readyReplicas=2, availableReplicas=2)


def test_the_counts_are_sums_of_the_sets() -> None:
    assert deployment_status.counts(deployment(collisionCount=2), Sets(NEW, (OLD,))) == {
        **{"observedGeneration": 4, "replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3},
        **{"unavailableReplicas": 1, "terminatingReplicas": 1, "collisionCount": 2},
    }
    assert deployment_status.counts(deployment(), Sets(None, ())) == {"observedGeneration": 4}


@for_each(
    (3, "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
    (2, "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
)
def test_availability_is_told(available: int, status: str, reason: str, message: str) -> None:
    told = deployment_status.availability([progressing("x")], available, 3, NOW)
    assert told == [progressing("x"), condition("Available", status, reason, message)]


COUNTS = {"replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3}
DONE = dict.fromkeys(COUNTS, 3)
MESSAGE = 'ReplicaSet "web-2" is progressing.'
COMPLETE = condition("Progressing", "True", "NewReplicaSetAvailable", 'ReplicaSet "web-2" has successfully progressed.')


@cases(
    ("the first progress", [], {}, COUNTS, [condition("Progressing", "True", "ReplicaSetUpdated", MESSAGE)]),
    (
        "more progress keeps the transition",
        [progressing("ReplicaSetUpdated")],
        {**COUNTS, "updatedReplicas": 1},
        COUNTS,
        [condition("Progressing", "True", "ReplicaSetUpdated", MESSAGE, moved=EARLIER)],
    ),
    (
        "progress after a time-out",
        [progressing("ProgressDeadlineExceeded", "False")],
        {**COUNTS, "readyReplicas": 2},
        COUNTS,
        [condition("Progressing", "True", "ReplicaSetUpdated", MESSAGE)],
    ),
    (
        "fewer old pods",
        [],
        {**COUNTS, "replicas": 5},
        COUNTS,
        [condition("Progressing", "True", "ReplicaSetUpdated", MESSAGE)],
    ),
    (
        "as many old pods of fewer",
        [progressing("ReplicaSetUpdated")],
        COUNTS,
        {**COUNTS, "replicas": 3, "updatedReplicas": 1},
        [progressing("ReplicaSetUpdated")],
    ),
    ("no progress", [progressing("ReplicaSetUpdated")], COUNTS, COUNTS, [progressing("ReplicaSetUpdated")]),
    ("complete", [], COUNTS, DONE, [COMPLETE]),
    ("it was complete", [progressing("NewReplicaSetAvailable")], DONE, DONE, [progressing("NewReplicaSetAvailable")]),
    (
        "all pods are lost later",
        [progressing("NewReplicaSetAvailable")],
        {**DONE, "replicas": 4},
        {},
        [progressing("NewReplicaSetAvailable")],
    ),
    (
        "a pod is lost later",
        [progressing("NewReplicaSetAvailable")],
        DONE,
        {**DONE, "availableReplicas": 2},
        [progressing("NewReplicaSetAvailable")],
    ),
)
def test_the_progress_of_a_rollout_is_told(
    observed: list[Object], before: Object, after: Object, told: list[Object]
) -> None:
    body = deployment(**before)
    assert deployment_status.rollout(body, observed, Sets(NEW, (OLD,)), after, NOW) == told


@cases(
    ("not yet", 300, progressing("ReplicaSetUpdated")),
    (
        "now",
        299,
        condition("Progressing", "False", "ProgressDeadlineExceeded", 'ReplicaSet "web-2" has timed out progressing.'),
    ),
    ("for ever", NEVER, None),
    ("without one", None, None),
)
def test_a_rollout_without_progress_ends_with_its_deadline(deadline: int | None, told: Object | None) -> None:
    body = deployment(deadline=deadline, **COUNTS)
    found = deployment_status.rollout(body, [progressing("ReplicaSetUpdated")], Sets(NEW, (OLD,)), COUNTS, NOW)
    assert found == ([told] if told else [])


@for_each(
    ("ReplicaSetUpdated", 600, EARLIER + timedelta(seconds=601)),
    ("NewReplicaSetAvailable", 600, None),
    ("ProgressDeadlineExceeded", 600, None),
    ("DeploymentPaused", 600, None),
    ("ReplicaSetUpdated", None, None),
)
def test_the_end_of_the_deadline_is_when_it_comes_back(reason: str, deadline: int | None, at: datetime | None) -> None:
    assert deployment_status.requeue_at(deployment(deadline=deadline), [progressing(reason)]) == at


@cases(
    ("paused", True, "ReplicaSetUpdated", ("Unknown", "DeploymentPaused", "Deployment is paused")),
    ("still paused", True, "DeploymentPaused", None),
    ("resumed", False, "DeploymentPaused", ("Unknown", "DeploymentResumed", "Deployment is resumed")),
    ("neither", False, "ReplicaSetUpdated", None),
    ("too late already", True, "ProgressDeadlineExceeded", None),
)
def test_a_pause_and_its_end_begin_the_deadline_anew(
    paused: bool, reason: str, told: tuple[str, str, str] | None
) -> None:
    observed = [progressing(reason, "Unknown")]
    body = deployment()
    body["spec"]["paused"] = paused
    expected = [condition("Progressing", *told, moved=EARLIER)] if told else observed
    assert deployment_status.pausing(body, observed, NOW) == expected


def test_a_failure_of_a_set_is_told_once_and_taken_back() -> None:
    refusal = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    refusal["lastTransitionTime"] = times.render(EARLIER)
    told = {**refusal, "lastUpdateTime": times.render(EARLIER)}
    refused = replica_set("web-2", 2, refusal)
    body = deployment(deadline=None)
    assert deployment_status.rollout(body, [], Sets(refused, (OLD,)), COUNTS, NOW) == [told]
    again = {**told, "lastUpdateTime": times.render(NOW)}
    assert deployment_status.rollout(body, [again], Sets(refused, (OLD,)), COUNTS, NOW) == [again]
    assert deployment_status.rollout(body, [told], Sets(NEW, (OLD,)), COUNTS, NOW) == []
