"""Conditions of an object's status, and their transition times."""

from datetime import datetime

from workers.api import times
from workers.api.kinds import Object

_ENDS = ("Complete", "Failed")


def find(body: Object, type_: str) -> Object | None:
    """Returns the condition of this type, or None."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def status_of(body: Object, type_: str) -> str | None:
    """Returns ``True``, ``False`` or ``Unknown``, the status of the condition of this type, or None without one."""
    condition = find(body, type_)
    return condition.get("status") if condition else None


def holds(body: Object, type_: str) -> bool:
    """Returns True if the condition of this type exists and is true."""
    return status_of(body, type_) == "True"


def moved(condition: Object, before: Object | None, now: datetime) -> Object:
    """Returns the condition with its transition time, which changes with the status only. before: the observed one."""
    same = before if before and before.get("status") == condition["status"] else {}
    return {**condition, "lastTransitionTime": same.get("lastTransitionTime") or times.render(now)}


def finished(job: Object) -> str | None:
    """Returns the outcome of a batch/v1 Job, ``Complete`` or ``Failed``; None while it has not finished.

    A Job that is suspended, being deleted, or about to end (FailureTarget, SuccessCriteriaMet) has not finished.
    """
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in _ENDS:
            return str(condition["type"])
    return None
