"""The runs of a schedule on a time line: those that were, as far as anything remembers them, and the next ones.

Pure. An ended run is in the status for as long as `outcomesLimit` says, and its Job while it exists.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import takewhile

from deploy.object_rows import schedules
from deploy.object_rows.row import because, count, instant, status_of
from scheduler.cron import CronError
from workers.api import conditions, times
from workers.api.kinds import JOB, JOB_FLOW, VC_CRON_JOB, VC_JOB, Kind, Object
from workers.errors import UserError

#: Past and next runs of one answer.
MOST = 500
#: Annotations of Jobs and flows that name the slot they were created for.
_SLOTS = ("batch.kubernetes.io/cronjob-scheduled-timestamp", "volcano.sh/cronjob-scheduled-timestamp")
#: Phases of Volcano's Jobs and flows, as ends of runs.
_ENDS = {
    "Completed": "Succeeded",
    "Succeed": "Succeeded",
    "Failed": "Failed",
    "Terminated": "Failed",
    "Aborted": "Deleted",
}


def past(body: Object, children: Iterable[Object], start: datetime, end: datetime) -> list[Object]:
    """Returns the runs of the slots in [start, end], the oldest first. children: Jobs or flows that it controls."""
    status = status_of(body)
    known = [_run(each) for name in ("outcomes", "runs") for each in status.get(name) or () if isinstance(each, dict)]
    names = {each["job"] for each in known}
    known += [_child(each) for each in children if each["metadata"]["name"] not in names]
    if missed := instant(status.get("lastMissedTime")):
        ended: Object = {"job": None, "attempts": 0, "started": None, "ended": None}
        known.append({"at": missed, "state": "Missed", **ended, "reason": f"{count(status.get('missedRuns'))} in all"})
    first, last = times.render_precisely(start), times.render_precisely(end)
    inside = [each for each in known if each["at"] and first <= each["at"] <= last]
    return sorted(inside, key=lambda each: str(each["at"]))[-MOST:]


def following(kind: Kind, body: Object, now: datetime, end: datetime) -> list[str]:
    """Returns when the next runs start, until `end`; none of a suspended or invalid schedule."""
    try:
        spec, timetable, handled = schedules.timetable_of(kind, body)
        if spec.suspend:
            return []
        slots = takewhile(lambda slot: slot <= end, schedules.upcoming(timetable, handled, now))
        return [times.render_precisely(timetable.fires(slot)) for slot in _first(slots, MOST)]
    except (UserError, CronError, ValueError):
        return []  # the Ready condition says why


def _first(slots: Iterable[datetime], number: int) -> Iterator[datetime]:
    for _, slot in zip(range(number), slots, strict=False):
        yield slot


def _run(entry: Object) -> Object:
    return {
        "at": instant(entry.get("scheduledTime") or entry.get("startTime")),
        "state": str(entry.get("outcome") or "Running"),
        "job": entry.get("job"),
        "attempts": count(entry.get("attempts")) or 1,
        "started": instant(entry.get("startTime")),
        "ended": instant(entry.get("completionTime")),
        "reason": because(entry),
    }


def _child(body: Object) -> Object:
    metadata, status = body["metadata"], status_of(body)
    annotations = metadata.get("annotations") or {}
    slot = next((annotations[name] for name in _SLOTS if times.instant(annotations.get(name))), None)
    state, why = "Running", ""
    ended = status.get("completionTime")
    if phase := (status.get("state") or {}).get("phase"):
        state, why = _ENDS.get(phase, "Running"), because(status.get("state"))
    elif finished := conditions.finished(body):
        state = "Succeeded" if finished == "Complete" else "Failed"
        condition = conditions.find(body, finished) or {}
        ended = ended or condition.get("lastTransitionTime")
        why = because(condition) if state == "Failed" else ""
    started = instant(status.get("startTime") or metadata.get("creationTimestamp"))
    return {
        "at": instant(slot) or started,
        "state": state,
        "job": metadata["name"],
        "attempts": 1,
        "started": started,
        "ended": instant(ended) if state != "Running" else None,
        "reason": why,
    }


def children_kind(kind: Kind) -> Kind:
    """Returns the kind of a schedule's runs."""
    return {JOB_FLOW.id: JOB_FLOW, VC_CRON_JOB.id: VC_JOB}.get(kind.id, JOB)
