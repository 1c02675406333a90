"""The decision about a Queue: state, counters, Commands, and the queues above and below."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from workers.api import references
from workers.api.kinds import COMMAND, POD_GROUP, QUEUE, Object, Ref, ref_of
from workers.controllers.volcano import commands
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.queue import states
from workers.controllers.volcano.queue.states import QueueProgress, QueueState
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, MarkObject, Patch, PatchStatus, Plan, RecordEvent, Step
from workers.decision.snapshot import Snapshot

ROOT = Ref(QUEUE, "", references.ROOT_QUEUE)

#: The admission round, decided with the root queue.
Round = Callable[[Snapshot, datetime], Plan]


def decide(snapshot: Snapshot, _now: datetime) -> Plan:
    """Returns the plan for a queue.

    A Command takes effect in the write that stores its uid, so that it never takes effect twice.
    """
    queue = snapshot.body
    if queue is None or "deletionTimestamp" in queue["metadata"]:
        return NOTHING
    groups = _bodies(snapshot, POD_GROUP.id)
    asked = commands.in_order(snapshot)
    handled = (queue.get("status") or {}).get("handled") or []
    fresh = [command for command in asked if command["metadata"]["uid"] not in handled]
    above = states.parent_of(queue)
    parent = snapshot.relatives.get(above) if above else None
    progress = states.run(queue, len(groups), states.state_of(parent) if parent else None, fresh)
    status = _status(
        queue,
        progress,
        groups,
        [command["metadata"]["uid"] for command in asked] or list(handled),
        _taken(snapshot, groups),
    )
    changed = status != (queue.get("status") or {})
    steps = (
        *_metadata(queue, progress, before=True),
        PatchStatus(status),
        *progress.events,
        *(_orphan_event(above, parent) if changed else ()),
        *_metadata(queue, progress, before=False),
        *commands.consumed(asked),
        *_notified(snapshot, progress, status if changed else None),
    )
    return Plan(steps, _why(queue, progress)) if changed or len(steps) > 1 else NOTHING


def controller(rounds: Round | None = None, **sees: Any) -> Controller:
    """Returns the controller of Queues. rounds: decided with the root queue; sees: further `Controller` fields."""

    def decided(snapshot: Snapshot, now: datetime) -> Plan:
        own = decide(snapshot, now)
        if rounds is None or snapshot.ref != ROOT or snapshot.body is None:
            return own
        more = rounds(snapshot, now)
        why = "; ".join(each.why for each in (own, more) if each.why)
        return replace(more, steps=(*own.steps, *more.steps), why=why)

    return Controller(
        kind=QUEUE,
        decide=decided,
        referrers=(POD_GROUP, COMMAND, QUEUE),
        relatives=_above,
        reads_cluster_wide=states.is_root,
        **sees,
    )


def _above(queue: Object) -> tuple[Ref, ...]:
    ref = states.parent_of(queue)
    return (ref,) if ref else ()


def _bodies(snapshot: Snapshot, kind_id: str) -> list[Object]:
    return [entry.body for entry in snapshot.referrers.get(kind_id, ()) if entry.body is not None]


def _taken(snapshot: Snapshot, groups: Sequence[Object]) -> Object:
    """Returns the allocated resources of a queue and the queues below it. The root queue observes all groups."""
    everywhere = snapshot.cluster_wide.get(POD_GROUP.id)
    if everywhere is not None:
        return {"allocated": allocated(entry.body for entry in everywhere if entry.body is not None)}
    below = _bodies(snapshot, QUEUE.id)
    height = min(MOST_LEVELS, 1 + max(map(levels, below), default=0))
    return {"allocated": allocated(groups, below), **({"levels": height} if height > 1 else {})}


def _status(
    queue: Object, progress: QueueProgress, groups: Sequence[Object], handled: list[str], taken: Object
) -> Object:
    """Returns the whole status; fields of other writers (a scheduler's reservation) stay."""
    before = {name: value for name, value in (queue.get("status") or {}).items() if name != "levels"}
    status = {
        **before,
        **count(groups),
        "state": str(progress.state),
        # Older CRDs refuse a status without `allocated`.
        **taken,
        "observedGeneration": queue["metadata"].get("generation", 0),
    }
    return {**status, "handled": handled} if handled else status


def _metadata(queue: Object, progress: QueueProgress, *, before: bool) -> tuple[Patch, ...]:
    """Returns the patch of the queue's own metadata and spec, before its status or after it.

    The annotation closed-by-parent is written before the queue closes, and reset after it is open: whichever write is
    lost, the queue reopens.
    """
    change: Object = {}
    if before and not states.is_root(queue) and not (queue.get("spec") or {}).get("parent"):
        change["spec"] = {"parent": references.ROOT_QUEUE}
    if progress.closed_by_parent != states.closed_by_parent(queue) and progress.closed_by_parent == before:
        text = "true" if progress.closed_by_parent else "false"
        change["metadata"] = {"annotations": {states.CLOSED_BY_PARENT: text}}
    version = queue["metadata"]["resourceVersion"]
    return (Patch(ref_of(QUEUE, queue), change, version),) if change else ()


def _orphan_event(above: Ref | None, parent: Object | None) -> tuple[RecordEvent, ...]:
    """Returns the Event of a queue whose parent, above it, does not exist."""
    # The root queue is created at start-up: its absence is no news.
    if above in (None, ROOT) or parent is not None:
        return ()
    return (RecordEvent("Warning", "ParentNotFound", f"{above} does not exist: the queue stands alone until it does"),)


def _notified(snapshot: Snapshot, progress: QueueProgress, status: Object | None) -> tuple[Step, ...]:
    """Marks the keys that depend on a change: queues below after a change of state, and the root queue.

    A queue below that has not followed is marked with every decision: a worker may die between the status and the mark.
    PodGroups notify both by their own events, except by their deletion. The parent follows the queue's events anyway.
    status: None if it stays.
    """
    queue = snapshot.body
    assert queue is not None
    below = _bodies(snapshot, QUEUE.id)
    other_state = (queue.get("status") or {}).get("state") != progress.state
    refs = [ref_of(QUEUE, each) for each in below if other_state or _lags(each, progress.state)]
    marks = dict.fromkeys((*refs, *((ROOT,) if status and _concerns_the_round(queue, progress, status) else ())))
    return tuple(MarkObject(ref) for ref in marks if ref != snapshot.ref)


def _lags(below: Object, state: QueueState) -> bool:
    """Returns True for a queue that has to close or open with the one above it. state: of that one."""
    own = states.state_of(below)
    if state.shut:
        return not own.shut
    return state is QueueState.OPEN and own.shut and states.closed_by_parent(below)


def _concerns_the_round(queue: Object, progress: QueueProgress, status: Object) -> bool:
    before = queue.get("status") or {}
    fewer = progress.groups < sum(before.get(field) or 0 for field in FIELDS.values())
    edited = before.get("observedGeneration") != queue["metadata"].get("generation", 0)
    taken = before.get("allocated") != status["allocated"]
    return before.get("state") != progress.state or fewer or edited or taken


def _why(queue: Object, progress: QueueProgress) -> str:
    before = (queue.get("status") or {}).get("state") or "new"
    return (
        f"{before} -> {progress.state}, {progress.groups} PodGroups"
        if before != progress.state
        else f"{progress.groups} PodGroups"
    )


#: In a cycle of queues levels would grow for ever: a queue with so many is not added to its parent's sums.
MOST_LEVELS = 16
#: By phase, the counter in a Queue's status. A PodGroup without a phase is not counted.
FIELDS = {
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "unknown",
    "Completed": "completed",
}


def count(groups: Iterable[Object]) -> dict[str, int]:
    """Returns the PodGroup counters of a Queue's status."""
    phases = Counter((group.get("status") or {}).get("phase") for group in groups)
    return {field: phases[phase] for phase, field in FIELDS.items()}


def allocated(groups: Iterable[Object], below: Iterable[Object] = ()) -> dict[str, str]:
    """Returns the resources that the pods of all groups take, plus `allocated` of the queues below."""
    counted = (*groups, *(queue for queue in below if levels(queue) < MOST_LEVELS))
    return vectors.render(
        vectors.total(vectors.readable((each.get("status") or {}).get("allocated")) for each in counted)
    )


def levels(queue: Object) -> int:
    """Returns the levels of queues from this one down, from its status."""
    return int((queue.get("status") or {}).get("levels") or 1)
