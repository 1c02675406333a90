"""Conditions of an object's status: what they say, and since when."""

from datetime import datetime

from workers.api import times
from workers.api.kinds import Object

_ENDS = ("Complete", "Failed")


def find(body: Object, type_: str) -> Object | None:
    """The condition of this type, or None."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def status_of(body: Object, type_: str) -> str | None:
    """``True``, ``False`` or ``Unknown`` as the condition of this type says, or None when there is none."""
    condition = find(body, type_)
    return condition.get("status") if condition else None


def holds(body: Object, type_: str) -> bool:
    """Whether the condition of this type is there and true."""
    return status_of(body, type_) == "True"


def moved(condition: Object, before: Object | None, now: datetime) -> Object:
    """The condition with its transition time, which changes with the status only. before: as it was observed."""
    same = before if before and before.get("status") == condition["status"] else {}
    return {**condition, "lastTransitionTime": same.get("lastTransitionTime") or times.render(now)}


def finished(job: Object) -> str | None:
    """How a batch/v1 Job ended: ``Complete`` or ``Failed``; None while it has not.

    A Job that is suspended, being deleted, or only about to end (FailureTarget, SuccessCriteriaMet) has not.
    """
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in _ENDS:
            return str(condition["type"])
    return None
