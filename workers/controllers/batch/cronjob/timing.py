"""Whether an object's schedules can be followed, and what to tell when they cannot."""

from dataclasses import dataclass
from datetime import datetime

from scheduler import cron
from workers.controllers.batch.cronjob import timetable
from workers.controllers.batch.cronjob.cursor import Cursor
from workers.controllers.batch.cronjob.observed import ObservedSchedule
from workers.controllers.batch.cronjob.timetable import Timetable
from workers.errors import UserError


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why no run starts by the clock. reason: of a ScheduledJob's condition. event: None when nothing is wrong."""

    reason: str
    message: str
    event: str | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """The timetable, and the first of its slots that is not handled yet."""

    table: Timetable
    first: datetime


SUSPENDED = Trouble("Suspended", "suspended: no run starts but those that are asked for")


def of(sight: ObservedSchedule, cursor: Cursor) -> Timing | Trouble:
    """When runs are due, or why never. In Kubernetes' order: the zone, suspension, the schedule."""
    try:
        for name in _zones(sight):
            cron.zone(name)
    except cron.ZoneError as error:
        return Trouble("UnknownTimeZone", f"invalid timeZone: {error}", sight.dialect.zone)
    if sight.spec.suspend:
        return SUSPENDED
    try:
        table = timetable.of(
            sight.spec,
            uid=sight.owner.uid,
            seconds=not sight.is_cron_job,
            created=cursor.created,
            since=cursor.at,
        )
    except cron.CronError as error:
        message = f"unparseable schedule: {_texts(sight)}: {error}"
        return Trouble("UnparseableSchedule", message, sight.dialect.unparseable)
    except UserError as error:
        return Trouble("InvalidSpec", str(error), "InvalidSpec")
    if (first := table.next(cursor.at)) is None:
        why = _excluded(sight) if table.fires_without_exclusions(cursor.at) else ""
        return Trouble("NeverFires", f"invalid schedule: {_texts(sight)}: it never fires{why}", "InvalidSchedule")
    return Timing(table, first)


def _excluded(sight: ObservedSchedule) -> str:
    """The fields that keep a schedule from firing."""
    spec = sight.spec
    fields = [*(["spec.exclusions"] if spec.exclusions else []), *(["spec.suspendUntil"] if spec.suspend_until else [])]
    return f": {' and '.join(fields)} {'excludes' if len(fields) == 1 else 'exclude'} every slot that was looked at"


def _zones(sight: ObservedSchedule) -> list[str]:
    """All zones that the object names."""
    spec = sight.spec
    named = [spec.time_zone]
    named += [each.time_zone for each in spec.schedules or ()]
    named += [each.time_zone for each in spec.exclusions]
    return [zone for zone in named if zone is not None]


def _texts(sight: ObservedSchedule) -> str:
    texts = [sight.spec.schedule, *(each.schedule for each in sight.spec.schedules or ())]
    return ", ".join(repr(text) for text in texts if text)
