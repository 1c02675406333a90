"""The ends of Jobs: batch/v1 shows them as conditions, Volcano as a phase."""

from collections.abc import Mapping

from workers.api import conditions
from workers.api.kinds import JOB, VC_JOB, Kind, Object

#: Volcano's final phases. An aborted Job may be resumed.
_PHASES: Mapping[str, str] = {"Completed": "Complete", "Failed": "Failed", "Terminated": "Terminated"}


def kind_of(job: Object) -> Kind:
    """Returns batch/v1 Job or Volcano's Job."""
    return VC_JOB if (job.get("apiVersion") or "").startswith(f"{VC_JOB.group}/") else JOB


def finished(job: Object) -> str | None:
    """Returns Complete, Failed, or Volcano's Terminated; None for an unfinished Job."""
    if kind_of(job) == JOB:
        return conditions.finished(job)
    return _PHASES.get(_state(job).get("phase") or "")


def at(job: Object) -> str | None:
    """Returns when a finished Job ended."""
    if kind_of(job) == VC_JOB:
        return _state(job).get("lastTransitionTime")
    return (conditions.find(job, finished(job) or "") or {}).get("lastTransitionTime")


def completion(job: Object) -> str | None:
    """Returns when a Job that succeeded completed; None for others."""
    if finished(job) != "Complete":
        return None
    return at(job) if kind_of(job) == VC_JOB else (job.get("status") or {}).get("completionTime")


def started(job: Object) -> str | None:
    """Returns when a Job started; Volcano records no start, so its creation counts."""
    start = (job.get("status") or {}).get("startTime")
    return start or (job["metadata"].get("creationTimestamp") if kind_of(job) == VC_JOB else None)


def why(job: Object) -> tuple[str, str]:
    """Returns the reason and the message of a failed Job."""
    state = _state(job) if kind_of(job) == VC_JOB else conditions.find(job, "Failed") or {}
    return state.get("reason") or "", state.get("message") or ""


def _state(job: Object) -> Object:
    return (job.get("status") or {}).get("state") or {}
