"""The queue of a new object: its existence, its state and its level."""

from collections.abc import Iterator

from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.api.kinds import QUEUE, Object, Ref

#: The topmost queue; it accepts no work itself.
ROOT = "root"
OPEN = "Open"
#: The field of Jobs and PodGroups that names their queue.
_FIELD = "spec.queue"


def admits(name: str, lookup: Lookup) -> Iterator[Finding]:
    """Yields the reason why a queue takes nothing now."""
    queue = lookup.get(Ref(QUEUE, "", name))
    if queue is None:
        yield Finding(_FIELD, f"there is no queue {name!r}")
    elif (state := (queue.get("status") or {}).get("state") or OPEN) != OPEN:
        # A queue without a state is about to be opened.
        yield Finding(_FIELD, f"queue {name!r} takes no work: its state is {state}, not {OPEN}")


def admits_job(name: str, lookup: Lookup) -> Iterator[Finding]:
    """Yields the reason why a queue takes no Job now: Jobs go into leaf queues."""
    if name == ROOT:
        yield Finding(_FIELD, f"queue {ROOT!r} takes no jobs itself, only the queues below it do")
        return
    yield from admits(name, lookup)
    if below := sorted(queue["metadata"]["name"] for queue in lookup.every(QUEUE) if parent_of(queue) == name):
        yield Finding(_FIELD, f"queue {name!r} takes no jobs itself, only the queues below it do: {', '.join(below)}")


def parent_of(queue: Object) -> str:
    """Returns the name of the parent queue, empty for the root."""
    if queue["metadata"]["name"] == ROOT:
        return ""
    return (queue.get("spec") or {}).get("parent") or ROOT
