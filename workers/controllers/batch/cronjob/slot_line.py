"""One schedule with the instant that its ``@every`` counts from."""

from dataclasses import dataclass
from datetime import datetime

from scheduler import cron


@dataclass(frozen=True, slots=True)
class SlotLine:
    """One schedule of the object, or of an exclusion.

    anchor: the origin of an ``@every``; counted from any other instant its slots would shift.
    """

    text: str
    zone: str | None
    schedule: cron.Schedule
    anchor: datetime

    def next(self, after: datetime) -> datetime | None:
        """Returns the first slot later than `after`, or None."""
        return self.schedule.next(self._aligned(after))

    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        """Returns the newest `count` slots in (after, until], oldest first; and True if there are older ones."""
        if until <= after:
            return [], False
        slots, older = self.schedule.newest(self._aligned(after), until, count)
        return list(slots), older

    def _aligned(self, moment: datetime) -> datetime:
        if self.schedule.interval is None:
            return moment
        return (moment > self.anchor and self.schedule.latest(self.anchor, moment)) or self.anchor
