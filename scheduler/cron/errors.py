"""The errors of schedules, in Kubernetes' words."""


class CronError(ValueError):
    """A malformed schedule; the message is one line for its author."""


class ZoneError(CronError):
    """A time zone that the API forbids, or that the system's time zone data does not have."""
