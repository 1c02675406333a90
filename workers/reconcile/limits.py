"""Limits that several objects share: which ones an object is under, and what it asks of them."""

from dataclasses import dataclass
from hashlib import blake2b

from workers.api.kinds import Object


@dataclass(frozen=True, slots=True)
class JobLimit:
    """One limit: a ScalePolicy, or one of its groups.

    policy: as it was observed. group: the value of its `groupBy` label; None without one, "" for objects that lack it.
    """

    policy: Object
    limit: int
    group: str | None = None

    @property
    def id(self) -> str:
        """Tells it apart from every other limit, also from what the same policy said before it was changed."""
        metadata = self.policy["metadata"]
        group = "" if self.group is None else blake2b(self.group.encode(), digest_size=8).hexdigest()
        return f"{metadata['uid']}.{metadata.get('generation', 0)}.{group}"

    def __str__(self) -> str:
        name = f"ScalePolicy {self.policy['metadata']['name']}"
        return name if self.group is None else f"{name}, {self.policy['spec']['groupBy']}={self.group}"


@dataclass(frozen=True, slots=True)
class LimitReservation:
    """What an object asks of the limits it is under: so many unfinished Jobs, of which so many are there already.

    held: Jobs that are there or whose work it has in its hands; what it was granted for these is not taken back.
    """

    caps: tuple[JobLimit, ...]
    alive: int
    wanted: int
    held: int = 0
