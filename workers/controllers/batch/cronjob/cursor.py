"""The cursor over an object's slots: up to it every run was started or missed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from workers.api import times
from workers.api.kinds import Object

#: The newest slot whose run was missed; a CronJob's status has no field for it.
MISSED = "penstock.dev/last-missed-time"

#: A cursor this far in the future is not waited for: no clock was set back by that much.
ABSURD = timedelta(days=1)
#: Tolerated difference between the clocks of two machines.
SKEW = timedelta(seconds=10)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cursor:
    """created: of the object. scheduled: the newest slot whose run was started. missed: the newest that was not."""

    created: datetime
    scheduled: datetime | None = None
    missed: datetime | None = None

    @property
    def at(self) -> datetime:
        """Slots up to this instant are handled; at first those before the object was created."""
        return max((slot for slot in (self.scheduled, self.missed) if slot), default=self.created)

    def is_ahead(self, now: datetime) -> bool:
        """True if it lies in the future by more than clocks differ."""
        return self.at != self.created and self.at > now + SKEW

    def is_absurd(self, now: datetime) -> bool:
        """True if it lies so far in the future that nothing would run for days."""
        return self.at != self.created and self.at > now + ABSURD


def observed(body: Object, *, annotated: bool) -> Cursor:
    """Reads an object's cursor. annotated: the missed slot is in a CronJob's annotation, otherwise in the status."""
    metadata, status = body["metadata"], body.get("status") or {}
    missed = (metadata.get("annotations") or {}).get(MISSED) if annotated else status.get("lastMissedTime")
    return Cursor(
        times.parse(metadata["creationTimestamp"]), _instant(status.get("lastScheduleTime")), _instant(missed)
    )


def _instant(text: object) -> datetime | None:
    """Reads an instant; a malformed one, or one before 1970, counts as none."""
    try:
        moment = times.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment and moment >= _EPOCH else None
