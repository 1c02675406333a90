"""The arithmetic of a rolling update: how large each ReplicaSet may be now. Numbers in, numbers out."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.controllers.apps.amounts import RolloutLimits


@dataclass(frozen=True, slots=True)
class Part:
    """One ReplicaSet. replicas: how many pods it is asked for. available: how many of them serve, as last known."""

    replicas: int
    available: int

    @property
    def surely(self) -> int:
        """Available pods that it keeps: a set that was just made smaller may still count those that go."""
        return min(self.available, self.replicas)


def new_size(wanted: int, limits: RolloutLimits, new: int, total: int) -> int:
    """The size of the new set. new: its size now. total: the size of all sets together, the new one included."""
    if new >= wanted:
        return wanted
    room = wanted + limits.surge - total
    return new + max(0, min(room, wanted - new))


def old_sizes(wanted: int, limits: RolloutLimits, new: Part, old: Sequence[Part]) -> list[int]:
    """The sizes of the old sets, oldest first, in that order.

    Pods that do not serve go first, whatever set they are of: they hold nothing up. Of the others as many go as leave
    enough available ones.
    """
    sizes = [part.replicas for part in old]
    least = wanted - limits.unavailable
    unavailable_new = max(0, new.replicas - new.available)
    room = sum(sizes) + new.replicas - least - unavailable_new
    for index, part in enumerate(old):
        gone = max(0, min(room, part.replicas - part.surely))
        sizes[index] -= gone
        room -= gone
    spare = min(room, new.surely + sum(part.surely for part in old) - least)
    for index in range(len(old)):
        gone = max(0, min(spare, sizes[index]))
        sizes[index] -= gone
        spare -= gone
    return sizes
