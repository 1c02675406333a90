"""Reading conditions off an object's status."""

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


def finished(job: Object) -> str | None:
    """How a batch/v1 Job ended: ``Complete`` or ``Failed``; None while it has not.

    A Job that is suspended, being deleted, or only about to end (FailureTarget, SuccessCriteriaMet) has not.
    """
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in _ENDS:
            return str(condition["type"])
    return None
