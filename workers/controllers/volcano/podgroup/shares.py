"""How much of the whole each queue deserves: by weight, but never more than it can use, and at least its guarantee."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from workers.admission.volcano.queue_lookup import ROOT
from workers.controllers.volcano.podgroup.tree import QueueTree
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """What one of several gets at least and at most, and its weight against the others."""

    weight: int
    least: int
    most: int

    def at(self, level: Fraction) -> Fraction:
        """What it gets where each unit of weight is worth so much."""
        return min(max(level * self.weight, Fraction(self.least)), Fraction(max(self.most, self.least)))


def filled(whole: int, claims: Mapping[str, QueueDemand]) -> dict[str, int]:
    """Water-filling: nobody gets less per weight than another who could still do with less, and no more than the whole.

    Only guarantees may add up to more than the whole.
    """
    levels = sorted({Fraction(bound, each.weight) for each in claims.values() for bound in (each.least, each.most)})
    first = bisect_left(levels, Fraction(whole), key=lambda level: _poured(claims, level))
    if first == len(levels):
        return _shared(claims, levels[-1] if levels else Fraction(0))
    return _shared(claims, _between(claims, levels[first - 1] if first else Fraction(0), levels[first], whole))


def _poured(claims: Mapping[str, QueueDemand], level: Fraction) -> Fraction:
    return sum((each.at(level) for each in claims.values()), Fraction(0))


def _shared(claims: Mapping[str, QueueDemand], level: Fraction) -> dict[str, int]:
    return {name: int(each.at(level)) for name, each in claims.items()}


def _between(claims: Mapping[str, QueueDemand], low: Fraction, high: Fraction, whole: int) -> Fraction:
    """The level between two neighbouring bounds at which the whole is given: the sum rises in a straight line there."""
    first, last = _poured(claims, low), _poured(claims, high)
    if first >= whole or first == last:
        return low
    return low + (high - low) * (whole - first) / (last - first)


def deserved(
    tree: QueueTree, requested: Mapping[str, Vector], limits: Mapping[str, Vector], total: Vector
) -> dict[str, Vector]:
    """By queue, what it deserves: its `deserved` if it has one, else a share of what its parent deserves.

    requested: by queue, what it and those below it have and ask for. limits: by queue, the most it can have.
    """
    found: dict[str, Vector] = {ROOT: total}
    todo = [ROOT]
    while todo:
        parent = todo.pop()
        children = tree.children[parent]
        todo += children
        names = {name for child in children for name in requested.get(child, EMPTY)}
        given: dict[str, dict[str, int]] = {child: {} for child in children}
        for name in names:
            for child, value in _divided(tree, children, name, found[parent].get(name), requested, limits).items():
                given[child][name] = value
        for child in children:
            found[child] = tree[child].deserved or given[child]
    return found


def _divided(
    tree: QueueTree,
    children: tuple[str, ...],
    name: str,
    whole: int | None,
    requested: Mapping[str, Vector],
    limits: Mapping[str, Vector],
) -> dict[str, int]:
    """What each child gets of one resource. Of what nobody measures everybody gets what it asks for."""
    wanted = {
        child: min(requested.get(child, EMPTY).get(name, 0), limits[child].get(name, 1 << 200)) for child in children
    }
    if whole is None:
        return wanted
    claims = {
        child: QueueDemand(tree[child].weight, tree[child].guarantee.get(name, 0), wanted[child]) for child in children
    }
    return filled(whole, claims)
