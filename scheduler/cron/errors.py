"""What is wrong with a schedule, in the words Kubernetes uses for it."""


class CronError(ValueError):
    """A text that is no schedule; the message is one line for the author of the text."""


class ZoneError(CronError):
    """A time zone that is not allowed, or that the system's time zone data does not have."""
