"""The attribute `notbefore` of an event: no Job of it is created before this instant."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from workers.api import times

NAME = "notbefore"
#: The latest instant, counted from the event's arrival: an event that is never due keeps its place in the channel.
LONGEST = timedelta(days=366)


def of(event: Mapping[str, str], arrived: datetime) -> datetime | None:
    """Returns the instant, aware and in UTC; None without one. Raises ValueError for one that is none or too late."""
    text = event.get(NAME)
    if text is None:
        return None
    try:
        found = times.parse(text)
    except ValueError:
        raise ValueError(f"{text[:64]!r} is no RFC 3339 instant") from None
    if found - arrived > LONGEST:
        raise ValueError(f"{text[:64]!r} is more than {LONGEST.days} days after the event's arrival")
    return found
