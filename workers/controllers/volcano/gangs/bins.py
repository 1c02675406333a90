"""Whether pods fit on nodes one by one, not only all together: the largest first, each on the first node with room.

What this does not see: selectors, affinity, taints, ports and volumes. And a placement may exist that it does not find.
"""

from collections.abc import Iterable, Mapping, Sequence

from workers.controllers.volcano.gangs import vectors
from workers.controllers.volcano.gangs.vectors import Vector


class Bins:
    """The room that is left on each node."""

    def __init__(self, free: Mapping[str, Vector], total: Vector) -> None:
        self._free = [dict(vector) for _, vector in sorted(free.items())]
        self._total = total
        self._refused: set[tuple[tuple[tuple[str, int], ...], ...]] = set()

    def take(self, pods: Sequence[Vector]) -> bool:
        """Place all of these pods, or none; False if no room was found. Room only ever gets less."""
        known = tuple(sorted(tuple(sorted(pod.items())) for pod in pods))
        if known in self._refused:
            return False
        placed: dict[int, dict[str, int]] = {}
        first = 0
        before: Vector | None = None
        for pod in sorted(pods, key=self._size, reverse=True):
            # What did not take the pod before does not take one like it.
            first = self._place(pod, first if pod == before else 0, placed)
            if first < 0:
                self._refused.add(known)
                return False
            before = pod
        for index, left in placed.items():
            self._free[index] = left
        return True

    def fill(self, pods: Iterable[Vector]) -> None:
        """Place those of these pods that fit: they are on their way to somewhere."""
        for pod in sorted(pods, key=self._size, reverse=True):
            self.take((pod,))

    def _place(self, pod: Vector, first: int, placed: dict[int, dict[str, int]]) -> int:
        for index in range(first, len(self._free)):
            left = placed.get(index, self._free[index])
            if vectors.fits(pod, left):
                placed[index] = {name: value - pod.get(name, 0) for name, value in left.items()}
                return index
        return -1

    def _size(self, pod: Vector) -> float:
        """The largest share of the whole that a pod asks for."""
        return max((value / self._total[name] for name, value in pod.items() if self._total.get(name)), default=0.0)
