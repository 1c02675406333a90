"""Excluded times: no run of a slot in them starts."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Protocol

from scheduler import cron
from workers.api import times
from workers.api.penstock_dev.scheduledjob import Exclusion
from workers.controllers.batch.cronjob.slot_line import SlotLine
from workers.errors import UserError

ALWAYS = datetime.min.replace(tzinfo=UTC)
NEVER = datetime.max.replace(tzinfo=UTC)
#: An end from here on counts as none: sums with slots must not exceed the range of datetime.
_DISTANT = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """From start, included, to end, not included."""

    start: datetime
    end: datetime

    def around(self, moment: datetime) -> "Window | None":
        """Returns the window if the moment is in it."""
        return self if self.start <= moment < self.end else None

    def opens(self, after: datetime) -> datetime | None:
        """Returns the start if it is later than `after`."""
        return self.start if self.start > after else None


@dataclass(frozen=True, slots=True)
class ExcludedDays:
    """Whole days of a calendar in a time zone."""

    days: frozenset[date]
    zone: tzinfo

    def around(self, moment: datetime) -> Window | None:
        """Returns the day of the moment if it is excluded."""
        day = moment.astimezone(self.zone).date()
        if day not in self.days:
            return None
        return Window(self._midnight(day), self._midnight(day + timedelta(days=1)))

    def opens(self, after: datetime) -> datetime | None:
        """Returns the first midnight later than `after` that begins an excluded day."""
        today = after.astimezone(self.zone).date()
        following = min((day for day in self.days if day > today), default=None)
        return self._midnight(following) if following else None

    def _midnight(self, day: date) -> datetime:
        return datetime.combine(day, time(), self.zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Recurring:
    """A window of this length after every slot of a schedule."""

    line: SlotLine
    length: timedelta

    def around(self, moment: datetime) -> Window | None:
        """Returns the newest window that opened before the moment, if it is still open."""
        opened, _ = self.line.newest(moment - self.length, moment, 1)
        return Window(opened[0], opened[0] + self.length) if opened else None

    def opens(self, after: datetime) -> datetime | None:
        """Returns the first slot later than `after`."""
        return self.line.next(after)


class ExclusionRule(Protocol):
    """One kind of exclusion."""

    def around(self, moment: datetime) -> Window | None:
        """Returns the excluded window around this moment, or None."""
        ...

    def opens(self, after: datetime) -> datetime | None:
        """Returns when the first window that starts later than this opens, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Exclusions:
    """All exclusions of an object."""

    rules: tuple[ExclusionRule, ...] = ()

    def around(self, moment: datetime) -> Window | None:
        """Returns an excluded window around this moment, or None."""
        if not self.rules:
            return None
        return next((window for rule in self.rules if (window := rule.around(moment))), None)

    def opens(self, after: datetime) -> datetime | None:
        """Returns when the first window that starts later than this opens, or None."""
        return min((start for rule in self.rules if (start := rule.opens(after))), default=None)


def parse(
    exclusions: Iterable[Exclusion], suspended_until: str | None, zone: str | None, created: datetime
) -> Exclusions:
    """Reads the exclusions of a manifest. suspended_until: no slot before this instant. zone, created: the object's.

    Raises UserError that names the field, or cron.ZoneError for an unknown zone.
    """
    rules: list[ExclusionRule] = []
    if suspended_until:
        rules.append(Window(ALWAYS, _end("suspendUntil", suspended_until)))
    for index, exclusion in enumerate(exclusions):
        rules += _rules(exclusion, f"exclusions[{index}]", exclusion.time_zone or zone, created)
    return Exclusions(tuple(rules))


def _rules(exclusion: Exclusion, path: str, zone: str | None, created: datetime) -> Iterable[ExclusionRule]:
    if exclusion.start or exclusion.end:
        start = _instant(f"{path}.start", exclusion.start) if exclusion.start else ALWAYS
        yield Window(start, _end(f"{path}.end", exclusion.end) if exclusion.end else NEVER)
    if exclusion.dates:
        yield ExcludedDays(frozenset(_day(f"{path}.dates", text) for text in exclusion.dates), _zone(zone))
    if exclusion.schedule and exclusion.duration_seconds:
        line = SlotLine(exclusion.schedule, zone, _schedule(path, exclusion.schedule, zone), created)
        yield Recurring(line, timedelta(seconds=exclusion.duration_seconds))


def _schedule(path: str, text: str, zone: str | None) -> cron.Schedule:
    try:
        return cron.parse(text, zone=zone, seconds=True)
    except cron.ZoneError:
        raise
    except cron.CronError as error:
        raise UserError(f"spec.{path}.schedule: {error}") from None


def _zone(name: str | None) -> tzinfo:
    return cron.zone(name) if name else UTC


def _instant(field: str, text: str) -> datetime:
    try:
        return times.parse(text)
    except ValueError:
        raise UserError(f"spec.{field}: not a time with a zone as RFC 3339 has it: {text!r}") from None


def _end(field: str, text: str) -> datetime:
    moment = _instant(field, text)
    return moment if moment < _DISTANT else NEVER


def _day(field: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UserError(f"spec.{field}: not a day as YYYY-MM-DD: {text!r}") from None
