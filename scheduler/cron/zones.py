"""Time zones by IANA name: the names that Kubernetes' API accepts, loaded from the system's time zone data."""

import re
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from scheduler.cron.errors import ZoneError

_PART = re.compile(r"[A-Za-z._+0-9][A-Za-z._+0-9-]{,13}")


def check_zone(name: str) -> str | None:
    """Returns the API server's error message for a `timeZone`, or None."""
    try:
        zone(name)
    except ZoneError as error:
        return str(error)
    return None


def zone(name: str) -> tzinfo:
    """Returns the zone of a `timeZone` field; ``Local`` is refused as ambiguous.

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
    """Returns the zone of a ``TZ=`` prefix. An empty name and ``Local``, the zone of the process, mean UTC."""
    return UTC if name in ("", "Local") else load(name)


def load(name: str) -> tzinfo:
    """Loads the zone from the system's time zone data, which UTC does not need; raises ZoneError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        # No such file; a name that leaves the folder, or a file that holds no zone; a file that cannot be read.
        raise ZoneError(f"unknown time zone {name}") from error
