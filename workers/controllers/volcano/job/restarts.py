"""How long a job waits before it starts again (`restartBackoff`)."""

from datetime import datetime, timedelta

from workers.api.volcano.job import RestartBackoff


def ready_at(backoff: RestartBackoff | None, restarts: int, now: datetime) -> datetime | None:
    """When the restart with this number (from 1) may go on; None: at once."""
    if backoff is None:
        return None
    seconds = float(backoff.seconds)
    for _ in range(restarts - 1):
        if seconds >= backoff.max_seconds:
            break
        seconds *= backoff.factor
    return now + timedelta(seconds=min(seconds, backoff.max_seconds)) if seconds else None
