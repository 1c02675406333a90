"""The status of a CronJob or ScheduledJob, computed whole, and the Events of its changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from workers.api import conditions, times
from workers.api.kinds import Object, ref_of, reference
from workers.controllers.batch.cronjob import ending
from workers.controllers.batch.cronjob.cursor import Cursor
from workers.controllers.batch.cronjob.dialect import EventType
from workers.controllers.batch.cronjob.due import Settled
from workers.controllers.batch.cronjob.runs import ObservedRun
from workers.decision.plan import Patch, RecordEvent, Together

#: The annotation of an unexpected Job whose Event was recorded, so that it is recorded once.
REPORTED = "penstock.dev/unexpected"


@dataclass(frozen=True, slots=True)
class ScheduleReady:
    """The Ready condition of a ScheduledJob: True if runs start when they are due."""

    status: str
    reason: str
    message: str

    def render(self, observed: Object, now: datetime) -> list[Object]:
        """Returns the conditions with this one first; its transition time changes with its status only."""
        ready = {"type": "Ready", "status": self.status, "reason": self.reason, "message": self.message}
        condition = conditions.moved(ready, conditions.find({"status": observed}, "Ready"), now)
        others = [each for each in observed.get("conditions") or () if each.get("type") != "Ready"]
        return [condition, *others]


def common(observed: Object, active: Sequence[Object], cursor: Cursor, jobs: Iterable[Object]) -> Object:
    """Returns the three fields of a CronJob's status. active: unfinished Jobs. jobs: all that exist."""
    return {
        "active": references(observed, active) or None,
        "lastScheduleTime": times.render(cursor.scheduled) if cursor.scheduled else None,
        "lastSuccessfulTime": last_successful(observed, jobs),
    }


def references(observed: Object, jobs: Iterable[Object]) -> list[Object]:
    """Returns references to Jobs: the listed ones as they are, then the others, the oldest first.

    Jobs of one second were listed in the order in which a plan created them, which their names need not have.
    """
    known = {job["metadata"]["uid"]: job for job in jobs}
    kept = [each for each in _active(observed) if known.pop(each["uid"], None)]
    new = sorted(
        known.values(), key=lambda job: (job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"])
    )
    return [*kept, *(reference(ending.kind_of(job), job) for job in new)]


def _active(observed: Object) -> list[Object]:
    """Returns the listed references; none for a number, which other kinds have there."""
    listed = observed.get("active")
    return [each for each in listed if each.get("uid")] if isinstance(listed, list) else []


def last_successful(observed: Object, jobs: Iterable[Object]) -> str | None:
    """Returns the newest completion of a Job that succeeded. RFC 3339 in UTC sorts by time."""
    completions = [ending.completion(job) for job in jobs]
    return max((each for each in (observed.get("lastSuccessfulTime"), *completions) if each), default=None)


def runs(known: Iterable[ObservedRun], limit: int) -> Object:
    """Returns the unfinished runs, and the newest of the finished ones."""
    ordered = list(known)
    over = [run.render() for run in ordered if run.over]
    return {
        "runs": [run.render() for run in ordered if not run.over] or None,
        "outcomes": over[-limit:] if limit else None,
    }


def merged(observed: Object, computed: Object) -> Object:
    """Returns the status to write: fields that are not computed stay unchanged, and those without a value go."""
    return {key: value for key, value in {**observed, **computed}.items() if value not in (None, [])}


def changes(observed: Object, jobs: Sequence[Object], missing: EventType) -> Iterator[RecordEvent]:
    """Yields the Events of Jobs that finished or disappeared. missing: type and reason for one that disappeared."""
    existing = {job["metadata"]["uid"]: job for job in jobs}
    listed = {each["uid"]: each for each in _active(observed)}
    for uid, job in existing.items():
        end = ending.finished(job)
        if end and (uid in listed or _is_unlisted_success(observed, job)):
            name = job["metadata"]["name"]
            yield RecordEvent("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {end}")
    for uid, entry in listed.items():
        known = existing.get(uid)
        if known is None or (known["metadata"].get("deletionTimestamp") and not ending.finished(known)):
            yield RecordEvent(*missing, f"Active job went missing: {entry.get('name')}")


def _is_unlisted_success(observed: Object, job: Object) -> bool:
    """True if the Job succeeded between two decisions, before any status listed it as active."""
    completed = ending.completion(job) or ""
    return bool(completed > (observed.get("lastSuccessfulTime") or ""))


def missed(settled: Settled, since: datetime) -> Iterator[RecordEvent]:
    """Yields the Event of runs that will never start."""
    if settled.missed and settled.through:
        last = format_datetime(settled.through)
        if settled.missed == 1 and settled.scheduled != settled.through:
            yield RecordEvent("Warning", "MissSchedule", f"Missed scheduled time to start a job: {last}")
        else:
            number = f"at least {settled.missed}" if settled.capped else str(settled.missed)
            yield RecordEvent(
                "Warning",
                "MissSchedule",
                f"Missed {number} scheduled time(s) to start a job, between {format_datetime(since)} and {last}",
            )


def report_unexpected(others: Iterable[Object], reason: str) -> list[Together]:
    """Records an Event once for each unfinished Job that the object controls and this controller did not create.

    `kubectl create job --from` makes such Jobs. As in Kubernetes, no concurrency policy counts them; history clean-up
    does. A failed annotation is left to the next decision.
    """
    new = (
        job for job in others if not ending.finished(job) and REPORTED not in (job["metadata"].get("annotations") or {})
    )
    return [
        Together(
            (
                Patch(
                    ref_of(ending.kind_of(job), job),
                    {"metadata": {"annotations": {REPORTED: "true"}}},
                    job["metadata"]["resourceVersion"],
                ),
            ),
            then=RecordEvent(
                "Warning", reason, f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
            ),
            vital=False,
        )
        for job in new
    ]
