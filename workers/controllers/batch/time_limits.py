"""Durations that manifests allow: whole seconds, up to 2^63 - 1."""

from datetime import timedelta

#: Seconds in a thousand years: a longer duration is as good as this one, and no instant overflows with it.
_LONGEST = 1000 * 366 * 86400


def of(seconds: int) -> timedelta:
    """Returns the duration of so many seconds; of a thousand years if they are more."""
    return timedelta(seconds=min(seconds, _LONGEST))
