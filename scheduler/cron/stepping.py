"""The search for the first slot: Kubernetes' procedure, step by step where clocks change, in jumps elsewhere.

The procedure checks month, day, hour, minute and second in turn, steps the first that does not fit to its next value,
and starts over whenever a step carries. Where a step meets a clock change its results are peculiar (whole days can be
skipped) and known to Kubernetes' users, so they are reproduced exactly. Elsewhere one jump replaces many steps.
"""

from bisect import bisect_right
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import takewhile

from croniter import croniter

from scheduler.cron.clock_changes import DAY, EPOCH, HOUR, MINUTE, Clocks
from scheduler.cron.fields import CronFields, DayField, lowest

#: Calendar years that the search covers after the year of its start.
HORIZON = 5
#: Bound of the carries of one search, for zones in which the procedure would never end.
_CARRIES = 100_000
_EPOCH_DAY = EPOCH.toordinal()
#: Bits 1 to 31.
_EVERY_DAY = 2**32 - 2
_SECOND = timedelta(seconds=1)


def first(fields: CronFields, clocks: Clocks, instant: int) -> int | None:
    """Returns the first slot at or after the instant, or None if there is none in this year and the five after it."""
    if not (fields.second and fields.minute and fields.hour and fields.month):
        return None
    return _Search(fields, clocks, instant).run()


