"""Time zones by IANA name: the names that Kubernetes' API accepts, loaded from the system's data."""

import re
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from scheduler.cron.errors import ZoneError

_PART = re.compile(r"[A-Za-z._+0-9][A-Za-z._+0-9-]{,13}")


def check_zone(name: str) -> str | None:
    """Returns the error of a `timeZone` in the API server's words, or None."""
    try:
        zone(name)
    except ZoneError as error:
        return str(error)
    return None


def zone(name: str) -> tzinfo:
    """Returns the zone of a `timeZone` field; ``Local`` is refused, because each process may have another one.

    Raises ZoneError if the API's rules forbid the name or the system's time zone data does not have it.
    """
    if not name:
        raise ZoneError("timeZone must be nil or non-empty string")
    if not all(_PART.fullmatch(part) for part in name.split("/")):
        raise ZoneError(f"unknown time zone {name}")
    if name.lower() == "local":
        raise ZoneError("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    return load(name)


def prefixed(name: str) -> tzinfo:
    """Returns the zone of a ``TZ=`` prefix; no name and ``Local`` mean UTC, the zone of our processes."""
    return UTC if name in ("", "Local") else load(name)


def load(name: str) -> tzinfo:
    """Returns the zone from the system's time zone data, which UTC does not need. Raises ZoneError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        # A missing file; a name outside the folder, or a file without a zone; an unreadable file.
        raise ZoneError(f"unknown time zone {name}") from error
