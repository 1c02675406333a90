"""The cursor over an object's slots: up to it every run was started or missed."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from workers.api import times
from workers.api.kinds import Object

#: The newest slot whose run was missed; a CronJob's status has no field for it.
MISSED = "penstock.dev/last-missed-time"
#: The schedule of the last decision, and since when it counts if it was edited; a CronJob's status has no field for it.
OBSERVED = "penstock.dev/observed-schedule"

#: A cursor this far in the future is not waited for: no clock was set back by that much.
ABSURD = timedelta(days=1)
#: An edit of the schedule was made at most this long before the decision that finds it: a slot in between is not lost.
EDIT_LAG = timedelta(seconds=2)
#: Tolerated difference between the clocks of two machines.
SKEW = timedelta(seconds=10)

_SINCE = " since "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cursor:
    """created: of the object. scheduled: the newest slot whose run was started. missed: the newest that was not.

    edited: when the schedule was last edited; its slots before that were never due.

    anchor: the newest handled slot, from which an ``@every`` goes on; at first the object's creation. at: slots up to
    this instant are handled, or are none; at first those before the object was created.
    """

    created: datetime
    scheduled: datetime | None = None
    missed: datetime | None = None
    edited: datetime | None = None
    anchor: datetime = field(init=False)
    at: datetime = field(init=False)

    def __post_init__(self) -> None:
        handled = [moment for moment in (self.scheduled, self.missed) if moment]
        anchor = max(handled, default=self.created)
        # Of one cursor a decision asks for them a dozen times.
        object.__setattr__(self, "anchor", anchor)
        object.__setattr__(self, "at", max(anchor, self.edited) if self.edited else anchor)

    def is_ahead(self, now: datetime) -> bool:
        """True if it lies in the future by more than clocks differ."""
        return self.at != self.created and self.at > now + SKEW

    def is_absurd(self, now: datetime) -> bool:
        """True if it lies so far in the future that nothing would run for days."""
        return self.at != self.created and self.at > now + ABSURD


def observed(body: Object, *, annotated: bool) -> Cursor:
    """Reads an object's cursor. annotated: parts of it are in a CronJob's annotations, otherwise in the status."""
    metadata, status = body["metadata"], body.get("status") or {}
    created = times.parse(metadata["creationTimestamp"])
    missed = _instant((metadata.get("annotations") or {}).get(MISSED) if annotated else status.get("lastMissedTime"))
    if annotated and missed and missed < created:
        # Annotations are part of an exported manifest: it is a slot of the object that this one is a copy of.
        missed = None
    return Cursor(
        created,
        _instant(status.get("lastScheduleTime")),
        missed,
        recorded_schedule(body, annotated=annotated)[1],
    )


def recorded_schedule(body: Object, *, annotated: bool) -> tuple[str | None, datetime | None]:
    """Returns the schedule of the last decision, None before the first, and since when it counts if it was edited."""
    if not annotated:
        status = body.get("status") or {}
        return status.get("observedSchedule"), _instant(status.get("scheduleEditTime"))
    text = (body["metadata"].get("annotations") or {}).get(OBSERVED)
    schedule, _, since = (text or "").rpartition(_SINCE)
    return (schedule, edited) if schedule and (edited := _instant(since)) else (text, None)


def record_schedule(schedule: str, edited: datetime | None) -> str:
    """Returns the annotation that `recorded_schedule` reads."""
    return f"{schedule}{_SINCE}{times.render(edited)}" if edited else schedule


def _instant(text: object) -> datetime | None:
    """Reads an instant; a malformed one, or one before 1970, counts as none."""
    try:
        moment = times.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment and moment >= _EPOCH else None