class _Search:
    """One search. instant: the present candidate. touched: it was rounded down, which happens once, before any step."""

    def __init__(self, fields: CronFields, clocks: Clocks, instant: int) -> None:
        self.fields = fields
        self.clocks = clocks
        self.instant = instant
        self.touched = False

    def run(self) -> int | None:
        limit = self._wall()[0].year + HORIZON
        for _ in range(_CARRIES):
            if self._wall()[0].year > limit:
                return None
            if self._months() and self._days() and self._times():
                return self.instant
        return None

    # Every stage returns True if its field fits now; otherwise a step carried, and the search starts over.

    def _months(self) -> bool:
        today, second = self._wall()
        while not self.fields.month >> today.month & 1:
            self._round(today.replace(day=1))
            today, second = self._wall()
            self._go(self._next_month(today, second), second)
            today, second = self._wall()
            if today.month == 1:
                return False
        return True

    def _next_month(self, today: date, second: int) -> date:
        """Returns the first of the next fitting month, or of January; near a clock change the same day next month."""
        later = self.fields.month >> today.month + 1
        month = today.month + 1 + lowest(later) if later else 13
        target = date(today.year + month // 13, (month - 1) % 12 + 1, 1)
        if today.day == 1 and not second and self._even(today, target):
            return target
        following = date(today.year + today.month // 12, today.month % 12 + 1, 1)
        return following + timedelta(days=today.day - 1)

    def _days(self) -> bool:
        today, second = self._wall()
        while not (named := days(self.fields.day, self.fields.weekday, today.year, today.month)) >> today.day & 1:
            self._round(today)
            today, second = self._wall()
            self._go(self._next_day(today, second, named), second)
            self._to_midnight()
            today, second = self._wall()
            if today.day == 1:
                return False
        return True

    def _next_day(self, today: date, second: int, named: int) -> date:
        """Returns the next fitting day of the month, or the first of the next; near a clock change tomorrow."""
        later = named >> today.day + 1
        ahead = 1 + lowest(later) if later else shape(today.year, today.month)[1] + 1 - today.day
        target = today + timedelta(days=ahead)
        return target if not second and self._even(today, target) else today + timedelta(days=1)

    def _to_midnight(self) -> None:
        """Moves from a day that does not begin at midnight to the next midnight, or back to the one before."""
        hour = self._wall()[1] // HOUR
        self.instant += (24 - hour if hour > 12 else -hour) * HOUR

    def _times(self) -> bool:
        index = self.clocks.index(self.instant)
        low, high = self.clocks.plain[index]
        wall = self.instant + self.clocks.offsets[index]
        second = wall % DAY
        if wall - wall % HOUR < low or wall - second + DAY >= high or (self.touched and second % HOUR):
            return self._hours() and self._minutes() and self._seconds()
        # No clock change from this hour to the next midnight: every step would lead to a whole hour or minute.
        time = self.fields.time(second)
        self.instant += (DAY if time is None else time) - second
        return time is not None

    def _hours(self) -> bool:
        while not self.fields.hour >> (hour := self._wall()[1] // HOUR) & 1:
            self._round(self._wall()[0], hour * HOUR)
            self.instant += HOUR
            if self._wall()[1] < HOUR:
                return False
        return True

    def _minutes(self) -> bool:
        while not self.fields.minute >> self._wall()[1] % HOUR // MINUTE & 1:
            if not self.touched:
                self.touched = True
                self.instant -= self.instant % MINUTE
            self.instant += MINUTE
            if self._wall()[1] % HOUR < MINUTE:
                return False
        return True

    def _seconds(self) -> bool:
        while not self.fields.second >> self._wall()[1] % MINUTE & 1:
            self.touched = True
            self.instant += 1
            if self._wall()[1] % MINUTE == 0:
                return False
        return True

    def _wall(self) -> tuple[date, int]:
        """Returns the local date and the second of the day."""
        clocks = self.clocks
        day, second = divmod(self.instant + clocks.offsets[clocks.index(self.instant)], DAY)
        return date.fromordinal(_EPOCH_DAY + day), second

    def _round(self, today: date, second: int = 0) -> None:
        if not self.touched:
            self.touched = True
            self.instant = self.clocks.instant(_wall(today) + second)

    def _go(self, target: date, second: int) -> None:
        """Moves to this time of a later day, past days that the zone skipped altogether."""
        wall = _wall(target) + second
        instant = self.clocks.instant(wall)
        while instant <= self.instant:
            wall += DAY
            instant = self.clocks.instant(wall)
        self.instant = instant

    def _even(self, today: date, target: date) -> bool:
        """True if every day after today, up to the target, has exactly one midnight."""
        odd = self.clocks.odd
        return not odd or bisect_right(odd, _day(today)) == bisect_right(odd, _day(target))


def _day(day: date) -> int:
    return day.toordinal() - _EPOCH_DAY


def _wall(day: date) -> int:
    return _day(day) * DAY


@lru_cache(maxsize=4096)
def shape(year: int, month: int) -> tuple[int, int]:
    """Returns the first weekday of a month and its number of days."""
    return monthrange(year, month)


def days(day: DayField, weekday: DayField, year: int, month: int) -> int:
    """Returns the days of this month that both fields together name, as bits 1 to 31.

    If either field is a star, a day must be in both; otherwise being in either is enough.
    """
    if day.star and weekday.star:
        return _EVERY_DAY & (2 << shape(year, month)[1]) - 1
    return _of_shape(day, weekday, *shape(year, month))


@lru_cache(maxsize=28 * 1024)
def _of_shape(day: DayField, weekday: DayField, first: int, length: int) -> int:
    either = not day.star and not weekday.star
    if not (day.bits or (either and weekday.bits)) or not (weekday.bits or (either and day.bits)):
        return 0
    return _ask(_text(day, 31), _text(weekday, 6), *_example(first, length))


def _text(field: DayField, high: int) -> str:
    """Renders the field as plain numbers; an empty one as a star (`_of_shape` handles two empty fields)."""
    if field.star or not field.bits:
        return "*"
    return ",".join(str(value) for value in range(high + 1) if field.bits >> value & 1)


def _example(first: int, length: int) -> tuple[int, int]:
    """Returns a month of this shape; 28 years contain all shapes."""
    return next(
        (year, month) for year in range(2001, 2029) for month in range(1, 13) if shape(year, month) == (first, length)
    )


def _ask(day: str, weekday: str, year: int, month: int) -> int:
    begin = datetime(year, month, 1, tzinfo=UTC)
    dates = croniter(f"0 0 {day} * {weekday}", begin - _SECOND, ret_type=datetime)
    inside = takewhile(lambda date: (date.year, date.month) == (year, month), dates)
    return sum(1 << date.day for date in inside)
