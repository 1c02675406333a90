"""A Job's status, computed whole within the rules the API server enforces for every writer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.batch.job.ending import JobEnding
from workers.controllers.batch.job.ledger import PodLedger
from workers.controllers.batch.job.pods import JobPods


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Unfinished pods by what they are doing."""

    active: int
    ready: int
    terminating: int

    @classmethod
    def of(cls, pods: JobPods) -> "PodCounts":
        """As observed."""
        return cls(len(pods.active), pods.ready, len(pods.terminating))

    @property
    def quiet(self) -> bool:
        """No pod is left that might still do anything."""
        return self.active == 0 and self.terminating == 0


@dataclass(frozen=True, slots=True)
class NewCondition:
    """One entry to set; a type that is not there yet is only added when it is not False."""

    type: str
    status: str
    reason: str
    message: str


def decided(ending: JobEnding) -> NewCondition:
    """The condition that says that the Job's end is decided."""
    return NewCondition(ending.target, "True", ending.reason, ending.message)


def finished(ending: JobEnding) -> NewCondition:
    """The condition that says that the Job has finished."""
    return NewCondition(ending.final, "True", ending.reason, ending.message)


def suspension(job: Object, suspended: bool) -> tuple[NewCondition, ...]:
    """The Suspended condition; a Job that never was suspended has none."""
    if suspended:
        return (NewCondition("Suspended", "True", "JobSuspended", "Job suspended"),)
    if conditions.find(job, "Suspended"):
        return (NewCondition("Suspended", "False", "JobResumed", "Job resumed"),)
    return ()


def render(
    job: Object,
    ledger: PodLedger,
    tally: PodCounts,
    started: datetime | None,
    settings: Sequence[NewCondition],
    now: datetime,
) -> Object:
    """The status to be written. started: None for a Job that has not started, or is suspended.

    Counts of zero are left out where the API server leaves them out, so that an unchanged status compares equal.
    """
    seen = job.get("status") or {}
    computed: Object = {
        "startTime": times.render(started) if started else None,
        "active": tally.active or None,
        "succeeded": ledger.succeeded or None,
        "failed": ledger.failed or None,
        "ready": tally.ready if _knows(seen, "ready") else None,
        "terminating": tally.terminating if _knows(seen, "terminating") else None,
        "completedIndexes": ledger.completed.text or None,
        "failedIndexes": None if ledger.failed_indexes is None else ledger.failed_indexes.text,
        "uncountedTerminatedPods": _uncounted(ledger) or ({} if _knows(seen, "uncountedTerminatedPods") else None),
        "conditions": _set(seen.get("conditions") or (), settings, now) or None,
    }
    if any(each.type == "Complete" for each in settings) and "completionTime" not in seen:
        computed["completionTime"] = times.render(max(now, started) if started else now)
    merged = {**seen, **computed}
    return {key: value for key, value in merged.items() if value is not None}


def _knows(seen: Object, field: str) -> bool:
    """Whether the API server keeps this field. A status that was written without it is of one that drops it."""
    return not seen or field in seen


def _uncounted(ledger: PodLedger) -> Object:
    lists = {"succeeded": list(ledger.waiting_succeeded), "failed": list(ledger.waiting_failed)}
    return {name: uids for name, uids in lists.items() if uids}


def _set(observed: Sequence[Object], settings: Sequence[NewCondition], now: datetime) -> list[Object]:
    result = list(observed)
    for each in settings:
        index = next((i for i, old in enumerate(result) if old.get("type") == each.type), None)
        if index is None:
            if each.status != "False":
                result.append(_render(each, now))
        elif (each.status, each.reason, each.message) != tuple(
            result[index].get(key) or "" for key in ("status", "reason", "message")
        ):
            result[index] = _render(each, now)
    return result


def _render(condition: NewCondition, now: datetime) -> Object:
    at = times.render(now)
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": at,
        "lastTransitionTime": at,
    }
