"""The fields of a schedule: their grammar, and their values as bit sets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.cron.errors import CronError

_INTEGER = re.compile(r"[+-]?[0-9]+")
#: Integers from here on exceed Go's int; no field allows them.
_HUGE = 2**63


@dataclass(frozen=True, slots=True)
class DayField:
    """Days of the month or of the week.

    bits: bit n is set if day n is named. star: the field is ``*`` or ``?``, which differs from naming every day (see
    `stepping.days`).
    """

    bits: int
    star: bool


@dataclass(frozen=True, slots=True)
class CronFields:
    """A schedule's fields; bit n of a set is set if the field names the value n."""

    second: int
    minute: int
    hour: int
    day: DayField
    month: int
    weekday: DayField

    def time(self, second: int) -> int | None:
        """Returns the first time of day at or after this one, both in seconds of the day; None if none is left."""
        hour, minute = second // 3600, second // 60 % 60
        if self.hour >> hour & 1:
            if self.minute >> minute & 1 and (later := self.second >> second % 60):
                return second + lowest(later)
            if later := self.minute >> minute + 1:
                return hour * 3600 + (minute + 1 + lowest(later)) * 60 + lowest(self.second)
        if later := self.hour >> hour + 1:
            return (hour + 1 + lowest(later)) * 3600 + lowest(self.minute) * 60 + lowest(self.second)
        return None


def lowest(bits: int) -> int:
    """Returns the number of the lowest set bit; at least one must be set."""
    return (bits & -bits).bit_length() - 1


@dataclass(frozen=True, slots=True)
class _Field:
    """The values that a field allows, some of them also by name."""

    low: int
    high: int
    names: Mapping[str, int]


def _names(listed: str, first: int) -> dict[str, int]:
    return {name: value for value, name in enumerate(listed.split(), first)}


_SIXTY = _Field(0, 59, {})
_HOUR = _Field(0, 23, {})
_DAY = _Field(1, 31, {})
_MONTH = _Field(1, 12, _names("jan feb mar apr may jun jul aug sep oct nov dec", 1))
_WEEKDAY = _Field(0, 6, _names("sun mon tue wed thu fri sat", 0))


def read(second: str, minute: str, hour: str, day: str, month: str, weekday: str) -> CronFields:
    """Reads the texts of the fields; raises CronError for the first malformed one."""
    return CronFields(
        second=_read(second, _SIXTY).bits,
        minute=_read(minute, _SIXTY).bits,
        hour=_read(hour, _HOUR).bits,
        day=_read(day, _DAY),
        month=_read(month, _MONTH).bits,
        weekday=_read(weekday, _WEEKDAY),
    )


def _read(text: str, field: _Field) -> DayField:
    """Reads a list of items; empty ones are ignored, and a list of only empty ones names no value."""
    items = [_item(item, field) for item in text.split(",") if item]
    bits = 0
    for item in items:
        bits |= item.bits
    return DayField(bits, any(item.star for item in items))


def _item(item: str, field: _Field) -> DayField:
    span, *steps = item.split("/")
    low, *highs = span.split("-")
    star = low in ("*", "?")
    # As in Kubernetes, text between a star's hyphen and its step is ignored.
    if star:
        start, end = field.low, field.high
    elif len(highs) > 1:
        _value(low, field)
        raise CronError(f"too many hyphens: {item}")
    else:
        start = _value(low, field)
        end = _value(highs[0], field) if highs else start
    if len(steps) > 1:
        raise CronError(f"too many slashes: {item}")
    step = _integer(steps[0]) if steps else 1
    if steps and not highs:
        end = field.high
    _check(item, field, start, end, step)
    return DayField(sum(1 << value for value in range(start, end + 1, step)), star and step == 1)


def _check(item: str, field: _Field, start: int, end: int, step: int) -> None:
    if start < field.low:
        raise CronError(f"beginning of range ({start}) below minimum ({field.low}): {item}")
    if end > field.high:
        raise CronError(f"end of range ({end}) above maximum ({field.high}): {item}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {item}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {item}")


def _value(text: str, field: _Field) -> int:
    named = field.names.get(text.lower())
    return _integer(text) if named is None else named


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > len(str(_HUGE)) or int(digits) >= _HUGE:
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if text[0] == "-" and digits != "0":
        raise CronError(f"negative number (-{digits}) not allowed: {text}")
    return int(digits)
