"""A Job's activeDeadlineSeconds."""

from datetime import datetime, timedelta

from workers.controllers.batch.job.spec import BatchJobSpec


def of(spec: BatchJobSpec, started: datetime | None) -> datetime | None:
    """The instant at which the Job has run too long, or None: no limit, not started, or suspended."""
    if spec.active_deadline is None or started is None or spec.suspended:
        return None
    return started + timedelta(seconds=spec.active_deadline)
