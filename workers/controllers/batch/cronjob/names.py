"""Deterministic names of Jobs: a run that is started twice creates one Job.

A CronJob's Jobs are named as Kubernetes names them, ``<name>-<minutes since 1970>``. A ScheduledJob may have several
slots in a minute, and its Jobs are named ``<name>-<seconds since 1970>``. A requested run is ``<name>-<id>``,
and further attempts of a run append ``-r<number>``.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from workers.api.kinds import Kind
from workers.controllers.batch.cronjob import dialect

#: A Job's name becomes a label value.
LONGEST = 63
#: Characters of the longest attempt number, ``-r1001``.
_ATTEMPT = 6
#: Minutes since 1970 have fewer digits than this for the next 1,800 years, seconds have had as many since 2001.
_SECONDS_DIGITS = 10


@dataclass(frozen=True, slots=True)
class RunNames:
    """The names of one object's Jobs. per_second: names differ by the second; otherwise by the minute."""

    owner: str
    per_second: bool

    def slot(self, slot: datetime) -> str:
        """Returns the name of a slot's run and its first Job."""
        seconds = int(slot.timestamp())
        return self._name(str(seconds if self.per_second else seconds // 60))

    def manual(self, id: str) -> str:
        """Returns the name of a requested run and its first Job."""
        return self._name(id)

    def slot_of(self, name: str) -> datetime | None:
        """Returns the slot in a Job's name, also in the seconds of older Kubernetes; None for other names."""
        digits = name.removeprefix(f"{self.owner}-")
        if digits == name or not (digits.isascii() and digits.isdecimal()) or len(digits) > _SECONDS_DIGITS:
            return None
        return datetime.fromtimestamp(int(digits) * (1 if len(digits) == _SECONDS_DIGITS else 60), UTC)

    def _name(self, suffix: str) -> str:
        """Joins the owner's name, cut and hashed if too long, and the suffix."""
        room = LONGEST - len(suffix) - 1 - (_ATTEMPT if self.per_second else 0)
        if len(self.owner) <= room:
            return f"{self.owner}-{suffix}"
        start = self.owner[: room - 9].rstrip("-.")
        return f"{start}-{blake2b(self.owner.encode(), digest_size=4).hexdigest()}-{suffix}"


def of(kind: Kind, owner: str) -> RunNames:
    """Returns the names of the Jobs of the object of this kind and name."""
    return RunNames(owner, per_second=dialect.of(kind).scheduled)


def attempt(run: str, number: int) -> str:
    """Returns the name of a run's Job: the first has the run's own name."""
    return run if number == 1 else f"{run}-r{number}"


def run_of(job: str, number: int) -> str:
    """Returns the run whose attempt of this number has this name; the inverse of `attempt`."""
    return job if number == 1 else job.removesuffix(f"-r{number}")
