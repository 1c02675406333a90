"""Waiting after Jobs were created, for sources that are slow to notice that work was taken."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api import times
from workers.api.keda.scaledjob import ScaledJob
from workers.controllers.keda.scaledjob import names
from workers.reconcile.plan import Figure
from workers.reconcile.snapshot import CachedObject, Reading

#: Longest time (µs) that may lie between a poll and the Jobs it makes: no reading older than that makes any.
SLOWEST = 5 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class Cooldown:
    """A reading that began too soon after the one that Jobs were made from.

    until: when a reading may begin that makes Jobs again (µs, broker's clock).
    """

    until: int

    def over(self, at: int) -> bool:
        """Whether a reading that begins at this instant (µs) may make Jobs."""
        return at >= self.until

    def end(self, at: int, now: datetime) -> datetime:
        """The end by the wall clock, of which `now` is the reading at the broker's instant `at`."""
        return now + timedelta(microseconds=max(0, self.until - at))


def in_force(scaled: ScaledJob, jobs: Iterable[CachedObject], reading: Reading) -> Cooldown | None:
    """The cool-down this reading falls into; None for one that began late enough, and for the one that made the Jobs.

    A Job's name carries the reading that made it, and a reading's id is the instant at which its poll began: also Jobs
    that are gone count, on the one clock that polls are dated by. Where the API server took its time the count begins
    with the Job itself: only a poll that long after it confirms what is still waiting.
    """
    seconds = scaled.spec.job_creation_cooldown_seconds
    if not seconds:
        return None
    made = (_made(scaled.metadata.name, entry, reading) for entry in jobs)
    newest = max((instant for instant in made if instant is not None), default=0)
    until = newest + round(seconds * 1e6)
    return Cooldown(until) if newest and reading.started < until else None


def _made(owner: str, entry: CachedObject, reading: Reading) -> int | None:
    """When a Job was made (µs) by an earlier reading than this one; None for any other Job.

    The API server's clock is another one: it is believed as far as it may lag behind a poll.
    """
    id = names.reading(owner, entry.ref.name)
    if id is None or id == reading.id:
        return None
    try:
        created = times.parse((entry.body or {})["metadata"]["creationTimestamp"])
    except (KeyError, ValueError):
        return id
    return max(id, min(round(created.timestamp() * 1e6), id + SLOWEST))


def worked_out(number: int, missing: int) -> tuple[Figure, ...]:
    """What may be created in a cool-down: only what is missing to the minimum, which no queue asks for."""
    return (Figure("to create in the cool-down", min(number, max(0, missing)), f"min({number}, max(0, {missing}))"),)
