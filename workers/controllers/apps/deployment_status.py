"""A Deployment's status: counts, availability, and progress of the rollout."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from workers.api import conditions, times
from workers.api.kinds import Object
from workers.controllers.apps import condition_list
from workers.controllers.apps.revisions import Sets, counted, name_of, size

CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
AVAILABLE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
#: A progressDeadlineSeconds of this size means none.
NEVER = 2**31 - 1


def deadline_of(deployment: Object) -> int | None:
    """Returns the seconds within which the rollout must progress; None for no deadline."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == NEVER else int(seconds)


def counts(deployment: Object, sets: Sets) -> Object:
    """Sums the counts of the sets."""
    every = sets.all
    available = sum(counted(body, "availableReplicas") for body in every)
    numbers = {
        "replicas": sum(counted(body, "replicas") for body in every),
        "updatedReplicas": 0 if sets.new is None else counted(sets.new, "replicas"),
        "readyReplicas": sum(counted(body, "readyReplicas") for body in every),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(size, every)) - available),
        "terminatingReplicas": sum(counted(body, "terminatingReplicas") for body in every),
        "collisionCount": counted(deployment, "collisionCount"),
    }
    known = {name: number for name, number in numbers.items() if number}
    return {"observedGeneration": deployment["metadata"].get("generation", 0), **known}


def is_complete(deployment: Object, numbers: Object) -> bool:
    """True if all wanted pods are of the current template and available, and no others exist."""
    wanted = size(deployment)
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    return all(numbers.get(field, 0) == wanted for field in fields)


def availability(observed: Sequence[Object], available: int, least: int, now: datetime) -> list[Object]:
    """Returns the conditions with Available set."""
    if available >= least:
        status, reason, verb = "True", "MinimumReplicasAvailable", "has"
    else:
        status, reason, verb = "False", "MinimumReplicasUnavailable", "does not have"
    message = f"Deployment {verb} minimum availability."
    return condition_list.put(observed, "Available", status, reason, message, now, updates=True)


def pausing(deployment: Object, observed: Sequence[Object], now: datetime) -> list[Object]:
    """Returns the conditions with a pause or its end in Progressing: the deadline starts over with either."""
    current = _progressing(observed)
    reason = (current or {}).get("reason")
    if deadline_of(deployment) is None or reason == TIMED_OUT:
        return list(observed)
    paused = bool(deployment["spec"].get("paused"))
    if paused and reason != PAUSED:
        return _put(observed, "Unknown", PAUSED, "Deployment is paused", now)
    if not paused and reason == PAUSED:
        return _put(observed, "Unknown", RESUMED, "Deployment is resumed", now)
    return list(observed)


def started(observed: Sequence[Object], reason: str, name: str, now: datetime) -> list[Object]:
    """Returns the conditions once the current set is created, or found. name: of the set."""
    message = "Created new replica set" if reason == CREATED else "Found new replica set"
    return _put(observed, "True", reason, f'{message} "{name}"', now)


def rollout(deployment: Object, observed: Sequence[Object], sets: Sets, numbers: Object, now: datetime) -> list[Object]:
    """Returns the conditions with the progress of the rollout. numbers: the new counts."""
    result = _failure(list(observed), sets)
    deadline = deadline_of(deployment)
    if deadline is None:
        return condition_list.drop(result, "Progressing")
    current = _progressing(result)
    still = numbers.get("replicas", 0) == numbers.get("updatedReplicas", 0)
    if still and (current or {}).get("reason") == AVAILABLE:
        return result
    which = f'ReplicaSet "{name_of(sets.new)}"' if sets.new else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, numbers):
        return _put(result, "True", AVAILABLE, f"{which} has successfully progressed.", now)
    if _moved(deployment.get("status") or {}, numbers):
        return _moving(result, current, f"{which} is progressing.", now)
    if current is not None and _is_over(current, deadline, now):
        return _put(result, "False", TIMED_OUT, f"{which} has timed out progressing.", now)
    return result


def requeue_at(deployment: Object, observed: Sequence[Object]) -> datetime | None:
    """Returns when the deadline of an unfinished rollout has passed, or None."""
    deadline, current = deadline_of(deployment), _progressing(observed)
    if deadline is None or current is None or current.get("reason") in (AVAILABLE, TIMED_OUT, PAUSED):
        return None
    return times.parse(current["lastUpdateTime"]) + timedelta(seconds=deadline + 1)


def _progressing(observed: Sequence[Object]) -> Object | None:
    return conditions.find({"status": {"conditions": observed}}, "Progressing")


def _put(observed: Sequence[Object], status: str, reason: str, message: str, now: datetime) -> list[Object]:
    return condition_list.put(observed, "Progressing", status, reason, message, now, updates=True)


def _moving(observed: Sequence[Object], current: Object | None, message: str, now: datetime) -> list[Object]:
    """Sets Progressing: each progress restarts the deadline and keeps lastTransitionTime."""
    fresh = _put(condition_list.drop(observed, "Progressing"), "True", UPDATED, message, now)
    if current is not None and current.get("status") == "True":
        fresh[-1] = {**fresh[-1], "lastTransitionTime": current["lastTransitionTime"]}
    return fresh


def _moved(before: Object, after: Object) -> bool:
    """True if more pods are of the current template, ready or available than before, or fewer are old."""

    def old(status: Object) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return any(after.get(field, 0) > before.get(field, 0) for field in more) or old(after) < old(before)


def _is_over(current: Object, deadline: int, now: datetime) -> bool:
    if current.get("reason") == AVAILABLE:
        # The rollout is complete: a pod lost since then does not time it out.
        return False
    if current.get("reason") == TIMED_OUT:
        return True
    return times.parse(current["lastUpdateTime"]) + timedelta(seconds=deadline) < now


def _failure(observed: list[Object], sets: Sets) -> list[Object]:
    """Copies ReplicaFailure from the sets, from the current one first."""
    every = (sets.new, *sets.old) if sets.new else sets.old
    failed = next((each for body in every if (each := conditions.find(body, "ReplicaFailure"))), None)
    rest = condition_list.drop(observed, "ReplicaFailure")
    if failed is None:
        return rest
    before = conditions.find({"status": {"conditions": observed}}, "ReplicaFailure") or {}
    same = all(before.get(name) == failed.get(name) for name in ("status", "reason", "message"))
    return observed if same else [*rest, {**failed, "lastUpdateTime": failed["lastTransitionTime"]}]
