"""The parser of schedules, with the order of checks and the errors of the library that Kubernetes uses."""

import re
from datetime import UTC, timedelta, tzinfo
from functools import lru_cache

from scheduler.cron import durations, zones
from scheduler.cron.errors import CronError, ZoneError
from scheduler.cron.fields import CronFields, read
from scheduler.cron.schedule import CronSchedule, Every, Schedule

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_PREFIX = re.compile(r"(?:CRON_)?TZ=(?P<zone>[^ ]*)(?P<rest> .*)?", re.DOTALL)
#: Words are separated by white space as Go defines it; ASCII's separators are white space for Python only.
_WORD = re.compile(r"[\S\x1c-\x1f]+")
_TRIMMED = re.compile(r"[\S\x1c-\x1f](?:.*[\S\x1c-\x1f])?", re.DOTALL)


@lru_cache(maxsize=16384)
def parse(text: str, *, zone: str | None = None, seconds: bool = False) -> Schedule:
    """Returns the parsed schedule.

    zone: the time zone, None for UTC; a zone in the text itself overrides it. seconds: six fields are allowed too, with
    the seconds first. Raises CronError (ZoneError for the zone) in Kubernetes' words.
    """
    clocks, spec = UTC if zone is None else zones.zone(zone), text
    if prefix := _PREFIX.match(text):
        clocks, spec = _prefixed(prefix)
    elif zone is not None:
        # Kubernetes puts the zone in front of the text, which trims the white space around the text.
        spec = _trimmed(text)
    elif not text:
        raise CronError("empty spec string")
    if spec.startswith(_EVERY):
        return Every(text, _interval(spec))
    return CronSchedule(text, _fields(spec, seconds), clocks)


def _prefixed(prefix: re.Match[str]) -> tuple[tzinfo, str]:
    if prefix["rest"] is None:
        raise CronError(f"invalid schedule format: nothing follows the time zone in {prefix.string}")
    try:
        return zones.prefixed(prefix["zone"]), _trimmed(prefix["rest"])
    except ZoneError as error:
        raise ZoneError(f"provided bad location {prefix['zone']}: {error}") from error


def _trimmed(text: str) -> str:
    found = _TRIMMED.search(text)
    return found[0] if found else ""


def _interval(spec: str) -> timedelta:
    try:
        return durations.interval(spec.removeprefix(_EVERY))
    except CronError as error:
        raise CronError(f"failed to parse duration {spec}: {error}") from error


def _fields(spec: str, seconds: bool) -> CronFields:
    if spec.startswith("@"):
        if spec not in _MACROS:
            raise CronError(f"unrecognized descriptor: {spec}")
        spec = _MACROS[spec]
    words = _WORD.findall(spec)
    if len(words) == 6 and seconds:
        return read(*words)
    if len(words) != 5:
        expected = "5 to 6" if seconds else "exactly 5"
        raise CronError(f"expected {expected} fields, found {len(words)}: [{' '.join(words)}]")
    return read("0", *words)
