"""Ages and durations as tables show them: short, and coarser the longer they are."""

from datetime import datetime, timedelta
from typing import Any

from workers.api import times

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human(elapsed: timedelta) -> str:
    """``45s``, ``3m20s``, ``17m``, ``5h3m``, ``26h``, ``5d4h``, ``120d``, ``3y20d``; ``<invalid>`` below zero."""
    seconds = int(elapsed.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    for limit, unit, part, names in (
        (10 * _MINUTE, _MINUTE, 1, "ms"),
        (3 * _HOUR, _MINUTE, 0, "m"),
        (8 * _HOUR, _HOUR, _MINUTE, "hm"),
        (2 * _DAY, _HOUR, 0, "h"),
        (8 * _DAY, _DAY, _HOUR, "dh"),
        (2 * _YEAR, _DAY, 0, "d"),
        (8 * _YEAR, _YEAR, _DAY, "yd"),
    ):
        if seconds < limit:
            whole, rest = divmod(seconds, unit)
            smaller = rest // part if part else 0
            return f"{whole}{names[0]}{smaller}{names[1]}" if smaller else f"{whole}{names[0]}"
    return f"{seconds // _YEAR}y"


def age(text: Any, now: datetime) -> str:
    """Returns the time since an instant of an object; ``<unknown>`` without one, ``<invalid>`` for any other text."""
    if not isinstance(text, str) or not text:
        return "<unknown>"
    try:
        return human(now - times.parse(text))
    except (ValueError, OverflowError):
        return "<invalid>"
