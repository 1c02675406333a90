"""The delay before an event's next attempt."""

from workers.api.scheduledjob import RunRetry


def delay(retry: RunRetry | None, attempt: int) -> int:
    """Returns the milliseconds before the attempt of this number, the first retry being 1; doubles with every one."""
    if retry is None:
        return 0
    # Beyond 2^31 the longest wait holds anyway, and the power stays small.
    return 1000 * min(retry.delay_seconds << min(attempt - 1, 31), retry.max_delay_seconds)
