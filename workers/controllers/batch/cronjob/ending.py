"""How Jobs ended, and when: those of batch/v1 say so by conditions, Volcano's by their phase."""

from collections.abc import Mapping

from workers.api.kinds import JOB, VC_JOB, Kind, Object
from workers.controllers import conditions

#: Volcano's phases that nothing follows. An aborted Job may be resumed.
_PHASES: Mapping[str, str] = {"Completed": "Complete", "Failed": "Failed", "Terminated": "Terminated"}


def kind_of(job: Object) -> Kind:
    """Whose Job it is."""
    return VC_JOB if (job.get("apiVersion") or "").startswith(f"{VC_JOB.group}/") else JOB


def finished(job: Object) -> str | None:
    """How a Job ended: Complete, Failed, or Volcano's Terminated; None while it has not."""
    if kind_of(job) == JOB:
        return conditions.finished(job)
    return _PHASES.get(_state(job).get("phase") or "")


def at(job: Object) -> str | None:
    """When a finished Job ended."""
    if kind_of(job) == VC_JOB:
        return _state(job).get("lastTransitionTime")
    return (conditions.find(job, finished(job) or "") or {}).get("lastTransitionTime")


def completion(job: Object) -> str | None:
    """When a Job that succeeded completed; None for others."""
    if finished(job) != "Complete":
        return None
    return at(job) if kind_of(job) == VC_JOB else (job.get("status") or {}).get("completionTime")


def started(job: Object) -> str | None:
    """When a Job started."""
    # Volcano says nothing of it.
    start = (job.get("status") or {}).get("startTime")
    return start or (job["metadata"].get("creationTimestamp") if kind_of(job) == VC_JOB else None)


def why(job: Object) -> tuple[str, str]:
    """The reason and the message of a Job that failed."""
    told = _state(job) if kind_of(job) == VC_JOB else conditions.find(job, "Failed") or {}
    return told.get("reason") or "", told.get("message") or ""


def _state(job: Object) -> Object:
    return (job.get("status") or {}).get("state") or {}
