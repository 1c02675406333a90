"""A Job's status, computed whole within the API server's rules, and the Events and metrics of its changes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api import conditions, times
from workers.api.kinds import Object
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.observed import ObservedBatchJob, PodLedger
from workers.controllers.batch.job.pods import JobPods
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.decision.plan import CountMetric, PatchStatus, RecordEvent, Step

_TOO_MANY = "Too many succeeded pods running after completion count reached"
_RESULTS = {"Complete": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Numbers of unfinished pods."""

    active: int
    ready: int
    terminating: int

    @classmethod
    def of(cls, pods: JobPods) -> "PodCounts":
        """Counts the observed pods."""
        return cls(len(pods.active), pods.ready, len(pods.terminating))

    @property
    def none_left(self) -> bool:
        """True if every pod has finished."""
        return self.active == 0 and self.terminating == 0


@dataclass(frozen=True, slots=True)
class NewCondition:
    """A condition to set."""

    type: str
    status: str
    reason: str
    message: str


def suspension(job: Object, suspended: bool) -> tuple[NewCondition, ...]:
    """Returns the Suspended condition; none for a Job that was never suspended."""
    if suspended:
        return (NewCondition("Suspended", "True", "JobSuspended", "Job suspended"),)
    if conditions.find(job, "Suspended"):
        return (NewCondition("Suspended", "False", "JobResumed", "Job resumed"),)
    return ()


def render(
    job: Object,
    ledger: PodLedger,
    counts: PodCounts,
    started: datetime | None,
    changes: Sequence[NewCondition],
    now: datetime,
) -> Object:
    """Returns the status to write. started: None for a Job that has not started, or is suspended.

    Counts of zero are left out where the API server leaves them out, so that an unchanged status compares equal.
    """
    before = job.get("status") or {}
    computed: Object = {
        "startTime": times.render(started) if started else None,
        "active": counts.active or None,
        "succeeded": ledger.succeeded or None,
        "failed": ledger.failed or None,
        "ready": counts.ready if _is_kept(before, "ready") else None,
        "terminating": counts.terminating if _is_kept(before, "terminating") else None,
        "completedIndexes": ledger.completed.text or None,
        "failedIndexes": None if ledger.failed_indexes is None else ledger.failed_indexes.text,
        "uncountedTerminatedPods": _uncounted(ledger) or ({} if _is_kept(before, "uncountedTerminatedPods") else None),
        "conditions": _set(before.get("conditions") or (), changes, now) or None,
    }
    if any(each.type == "Complete" for each in changes) and "completionTime" not in before:
        computed["completionTime"] = times.render(max(now, started) if started else now)
    merged = {**before, **computed}
    return {key: value for key, value in merged.items() if value is not None}


def write(spec: BatchJobSpec, before: Object, after: Object) -> Iterator[Step]:
    """Writes a status, and records the Events and metrics of its changes."""
    yield PatchStatus(after)
    yield from _events(spec, before, after)
    yield from _metrics(spec, before, after)


def failures_handled(observed: ObservedBatchJob, released: Sequence[Object]) -> Iterator[CountMetric]:
    """Counts the actions of the pod failure policy on the pods that are released."""
    recorded = set(observed.ledger.uncounted_failed)
    uids = [pod["metadata"]["uid"] for pod in released]
    verdicts = (observed.verdicts.get(uid) for uid in uids if uid not in recorded)
    for action, number in Counter(each.action for each in verdicts if each and each.action).items():
        yield CountMetric("pod_failures_handled", number, (action,))


def _is_kept(before: Object, field: str) -> bool:
    """True if the API server keeps this field: a status written without it is of a server that drops it."""
    return not before or field in before


def _uncounted(ledger: PodLedger) -> Object:
    lists = {"succeeded": list(ledger.uncounted_succeeded), "failed": list(ledger.uncounted_failed)}
    return {name: uids for name, uids in lists.items() if uids}


def _set(observed: Sequence[Object], changes: Sequence[NewCondition], now: datetime) -> list[Object]:
    result = list(observed)
    for each in changes:
        index = next((i for i, old in enumerate(result) if old.get("type") == each.type), None)
        if index is None:
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


def _events(spec: BatchJobSpec, before: Object, after: Object) -> Iterator[RecordEvent]:
    """Yields the Events of the conditions that change."""
    for each in after.get("conditions") or ():
        if conditions.status_of({"status": before}, each["type"]) == each["status"]:
            continue
        match each["type"]:
            case "Suspended":
                yield RecordEvent("Normal", each["reason"].removeprefix("Job"), each["message"])
            case "Failed":
                yield RecordEvent("Warning", each["reason"], each["message"])
            case "Complete":
                wanted, succeeded = spec.completions, after.get("succeeded", 0)
                if wanted is not None and succeeded > wanted:
                    yield RecordEvent("Warning", "TooManySucceededPods", _TOO_MANY)
                yield RecordEvent("Normal", "Completed", "Job completed")


def _metrics(spec: BatchJobSpec, before: Object, after: Object) -> Iterator[CountMetric]:
    """Yields the increases between two statuses of a Job that had not finished."""
    mode = "Indexed" if spec.indexed else "NonIndexed"
    for type_, result in _RESULTS.items():
        ended = conditions.find({"status": after}, type_)
        if ended and ended["status"] == "True":
            yield CountMetric("jobs_finished", labels=(mode, result, ended.get("reason") or ""))
        if (more := after.get(result, 0) - before.get(result, 0)) > 0:
            yield CountMetric("job_pods_finished", more, (mode, result))
    limit = "perIndex" if spec.per_index else "global"
    for field, result in (("completedIndexes", "succeeded"), ("failedIndexes", "failed")):
        if (more := len(Indexes.parse(after.get(field))) - len(Indexes.parse(before.get(field)))) > 0:
            yield CountMetric("job_finished_indexes", more, (result, limit))
