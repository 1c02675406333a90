"""The status of a CronJob or ScheduledJob, computed whole, and the Events that tell of its changes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from workers.api import times
from workers.api.kinds import Object, reference
from workers.controllers import conditions
from workers.controllers.batch.cronjob import ending
from workers.controllers.batch.cronjob.cursor import Cursor
from workers.controllers.batch.cronjob.dialect import Told
from workers.controllers.batch.cronjob.due import Settled
from workers.controllers.batch.cronjob.runs import ObservedRun
from workers.reconcile.plan import RecordEvent


@dataclass(frozen=True, slots=True)
class ScheduleReady:
    """The Ready condition of a ScheduledJob: whether runs start when they are due, and why not."""

    status: str
    reason: str
    message: str

    def render(self, observed: Object, now: datetime) -> list[Object]:
        """The conditions with this one among them; its transition time changes with its status only."""
        ready = {"type": "Ready", "status": self.status, "reason": self.reason, "message": self.message}
        condition = conditions.moved(ready, conditions.find({"status": observed}, "Ready"), now)
        others = [each for each in observed.get("conditions") or () if each.get("type") != "Ready"]
        return [condition, *others]


def common(observed: Object, active: Sequence[Object], cursor: Cursor, jobs: Iterable[Object]) -> Object:
    """The three fields that a CronJob's status has. active: unfinished Jobs. jobs: all that are there."""
    return {
        "active": references(observed, active) or None,
        "lastScheduleTime": times.render(cursor.scheduled) if cursor.scheduled else None,
        "lastSuccessfulTime": last_successful(observed, jobs),
    }


def references(observed: Object, jobs: Iterable[Object]) -> list[Object]:
    """References to Jobs, the oldest first. One that is listed already stays as it was: its version says when."""
    listed = {each.get("uid"): each for each in observed.get("active") or ()}
    ordered = sorted(jobs, key=lambda job: (job["metadata"].get("creationTimestamp", ""), job["metadata"]["name"]))
    return [listed.get(job["metadata"]["uid"]) or reference(ending.kind_of(job), job) for job in ordered]


def last_successful(observed: Object, jobs: Iterable[Object]) -> str | None:
    """The newest completion of a Job that succeeded. RFC 3339 in UTC sorts by time."""
    completions = [ending.completion(job) for job in jobs]
    return max((each for each in (observed.get("lastSuccessfulTime"), *completions) if each), default=None)


def runs(known: Iterable[ObservedRun], limit: int) -> Object:
    """The runs at work, and the newest of those that are over."""
    ordered = list(known)
    over = [run.render() for run in ordered if run.over]
    return {
        "runs": [run.render() for run in ordered if not run.over] or None,
        "outcomes": over[-limit:] if limit else None,
    }


def merged(observed: Object, computed: Object) -> Object:
    """What is to be written: fields that are not computed here stay as they were, and None is no field."""
    return {key: value for key, value in {**observed, **computed}.items() if value not in (None, [])}


def changes(observed: Object, jobs: Sequence[Object], missing: Told) -> Iterator[RecordEvent]:
    """What to tell about the Jobs that are listed as active, or should have been.

    missing: the type and the reason of what is told of a Job that is gone.
    """
    there = {job["metadata"]["uid"]: job for job in jobs}
    listed = {each.get("uid"): each for each in observed.get("active") or ()}
    for uid, job in there.items():
        how = ending.finished(job)
        if how and (uid in listed or _is_news(observed, job)):
            name = job["metadata"]["name"]
            yield RecordEvent("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {how}")
    for uid, entry in listed.items():
        known = there.get(uid)
        if known is None or (known["metadata"].get("deletionTimestamp") and not ending.finished(known)):
            yield RecordEvent(*missing, f"Active job went missing: {entry.get('name')}")


def _is_news(observed: Object, job: Object) -> bool:
    """Whether a Job succeeded before anybody saw it at work."""
    completed = ending.completion(job) or ""
    return bool(completed > (observed.get("lastSuccessfulTime") or ""))


def missed(settled: Settled, since: datetime) -> Iterator[RecordEvent]:
    """What to tell about runs that will never start."""
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
