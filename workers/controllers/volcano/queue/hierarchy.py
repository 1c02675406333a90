"""Queues below others: whose state a queue's own depends on, and what it remembers of that."""

from workers.api import references
from workers.api.kinds import QUEUE, Object, Ref
from workers.controllers.volcano.queue.states import QueueState, state_of
from workers.reconcile.snapshot import Snapshot

#: An annotation: ``true`` on a queue that was closed because the one above it was, and opens again with it.
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"


def is_root(queue: Object) -> bool:
    """Whether this is the queue above all others."""
    return bool(queue["metadata"]["name"] == references.ROOT_QUEUE)


def parent_of(queue: Object) -> Ref | None:
    """The queue above; None for the highest one, and for one that names itself."""
    parent = (queue.get("spec") or {}).get("parent") or references.ROOT_QUEUE
    return None if is_root(queue) or parent == queue["metadata"]["name"] else Ref(QUEUE, "", parent)


def parent_state(snapshot: Snapshot) -> QueueState | None:
    """The state of the queue above, None if there is none of that name, or none above at all."""
    parent = snapshot.relatives.get(ref) if snapshot.body and (ref := parent_of(snapshot.body)) else None
    return state_of(parent) if parent else None


def closed_by_parent(queue: Object) -> bool:
    """Whether the annotation says that the queue opens again with the one above it."""
    return (queue["metadata"].get("annotations") or {}).get(CLOSED_BY_PARENT) == "true"
