"""The arithmetic of a rollout: limits from numbers and percentages, sizes of ReplicaSets, shares after scaling."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def resolve(value: int | str | None, total: int, *, up: bool) -> int:
    """Returns ``3`` unchanged and ``"25%"`` as a part of the total, rounded up or down; None counts as 0."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return math.ceil(share / 100) if up else share // 100


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """Limits of a rolling update: pods above the wanted number, and unavailable ones below it."""

    surge: int
    unavailable: int

    @classmethod
    def of(cls, replicas: int, surge: int | str | None, unavailable: int | str | None) -> "RolloutLimits":
        """Rounds surge up and unavailable down; if both are 0, one pod may be unavailable, or nothing would move."""
        over = resolve(surge, replicas, up=True)
        under = resolve(unavailable, replicas, up=False)
        if over == 0 and under == 0:
            under = 1
        return cls(over, min(under, replicas))


@dataclass(frozen=True, slots=True)
class Part:
    """One ReplicaSet. replicas: wanted pods. available: available ones as last observed."""

    replicas: int
    available: int

    @property
    def surely(self) -> int:
        """Available pods that it keeps: a set that was just scaled down may still count those that are deleted."""
        return min(self.available, self.replicas)


def new_size(wanted: int, limits: RolloutLimits, new: int, total: int) -> int:
    """Returns the next size of the new set. new: its present size. total: of all sets, the new one included."""
    if new >= wanted:
        return wanted
    room = wanted + limits.surge - total
    return new + max(0, min(room, wanted - new))


def old_sizes(wanted: int, limits: RolloutLimits, new: Part, old: Sequence[Part]) -> list[int]:
    """Returns the next sizes of the old sets, oldest first.

    Unavailable pods of any set are removed first: that costs no availability. Of the others as many are removed as
    leave enough available ones.
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


def share(sizes: Sequence[int], most: Sequence[int | None], allowed: int) -> list[int]:
    """Scales sets in the middle of a rollout: returns sizes with the sum `allowed`, newest set first.

    most: the pods allowed when the set was last scaled, None if unknown. Each set keeps its share of the whole, rounded
    to the nearest; the remainder goes to the largest set, and what it cannot give to the next ones. Of equal sizes the
    newest grows first and the oldest shrinks first.
    """
    change = allowed - sum(sizes)
    result = list(sizes)
    age = 1 if change > 0 else -1
    order = sorted(range(len(sizes)), key=lambda index: (-sizes[index], age * index))
    left = change
    for index in order:
        if sizes[index] == 0 or left == 0:
            continue
        part = _fraction(sizes[index], most[index] or sum(sizes), allowed)
        part = max(0, min(part, left)) if change > 0 else min(0, max(part, left))
        result[index] += part
        left -= part
    for index in order:
        # Halves are rounded up: of sets of one pod the largest may have fewer than are too many.
        rest = max(left, -result[index])
        result[index] += rest
        left -= rest
    return result


def _fraction(size: int, most: int, allowed: int) -> int:
    """Returns the change of a set when the whole goes from `most` to `allowed`; half a pod is rounded up."""
    return (2 * size * allowed + most) // (2 * most) - size
