"""How many PodGroups of a queue are in which phase, and what they take."""

from collections import Counter
from collections.abc import Iterable

from workers.api.kinds import Object
from workers.controllers.volcano.gangs import vectors

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


def allocated(groups: Iterable[Object]) -> dict[str, str]:
    """What the pods of all groups take of nodes, as the groups' own statuses say."""
    return vectors.render(
        vectors.total(vectors.readable((group.get("status") or {}).get("allocated")) for group in groups)
    )
