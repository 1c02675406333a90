"""Errors in schedules, with Kubernetes' messages."""


class CronError(ValueError):
    """A malformed schedule; the message is one line for its author."""


class ZoneError(CronError):
    """A time zone that is not allowed, or is missing in the system's time zone data."""
