"""Removing a job that is over: ttlSecondsAfterFinished, and for one that was aborted ttlSecondsAfterAborted."""

from datetime import datetime, timedelta

from workers.controllers.volcano.job import phases, status
from workers.controllers.volcano.job.observed import ObservedJob
from workers.controllers.volcano.job.transitions import JobTransitions


def expiry(sight: ObservedJob, course: JobTransitions, now: datetime) -> datetime | None:
    """When the job may go; None: it stays. now: when it came to a phase that is not written yet."""
    spec = sight.job.spec
    if course.phase in phases.FINAL:
        seconds = spec.ttl_seconds_after_finished
    elif course.phase == "Aborted":
        seconds = spec.ttl_seconds_after_aborted
    else:
        return None
    if seconds is None:
        return None
    ended = status.transition(sight) if sight.phase == course.phase else None
    return (ended or now) + timedelta(seconds=seconds)


def expired(sight: ObservedJob, course: JobTransitions, now: datetime) -> bool:
    """Whether the job has been over for long enough, and was seen to be."""
    end = expiry(sight, course, now)
    return end is not None and sight.phase == course.phase and end <= now
