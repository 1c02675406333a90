"""The days of a month that a schedule names, by croniter, once per shape of month.

croniter and Kubernetes agree on dates in UTC, given plain lists of numbers: UTC has no clock changes, and no grammar is
left to interpret. An answer costs tens of microseconds and is cached by the month's shape, of which there are 28.
"""

from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import takewhile

from croniter import croniter

from scheduler.cron.fields import DayField

#: Bits 1 to 31.
_EVERY_DAY = 2**32 - 2
_SECOND = timedelta(seconds=1)


@lru_cache(maxsize=4096)
def shape(year: int, month: int) -> tuple[int, int]:
    """Returns a month's first weekday and its number of days."""
    return monthrange(year, month)


def days(day: DayField, weekday: DayField, year: int, month: int) -> int:
    """Returns the days of this month that the two fields name, as bits 1 to 31.

    If either field has the star, a day must be in both; otherwise in one of them.
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
    """Returns the field as plain numbers; an empty one as the star, because `_of_shape` excludes two empty ones."""
    if field.star or not field.bits:
        return "*"
    return ",".join(str(value) for value in range(high + 1) if field.bits >> value & 1)


def _example(first: int, length: int) -> tuple[int, int]:
    """Returns a month of this shape; 28 years have them all."""
    return next(
        (year, month) for year in range(2001, 2029) for month in range(1, 13) if shape(year, month) == (first, length)
    )


def _ask(day: str, weekday: str, year: int, month: int) -> int:
    begin = datetime(year, month, 1, tzinfo=UTC)
    dates = croniter(f"0 0 {day} * {weekday}", begin - _SECOND, ret_type=datetime)
    inside = takewhile(lambda date: (date.year, date.month) == (year, month), dates)
    return sum(1 << date.day for date in inside)
