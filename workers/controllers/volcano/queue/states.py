"""The states of a Queue, and what each action makes of each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from workers.api import references
from workers.api.kinds import QUEUE, Object, Ref
from workers.reconcile.plan import RecordEvent
from workers.reconcile.snapshot import Snapshot

#: An annotation: ``true`` on a queue that was closed because the one above it was, and opens again with it.
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"


class Action(StrEnum):
    """What a Queue is asked to do; Commands spell it like this."""

    SYNC = "SyncQueue"
    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


class QueueState(StrEnum):
    """Whether a Queue takes new work. Only an open one does; closing, it still has some."""

    NEW = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"

    @property
    def shut(self) -> bool:
        """Closed, or on its way to be."""
        return self in (QueueState.CLOSED, QueueState.CLOSING)


def state_of(queue: Mapping[str, object]) -> QueueState:
    """The state that a Queue's status tells. Whatever no state is called is not known."""
    status = queue.get("status") or {}
    events = status.get("state") or "" if isinstance(status, Mapping) else ""
    return QueueState(events) if events in list(QueueState) else QueueState.UNKNOWN


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


#: How a cell is carried out. A Queue that is opened or closed says so in an Event.
Operation = Literal["sync", "open", "close"]


@dataclass(frozen=True, slots=True)
class QueueTransition:
    """operation: what is done. becomes: the state afterwards; None: Closed without PodGroups, Closing with them."""

    operation: Operation
    becomes: QueueState | None

    def state(self, groups: int) -> QueueState:
        """The state afterwards of a Queue that has so many PodGroups, in whatever phase."""
        return self.becomes if self.becomes is not None else QueueState.CLOSING if groups else QueueState.CLOSED


_STAYS_OPEN = QueueTransition("sync", QueueState.OPEN)
_EMPTIES = QueueTransition("sync", None)
_OPENS = QueueTransition("open", QueueState.OPEN)
_CLOSES = QueueTransition("close", None)

TABLE: Mapping[tuple[QueueState, Action], QueueTransition] = {
    (QueueState.NEW, Action.SYNC): _STAYS_OPEN,
    (QueueState.NEW, Action.OPEN): _STAYS_OPEN,
    (QueueState.NEW, Action.CLOSE): _CLOSES,
    (QueueState.OPEN, Action.SYNC): _STAYS_OPEN,
    (QueueState.OPEN, Action.OPEN): _STAYS_OPEN,
    (QueueState.OPEN, Action.CLOSE): _CLOSES,
    (QueueState.CLOSED, Action.SYNC): _EMPTIES,
    (QueueState.CLOSED, Action.OPEN): _OPENS,
    (QueueState.CLOSED, Action.CLOSE): _EMPTIES,
    (QueueState.CLOSING, Action.SYNC): _EMPTIES,
    (QueueState.CLOSING, Action.OPEN): _OPENS,
    (QueueState.CLOSING, Action.CLOSE): _EMPTIES,
    (QueueState.UNKNOWN, Action.SYNC): QueueTransition("sync", QueueState.UNKNOWN),
    (QueueState.UNKNOWN, Action.OPEN): _OPENS,
    (QueueState.UNKNOWN, Action.CLOSE): _CLOSES,
}


_SUCCESS = {
    "open": RecordEvent("Normal", "OpenQueue", "Open queue succeed"),
    "close": RecordEvent("Normal", "CloseQueue", "Close queue succeed"),
}


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """A queue's state as it changes step by step.

    groups: how many PodGroups name the queue. above: the state of the queue above, None for nobody's. closed_by_parent:
    the queue opens again with the one above. events: what is recorded, in order.
    """

    state: QueueState
    groups: int
    above: QueueState | None
    closed_by_parent: bool
    events: tuple[RecordEvent, ...] = ()

    def with_events(self, *records: RecordEvent) -> "QueueProgress":
        return replace(self, events=(*self.events, *records))

    def move(self, action: Action) -> "QueueProgress":
        """One cell of the table."""
        cell = TABLE[self.state, action]
        moved = replace(self, state=cell.state(self.groups))
        return moved.with_events(_SUCCESS[cell.operation]) if cell.operation in _SUCCESS else moved


def run(queue: Object, groups: int, above: QueueState | None, commands: Sequence[Object]) -> QueueProgress:
    """The queue's state in the end. commands: those that have had no effect yet, in order."""
    state = state_of(queue)
    # What stands beside an open queue is left over from a plan that did not come to its end.
    progress = QueueProgress(state, groups, above, closed_by_parent(queue) and state.shut)
    for command in commands:
        progress = _apply_command(progress, command, queue)
    progress = _follow_parent(progress)
    return progress.move(Action.SYNC)


def _apply_command(progress: QueueProgress, command: Object, queue: Object) -> QueueProgress:
    name, wanted = command["metadata"]["name"], str(command.get("action") or "")
    meant = (command.get("target") or {}).get("uid")
    if meant and meant != queue["metadata"]["uid"]:
        return progress.with_events(
            RecordEvent("Warning", "CommandIgnored", f"Command {name} is for another Queue of this name, now gone")
        )
    if wanted not in list(Action):
        known = ", ".join(Action)
        return progress.with_events(
            RecordEvent("Warning", "CommandIgnored", f"Command {name}: {wanted or 'no action'} is none of {known}")
        )
    progress = progress.with_events(RecordEvent("Normal", "CommandIssued", f"Command {name}: {wanted}"))
    return _apply_request(progress, Action(wanted), queue)


def _apply_request(progress: QueueProgress, action: Action, queue: Object) -> QueueProgress:
    """A user's own wish: the root queue is never closed, and nobody opens below a queue that is closed."""
    if action is Action.CLOSE and is_root(queue):
        return progress.with_events(
            RecordEvent("Warning", "CloseQueue", "Close queue failed: the root queue is never closed")
        )
    if action is Action.OPEN and progress.state.shut and progress.above is not None and progress.above.shut:
        above = parent_of(queue)
        return progress.with_events(
            RecordEvent("Warning", "OpenQueue", f"Open queue failed: {above} is {progress.above}")
        )
    moved = progress.move(action)
    return moved if moved.state.shut else replace(moved, closed_by_parent=False)


def _follow_parent(progress: QueueProgress) -> QueueProgress:
    """The queue closes with the one above, and opens with it again unless somebody had closed it for itself."""
    if progress.above is None:
        return progress
    if progress.above.shut and not progress.state.shut:
        return replace(progress.move(Action.CLOSE), closed_by_parent=True)
    if progress.above is QueueState.OPEN and progress.state.shut and progress.closed_by_parent:
        return replace(progress.move(Action.OPEN), closed_by_parent=False)
    return progress
