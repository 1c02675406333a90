"""Pods as nodes see them: how much each asks for, and where it may go."""

from collections.abc import Mapping
from dataclasses import dataclass

from workers.controllers.volcano.podgroup.places import ANYWHERE, Places
from workers.controllers.volcano.podgroup.vectors import Vector


@dataclass(frozen=True, slots=True)
class PodShape:
    """What one pod asks for. amounts: by resource, in order, without what is zero."""

    amounts: tuple[tuple[str, int], ...]
    places: Places = ANYWHERE

    def times(self, room: Mapping[str, int], most: int) -> int:
        """How many such pods fit into this room, up to so many."""
        for name, value in self.amounts:
            most = min(most, room.get(name, 0) // value)
        return max(most, 0)


def shape(asked: Vector, places: Places = ANYWHERE) -> PodShape:
    """The shape of a pod that asks for so much."""
    return PodShape(tuple(sorted((name, value) for name, value in asked.items() if value > 0)), places)


def pieces(whole: Vector, number: int, places: Places = ANYWHERE) -> tuple[PodShape, ...]:
    """So many equal parts of what is asked for together, rounded up."""
    return (shape({name: -(-value // number) for name, value in whole.items()}, places),) * number
