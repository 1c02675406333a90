"""Instants as Kubernetes writes them: RFC 3339 in UTC, whole seconds; and with milliseconds, as events have them."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime.fromtimestamp(0, UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
#: Seconds in a thousand years: a longer duration is as good as this one, and few instants overflow with it.
_LONGEST = 1000 * 366 * 86400


def parse(text: str) -> datetime:
    """Returns the instant of a timestamp, aware and in UTC; fractions of a second are kept.

    Raises ValueError for a text that is not a timestamp with a zone.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"timestamp without a zone: {text!r}")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"timestamp out of range: {text!r}") from None


def duration(seconds: int) -> timedelta:
    """Returns the duration of so many seconds, up to 2^63 - 1; of a thousand years if they are more."""
    return timedelta(seconds=min(seconds, _LONGEST))


def after(instant: datetime, delay: timedelta) -> datetime:
    """Returns the instant so much later; the last one of all if there is none."""
    try:
        return instant + delay
    except OverflowError:
        return _LAST


def of_micros(micros: float) -> datetime:
    """Returns the instant so many microseconds after the epoch; the last one of all if there is none."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return _LAST


def render(instant: datetime) -> str:
    """Returns `2026-03-01T02:00:00Z`; fractions are cut off, as the API server does."""
    return instant.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def render_precisely(instant: datetime) -> str:
    """Returns `2026-03-01T02:00:00.000Z`."""
    # Every push has one of these, and most share their second with others: isoformat() takes five times as long.
    micros = instant.microsecond
    return f"{_whole_second(round(instant.timestamp() - micros / 1e6))}.{micros // 1000:03d}Z"


@lru_cache(maxsize=64)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def instant(text: object) -> datetime | None:
    """Returns the instant that an optional field names, None for an absent or malformed one."""
    try:
        return parse(str(text or ""))
    except ValueError:
        return None
