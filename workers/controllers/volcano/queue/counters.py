"""How many PodGroups of a queue are in which phase, and what they take."""

from collections import Counter
from collections.abc import Iterable

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import vectors

#: In a circle of queues levels never end. What has so many does not count for the queue above it, or its sums would
#: not end either.
MOST_LEVELS = 16
#: By phase, the field of a Queue's status. A PodGroup without a phase counts nowhere yet.
FIELDS = {
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "unknown",
    "Completed": "completed",
}


def count(groups: Iterable[Object]) -> dict[str, int]:
    """All five counters of a Queue's status."""
    phases = Counter((group.get("status") or {}).get("phase") or "" for group in groups)
    return {field: phases[phase] for phase, field in FIELDS.items()}


def allocated(groups: Iterable[Object], below: Iterable[Object] = ()) -> dict[str, str]:
    """What the pods of all groups take of nodes, and those of the queues below, as their own statuses say."""
    counted = (*groups, *(queue for queue in below if levels(queue) < MOST_LEVELS))
    return vectors.render(
        vectors.total(vectors.readable((each.get("status") or {}).get("allocated")) for each in counted)
    )


def levels(queue: Object) -> int:
    """Levels of queues from this one down, itself included, as its status says."""
    return int((queue.get("status") or {}).get("levels") or 1)


def levels_with(below: Iterable[Object]) -> int:
    """The levels of a queue above these."""
    return min(MOST_LEVELS, 1 + max(map(levels, below), default=0))
