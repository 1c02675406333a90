"""All schedules of one object merged into one sequence of slots, with exclusions and jitter."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b

from scheduler import cron
from workers.api.penstock_dev.scheduledjob import ScheduledJobSpec
from workers.controllers.batch.cronjob import exclusions
from workers.controllers.batch.cronjob.exclusions import NEVER, Exclusions
from workers.controllers.batch.cronjob.slot_line import SlotLine

_TICK = timedelta(microseconds=1)
#: Excluded windows that a search skips before it gives up: those of a daily schedule in three years.
MAX_SKIPPED = 1000


@dataclass(frozen=True, slots=True)
class Timetable:
    """The slots of an object; those that coincide are one. uid: of the object, which seeds the jitter."""

    lines: tuple[SlotLine, ...]
    exclusions: Exclusions
    jitter: timedelta
    uid: str

    def next(self, after: datetime) -> datetime | None:
        """Returns the first slot later than `after` that is not excluded, or None."""
        for _ in range(MAX_SKIPPED):
            slot = self._next(after)
            window = self.exclusions.around(slot) if slot else None
            if window is None:
                return slot
            if window.end == NEVER:
                return None
            after = window.end - _TICK
        return None

    def fires_without_exclusions(self, after: datetime) -> bool:
        """True if there is a slot later than `after`, excluded or not."""
        return self._next(after) is not None

    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        """Returns the newest `count` slots in (after, until], oldest first; and True if there may be older ones."""
        found: list[datetime] = []
        for _ in range(MAX_SKIPPED):
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
        """Returns when the run of this slot is due: up to the jitter later, yet before the next slot or excluded time.

        A hash of UID and slot, so equal in every process.
        """
        if not self.jitter:
            return slot
        bounds = (self._next(slot), self.exclusions.opens(slot))
        span = min((self.jitter, *(bound - slot for bound in bounds if bound)))
        share = blake2b(f"{self.uid}/{slot.timestamp():.0f}".encode(), digest_size=8).digest()
        return slot + timedelta(microseconds=(span // _TICK * int.from_bytes(share)) >> 64)

    def line(self, slot: datetime) -> SlotLine:
        """Returns the first schedule that names this slot."""
        if len(self.lines) == 1:
            return self.lines[0]
        return next((line for line in self.lines if line.next(slot - _TICK) == slot), self.lines[0])

    def _next(self, after: datetime) -> datetime | None:
        if len(self.lines) == 1:
            return self.lines[0].next(after)
        return min((slot for line in self.lines if (slot := line.next(after))), default=None)

    def _newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        if len(self.lines) == 1:
            return self.lines[0].newest(after, until, count)
        answers = [line.newest(after, until, count) for line in self.lines]
        slots = sorted({slot for found, _ in answers for slot in found})
        return slots[-count:], len(slots) > count or any(older for _, older in answers)


def schedules(spec: ScheduledJobSpec) -> list[tuple[str, str | None]]:
    """Returns the text and the time zone of every schedule of a manifest; None for UTC."""
    single = [(spec.schedule, spec.time_zone)] if spec.schedule else []
    return [*single, *((each.schedule, each.time_zone or spec.time_zone) for each in spec.schedules or ())]


def of(spec: ScheduledJobSpec, *, uid: str, seconds: bool, created: datetime, since: datetime) -> Timetable:
    """Builds the timetable of a manifest.

    seconds: six fields are allowed. since: the newest handled slot, or `created`: as in Kubernetes an ``@every``
    continues from it. Among several schedules it counts from `created`, as slots of the others would shift it, and
    so it does in an exclusion.
    Raises cron.CronError (ZoneError for an unknown zone), or UserError that names an exclusion's field.
    """
    wanted = schedules(spec)
    anchor = since if len(wanted) == 1 else created
    lines = tuple(SlotLine(text, zone, cron.parse(text, zone=zone, seconds=seconds), anchor) for text, zone in wanted)
    excluded = exclusions.parse(spec.exclusions, spec.suspend_until, spec.time_zone, created)
    return Timetable(lines, excluded, timedelta(seconds=spec.jitter_seconds), uid)
