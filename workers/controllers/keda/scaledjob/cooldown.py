"""The cool-down after Jobs were created, for sources that notice late that work was taken."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api import times
from workers.api.keda.scaledjob import ScaledJob
from workers.controllers.keda.scaledjob import names
from workers.controllers.keda.scaledjob.demand import MAX_READING_AGE
from workers.decision.plan import Figure
from workers.decision.snapshot import CachedObject, Reading


@dataclass(frozen=True, slots=True)
class Cooldown:
    """The cool-down of a reading that began too soon after the one that made Jobs.

    until: the instant from which a reading may begin that makes Jobs again (µs, broker's clock).
    """

    until: int

    def over(self, at: int) -> bool:
        """Returns True if a reading that begins at this instant (µs) may make Jobs."""
        return at >= self.until

    def end(self, at: int, now: datetime) -> datetime:
        """Returns the end by the wall clock, which shows `now` at the broker's instant `at`."""
        return now + timedelta(microseconds=max(0, self.until - at))


def in_force(scaled: ScaledJob, jobs: Iterable[CachedObject], reading: Reading) -> Cooldown | None:
    """Returns the cool-down of this reading; None if it began late enough, or is the one that made the Jobs.

    A Job's name carries the id of the reading that made it, and that id is the instant at which the poll began. So
    deleted Jobs count too, on the one clock that dates polls. If the API server was slow the cool-down begins with the
    Job itself: only a poll that long after the Job shows what still waits.
    """
    seconds = scaled.spec.job_creation_cooldown_seconds
    if not seconds:
        return None
    made = (_made(scaled.metadata.name, entry, reading) for entry in jobs)
    newest = max((instant for instant in made if instant is not None), default=0)
    until = newest + round(seconds * 1e6)
    return Cooldown(until) if newest and reading.started < until else None


def _made(owner: str, entry: CachedObject, reading: Reading) -> int | None:
    """Returns the instant (µs) at which an earlier reading than this one made the Job; None for any other Job."""
    id = names.reading(owner, entry.ref.name)
    if id is None or id == reading.id:
        return None
    try:
        created = times.parse((entry.body or {})["metadata"]["creationTimestamp"])
    except (KeyError, ValueError):
        return id
    # The API server's clock may be skewed, so its timestamp counts only as far as a Job may lag behind its poll.
    return max(id, min(round(created.timestamp() * 1e6), id + MAX_READING_AGE))


def figures(number: int, missing: int) -> tuple[Figure, ...]:
    """Returns the Jobs to create in a cool-down: only those missing to the minimum, which need no queue."""
    return (Figure("to create in the cool-down", min(number, max(0, missing)), f"min({number}, max(0, {missing}))"),)
