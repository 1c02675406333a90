"""Durations in Go's format (``1h30m``, ``2.5s``), as ``@every`` uses them."""

import re
from datetime import timedelta

from scheduler.cron.errors import CronError

_SECOND = 10**9
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART = re.compile(r"(?P<whole>[0-9]*)(?P<point>\.?)(?P<fraction>[0-9]*)(?P<unit>[^0-9.]*)")
_LARGEST = 2**63 - 1


def interval(text: str) -> timedelta:
    """Returns the interval of ``@every``: truncated to whole seconds, at least one.

    Raises CronError for a malformed duration, or one of more than 292 years.
    """
    return timedelta(seconds=max(1, _nanoseconds(text) // _SECOND))


def duration(text: str) -> timedelta:
    """Returns the duration, truncated to microseconds.

    Raises CronError for a malformed duration, or one of more than 292 years.
    """
    return timedelta(microseconds=_nanoseconds(text) // 1000)


def _nanoseconds(text: str) -> int:
    negative, unsigned = text[:1] == "-", text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0
    if not unsigned:
        raise CronError(f'time: invalid duration "{text}"')
    total = position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        if part is None or not part["whole"] + part["fraction"]:
            raise CronError(f'time: invalid duration "{text}"')
        total += _part(part, text)
        position = part.end()
        if total > _LARGEST:
            raise CronError(f'time: invalid duration "{text}"')
    return -total if negative else total


def _part(part: re.Match[str], text: str) -> int:
    """Returns one number with its unit in nanoseconds; fraction digits beyond the eighteenth are ignored, as in Go."""
    if not part["unit"]:
        raise CronError(f'time: missing unit in duration "{text}"')
    if part["unit"] not in _UNITS:
        raise CronError(f'time: unknown unit "{part["unit"]}" in duration "{text}"')
    unit, whole = _UNITS[part["unit"]], part["whole"].lstrip("0") or "0"
    if len(whole) > len(str(_LARGEST)):
        raise CronError(f'time: invalid duration "{text}"')
    return int(whole) * unit + int(part["fraction"][:18].ljust(18, "0")) * unit // 10**18
