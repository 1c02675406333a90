"""Objects that have a schedule, of any kind: their timetables and the slots to come."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from workers.api.kinds import CRON_JOB, JOB_FLOW, SCHEDULED_JOB, VC_CRON_JOB, Kind, Object

if TYPE_CHECKING:
    from workers.api.penstock_dev.scheduledjob import ScheduledJobSpec
    from workers.controllers.batch.cronjob.timetable import Timetable


def by_the_clock(kind: Kind, body: Object) -> bool:
    """Returns True if the object has a schedule."""
    if kind.id == JOB_FLOW.id:
        return bool((body.get("spec") or {}).get("schedule"))
    return kind.id in (SCHEDULED_JOB.id, CRON_JOB.id, VC_CRON_JOB.id)


def timetable_of(kind: Kind, body: Object) -> tuple["ScheduledJobSpec", "Timetable", datetime]:
    """Returns spec, slots, and the time up to which slots are handled. Raises UserError or CronError if invalid."""
    from workers.controllers.batch.cronjob import cursor, timetable

    spec = _spec(kind, body)
    handled = cursor.observed(body, annotated=kind.id != SCHEDULED_JOB.id)
    found = timetable.of(
        spec,
        uid=body["metadata"].get("uid", ""),
        seconds=kind.id == SCHEDULED_JOB.id,
        created=handled.created,
        since=handled.anchor,
    )
    return spec, found, handled.at


def _spec(kind: Kind, body: Object) -> "ScheduledJobSpec":
    """Returns the object's spec, converted to that of a ScheduledJob. Raises UserError if it is invalid."""
    from workers.api.penstock_dev import scheduledjob
    from workers.api.volcano import cronjob, jobflow

    if kind.id == VC_CRON_JOB.id:
        return cronjob.scheduled(body)
    if kind.id != JOB_FLOW.id:
        return scheduledjob.parse(body).spec
    spec = jobflow.parse(body).spec
    # model_construct, because a JobFlow has no template: its runs are copies of the flow itself.
    stands: Object = {
        "schedule": spec.schedule,
        "time_zone": spec.time_zone,
        "suspend": bool(spec.suspend or spec.cancel),
    }
    return scheduledjob.ScheduledJobSpec.model_construct(**stands)


def upcoming(timetable: "Timetable", handled: datetime, now: datetime) -> Iterator[datetime]:
    """Yields the future slots, after the last one if its jitter has not elapsed."""
    last, _ = timetable.newest(max(handled, now - timetable.jitter), now, 1)
    yield from (slot for slot in last if timetable.fires(slot) > now)
    slot = timetable.next(now)
    while slot is not None:
        yield slot
        slot = timetable.next(slot)
