"""Volcano's queues: what each may take, is owed and holds, and which PodGroups wait in which order and why.

Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from deploy.object_rows import queue_order
from deploy.object_rows.row import count, instant, spec_of, status_of
from workers.api.kinds import Object

#: PodGroups of one queue that an answer names.
WAITING = 50


def shares(
    queues: Iterable[Object], groups: Sequence[Object], priorities: Mapping[str, int], now: datetime
) -> list[Object]:
    """Returns the queues by name. groups: all PodGroups. priorities: the values of PriorityClasses by name."""
    found = [_queue(queue, groups, priorities, now) for queue in queues]
    return sorted(found, key=lambda each: str(each["name"]))


def _queue(queue: Object, groups: Sequence[Object], priorities: Mapping[str, int], now: datetime) -> Object:
    spec, name = spec_of(queue), queue["metadata"]["name"]
    # Its package brings the admission of gangs, which a page without queues never needs.
    from workers.controllers.volcano.podgroup import vectors

    allocated = vectors.readable(status_of(queue).get("allocated"))
    deserved, capability = (vectors.readable(spec.get(field)) for field in ("deserved", "capability"))
    pending = queue_order.in_order(groups, name, priorities, now).groups[:WAITING]
    return {
        "name": name,
        "weight": count(spec.get("weight")) or 1,
        "capability": vectors.render(capability),
        "guarantee": vectors.render(vectors.readable((spec.get("guarantee") or {}).get("resource"))),
        "deserved": vectors.render(deserved),
        "allocated": vectors.render(vectors.plain(allocated)),
        "share": share(allocated, deserved or capability),
        "waiting": [
            {
                "group": f"{group['metadata']['namespace']}/{group['metadata']['name']}",
                "since": instant(group["metadata"].get("creationTimestamp")),
                "why": queue_order.why(group),
            }
            for group in pending
        ],
    }


def share(allocated: Mapping[str, int], owed: Mapping[str, int]) -> float | None:
    """Returns the largest part of what is owed that is taken, by resource; None for a queue that is owed no amount."""
    parts = [allocated.get(name, 0) / amount for name, amount in owed.items() if amount > 0]
    return round(max(parts), 4) if parts else None
