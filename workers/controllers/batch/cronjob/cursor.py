"""How far the slots of an object are handled: up to here every run was started or missed."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from workers.api import times
from workers.api.kinds import Object

#: A CronJob's status has no room for it: the newest slot whose run was missed.
MISSED = "penstock.dev/last-missed-time"

#: A cursor this far ahead is no clock that was set back: waiting for it would be no use to anybody.
ABSURD = timedelta(days=1)
#: So far the clocks of two machines may differ.
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
        """Slots up to here are handled; at first those before the object was there."""
        return max((slot for slot in (self.scheduled, self.missed) if slot), default=self.created)

    def is_ahead(self, now: datetime) -> bool:
        """Whether it lies in the future by more than clocks differ."""
        return self.at != self.created and self.at > now + SKEW

    def is_absurd(self, now: datetime) -> bool:
        """Whether it lies so far in the future that nothing would run for days."""
        return self.at != self.created and self.at > now + ABSURD


def observed(body: Object, *, annotated: bool) -> Cursor:
    """The cursor that an object carries. annotated: as a CronJob does; otherwise all of it is in the status."""
    metadata, status = body["metadata"], body.get("status") or {}
    missed = (metadata.get("annotations") or {}).get(MISSED) if annotated else status.get("lastMissedTime")
    return Cursor(
        times.parse(metadata["creationTimestamp"]), _instant(status.get("lastScheduleTime")), _instant(missed)
    )


def _instant(text: object) -> datetime | None:
    """A text that somebody else spoiled counts as none, and so does a time before there were such clocks."""
    try:
        moment = times.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment and moment >= _EPOCH else None
