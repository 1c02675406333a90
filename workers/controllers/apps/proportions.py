"""Scaling in the middle of a rollout: the sets share what is added or taken away by their sizes. Pure."""

from collections.abc import Sequence


def share(sizes: Sequence[int], most: Sequence[int | None], allowed: int) -> list[int]:
    """The new sizes of sets that must come to `allowed` pods together, newest set first.

    most: how many pods the Deployment could have had when the set was last scaled, None if nobody knows. Each set keeps
    its share of the whole, rounded to the nearest; what rounding leaves over is the largest set's. Of equal sizes the
    newest grows first and the oldest shrinks first.
    """
    change = allowed - sum(sizes)
    result = list(sizes)
    if change == 0 or not result:
        return result
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
    result[order[0]] = max(0, result[order[0]] + left)
    return result


def _fraction(size: int, most: int, allowed: int) -> int:
    """How much a set of this size should change when the whole goes from `most` to `allowed`; half a pod is one."""
    return (2 * size * allowed + most) // (2 * most) - size
