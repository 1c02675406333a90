"""Limits on unfinished Jobs that several objects share, as plans name them; `reservations` keeps them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from workers.api.kinds import Kind, Object


@dataclass(frozen=True, slots=True)
class JobLimit:
    """One limit: a ScalePolicy, or one of its groups.

    policy: as it was observed. owners: the kind of the objects that share the limit. covers: tells for an object, or
    for a Job that carries its labels, if its Jobs count. group: the value of the `groupBy` label; None without one,
    "" for objects that lack it.
    """

    policy: Object
    limit: int
    owners: Kind
    # The asking controller knows the policy's rules; a recount applies them to other objects.
    covers: Callable[[Object], bool] = field(compare=False, repr=False)
    group: str | None = None

    @property
    def id(self) -> str:
        """Differs from every other limit's id, and changes with the policy's generation."""
        metadata = self.policy["metadata"]
        group = "" if self.group is None else blake2b(self.group.encode(), digest_size=8).hexdigest()
        return f"{metadata['uid']}.{metadata.get('generation', 0)}.{group}"

    def __str__(self) -> str:
        name = f"ScalePolicy {self.policy['metadata']['name']}"
        return name if self.group is None else f"{name}, {self.policy['spec']['groupBy']}={self.group}"


@dataclass(frozen=True, slots=True)
class LimitReservation:
    """A request to an object's limits: `wanted` unfinished Jobs, of which `alive` exist already.

    held: Jobs that exist or whose items the object has claimed; a grant for these is never taken back.
    """

    limits: tuple[JobLimit, ...]
    alive: int
    wanted: int
    held: int = 0
