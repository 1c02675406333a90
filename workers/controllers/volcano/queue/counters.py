"""How many PodGroups of a queue are in which phase."""

from collections import Counter
from collections.abc import Iterable

from workers.api.kinds import Object

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
