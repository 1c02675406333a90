"""All schedules of one object as one row of slots: without what is excluded, and with its jitter."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from scheduler import cron
from workers.api.scheduledjob import ScheduledJobSpec
from workers.controllers.batch.cronjob import exclusions
from workers.controllers.batch.cronjob.exclusions import NEVER, Exclusions

_TICK = timedelta(microseconds=1)
#: Excluded windows that a search leaps over before it gives up: a daily schedule's for three years.
LEAPS = 1000


@dataclass(frozen=True, slots=True)
class SlotLine:
    """One schedule of the object.

    anchor: where the series of an ``@every`` begins. Asked from anywhere else it would move.
    """

    text: str
    zone: str | None
    schedule: cron.Schedule
    anchor: datetime

    def next(self, after: datetime) -> datetime | None:
        """The first slot later than `after`, or None."""
        return self.schedule.next(self._aligned(after))

    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        """The newest slots in (after, until], at most `count`, oldest first; and whether there are older ones."""
        if until <= after:
            return [], False
        slots, older = self.schedule.newest(self._aligned(after), until, count)
        return list(slots), older

    def _aligned(self, moment: datetime) -> datetime:
        if self.schedule.interval is None:
            return moment
        return (moment > self.anchor and self.schedule.latest(self.anchor, moment)) or self.anchor


@dataclass(frozen=True, slots=True)
class Timetable:
    """When runs are due. Slots that coincide are one. uid: of the object, so that equal schedules spread."""

    lines: tuple[SlotLine, ...]
    exclusions: Exclusions
    jitter: timedelta
    uid: str

    def next(self, after: datetime) -> datetime | None:
        """The first slot later than `after`; None when there is none that is not excluded."""
        for _ in range(LEAPS):
            slot = self._next(after)
            window = self.exclusions.around(slot) if slot else None
            if window is None:
                return slot
            if window.end == NEVER:
                return None
            after = window.end - _TICK
        return None

    def fires_without_exclusions(self, after: datetime) -> bool:
        """Whether there is a slot later than `after`, excluded or not."""
        return self._next(after) is not None

    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        """The newest slots in (after, until], at most `count`, oldest first; and whether there may be older ones."""
        found: list[datetime] = []
        for _ in range(LEAPS):
            slots, older = self._newest(after, until, count)
            found = [slot for slot in slots if not self.exclusions.around(slot)] + found
            if not older or len(found) >= count:
                return found[-count:], older or len(found) > count
            window = self.exclusions.around(slots[0])
            edge = window.start if window else slots[0]
            if edge <= after:
                return found, False
            until = edge - _TICK
        return found, True

    def fires(self, slot: datetime) -> datetime:
        """When the run of this slot is due: up to the jitter later, but before the next slot, so that the order stays.

        Always the same for the same slot of the same object.
        """
        if not self.jitter:
            return slot
        following = self._next(slot)
        span = min(self.jitter, following - slot) if following else self.jitter
        share = blake2b(f"{self.uid}/{slot.timestamp():.0f}".encode(), digest_size=8).digest()
        return slot + timedelta(microseconds=(span // _TICK * int.from_bytes(share)) >> 64)

    def line(self, slot: datetime) -> SlotLine:
        """The schedule that asks for this slot: the first of those that do."""
        return next((line for line in self.lines if line.next(slot - _TICK) == slot), self.lines[0])

    def _next(self, after: datetime) -> datetime | None:
        return min((slot for line in self.lines if (slot := line.next(after))), default=None)

    def _newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        if len(self.lines) == 1:
            return self.lines[0].newest(after, until, count)
        answers = [line.newest(after, until, count) for line in self.lines]
        slots = sorted({slot for found, _ in answers for slot in found})
        return slots[-count:], len(slots) > count or any(older for _, older in answers)


def of(spec: ScheduledJobSpec, *, uid: str, seconds: bool, created: datetime, since: datetime) -> Timetable:
    """The timetable of a manifest.

    seconds: whether six fields are allowed. since: the newest slot that was handled, or `created`: as in Kubernetes
    an ``@every`` goes on from there. Among several schedules it counts from `created`: slots of the others would
    move it. Raises cron.CronError (ZoneError for an unknown zone), or UserError that names an exclusion's field.
    """
    wanted = [(spec.schedule, spec.time_zone)] if spec.schedule else []
    wanted += [(each.schedule, each.time_zone or spec.time_zone) for each in spec.schedules or ()]
    anchor = since if len(wanted) == 1 else created
    lines = tuple(SlotLine(text, zone, cron.parse(text, zone=zone, seconds=seconds), anchor) for text, zone in wanted)
    excluded = exclusions.parse(spec.exclusions, spec.suspend_until, spec.time_zone)
    return Timetable(lines, excluded, timedelta(seconds=spec.jitter_seconds), uid)
