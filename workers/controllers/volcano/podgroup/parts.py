"""Pods of a gang that are not made yet, as nodes will see them: what its PodGroup tells of its tasks.

`minTaskMember` says how many pods of each task belong to the gang, or `minTaskPods` where that is another number;
`minTaskResources` what one of them asks for, and `minTaskPlacement` where it may go. Of a gang of one task
`minResources` says what they ask for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import places, shapes, vectors
from workers.controllers.volcano.podgroup.members import ONE_POD, Member
from workers.controllers.volcano.podgroup.places import ANYWHERE, Places
from workers.controllers.volcano.podgroup.shapes import PodShape
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


def tasks(spec: Object) -> Mapping[str, int]:
    """By task, how many of its pods belong to the gang: those of the lowest indexes."""
    return spec.get("minTaskPods") or spec.get("minTaskMember") or {}


def unmade(spec: Object, minimum: Vector | None, made: Iterable[Member], number: int) -> tuple[PodShape, ...] | None:
    """So many pods that are to be made besides those that are there; None where the PodGroup does not tell."""
    counts = tasks(spec)
    sizes = spec.get("minTaskResources") or {}
    least = int(spec.get("minMember") or 0)
    if sizes and sum(counts.values()) == least and counts.keys() <= sizes.keys():
        there = Counter(each.task for each in made)
        found = [
            _pod(sizes[task], _placement(spec, task))
            for task, wanted in sorted(counts.items())
            for _ in range(wanted - there[task])
        ]
        return tuple(found[:number]) if len(found) >= number else None
    if minimum is None or len(counts) > 1:
        return None
    where = _placement(spec, next(iter(counts), ""))
    return pieces_of(minimum, least, where)[:number]


def pieces_of(whole: Vector, number: int, where: Places = ANYWHERE) -> tuple[PodShape, ...]:
    """So many equal parts of what pods ask for together, rounded up."""
    return shapes.pieces(vectors.plain(whole), number, where)


def _placement(spec: Object, task: str) -> Places:
    given = (spec.get("minTaskPlacement") or {}).get(task)
    return places.read(given) if given else ANYWHERE


def _pod(sizes: Mapping[str, object] | None, where: Places) -> PodShape:
    """A pod of this size, which takes one of a node's places for pods, too."""
    return shapes.shape({**vectors.readable(sizes or EMPTY), "pods": ONE_POD}, where)
