"""Names of Jobs, made from what they are for: the same run never makes the same Job twice.

A CronJob's Jobs are named as Kubernetes names them, ``<name>-<minutes since 1970>``. A ScheduledJob may have several
slots in a minute, and its Jobs are named ``<name>-<seconds since 1970>``. A run that somebody asked for is
``<name>-<id>``, and further attempts of a run have ``-r<number>`` behind its name.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from workers.api.kinds import Kind
from workers.controllers.batch.cronjob import dialect

#: A Job's name becomes a label value.
LONGEST = 63
#: What the number of an attempt needs at most: ``-r1001``.
_ATTEMPT = 6
#: Minutes since 1970 have fewer digits than this for the next 1,800 years, seconds have had as many since 2001.
_SECONDS_DIGITS = 10


@dataclass(frozen=True, slots=True)
class RunNames:
    """The names of one object's Jobs. per_second: slots are told apart by the second; otherwise by the minute."""

    owner: str
    per_second: bool

    def slot(self, slot: datetime) -> str:
        """The name of the first Job of the run of a slot."""
        seconds = int(slot.timestamp())
        return self._name(str(seconds if self.per_second else seconds // 60))

    def manual(self, id: str) -> str:
        """The name of the first Job of the run that was asked for under this id."""
        return self._name(id)

    def slot_of(self, name: str) -> datetime | None:
        """The slot that the name of a Job stands for, the older Kubernetes' seconds too; None for other names."""
        digits = name.removeprefix(f"{self.owner}-")
        if digits == name or not (digits.isascii() and digits.isdecimal()) or len(digits) > _SECONDS_DIGITS:
            return None
        return datetime.fromtimestamp(int(digits) * (1 if len(digits) == _SECONDS_DIGITS else 60), UTC)

    def _name(self, suffix: str) -> str:
        """The owner's name where it leaves room, otherwise its start and a hash that keeps it apart."""
        room = LONGEST - len(suffix) - 1 - (_ATTEMPT if self.per_second else 0)
        if len(self.owner) <= room:
            return f"{self.owner}-{suffix}"
        start = self.owner[: room - 9].rstrip("-.")
        return f"{start}-{blake2b(self.owner.encode(), digest_size=4).hexdigest()}-{suffix}"


def of(kind: Kind, owner: str) -> RunNames:
    """The names of the Jobs of the object of this kind and name."""
    return RunNames(owner, per_second=dialect.of(kind).scheduled)


def attempt(run: str, number: int) -> str:
    """The name of a run's Job: the first has the run's own name."""
    return run if number == 1 else f"{run}-r{number}"


def run_of(job: str, number: int) -> str:
    """The run whose attempt of this number has this name; the reverse of `attempt`."""
    return job if number == 1 else job.removesuffix(f"-r{number}")
