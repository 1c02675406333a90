"""The states of a Queue: the table of actions, Commands in the order of their creation, and the state of the parent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from workers.api import references
from workers.api.kinds import QUEUE, Object, Ref
from workers.decision.plan import RecordEvent

#: Annotation: ``true`` on a queue that closed with its parent, and reopens with it.
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"


class Action(StrEnum):
    """An action on a Queue, spelt as in Commands."""

    SYNC = "SyncQueue"
    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"


class QueueState(StrEnum):
    """The state of a Queue. Only an open one accepts new work; a closing one still has some."""

    NEW = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"

    @property
    def shut(self) -> bool:
        """True if it is closed or closing."""
        return self in (QueueState.CLOSED, QueueState.CLOSING)


def state_of(queue: Mapping[str, object]) -> QueueState:
    """Returns the state in a Queue's status; UNKNOWN for any other text."""
    status = queue.get("status") or {}
    text = status.get("state") or "" if isinstance(status, Mapping) else ""
    return QueueState(text) if text in list(QueueState) else QueueState.UNKNOWN


def is_root(queue: Object) -> bool:
    """Returns True for the root queue."""
    return bool(queue["metadata"]["name"] == references.ROOT_QUEUE)


def parent_of(queue: Object) -> Ref | None:
    """Returns the parent queue; None for the root, and for a queue that names itself."""
    parent = (queue.get("spec") or {}).get("parent") or references.ROOT_QUEUE
    return None if is_root(queue) or parent == queue["metadata"]["name"] else Ref(QUEUE, "", parent)


def closed_by_parent(queue: Object) -> bool:
    """Returns True if the annotation says that the queue reopens with its parent."""
    return (queue["metadata"].get("annotations") or {}).get(CLOSED_BY_PARENT) == "true"


#: Effect of a cell; opening and closing record an Event.
Operation = Literal["sync", "open", "close"]


@dataclass(frozen=True, slots=True)
class QueueTransition:
    """becomes: the state afterwards; None: Closed without PodGroups, Closing with them."""

    operation: Operation
    becomes: QueueState | None

    def state(self, groups: int) -> QueueState:
        """Returns the state afterwards of a Queue with this number of PodGroups."""
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
    """A queue's state, changed action by action.

    groups: number of PodGroups in the queue. above: the parent's state, None without a parent. closed_by_parent: the
    queue reopens with its parent. events: in order.
    """

    state: QueueState
    groups: int
    above: QueueState | None
    closed_by_parent: bool
    events: tuple[RecordEvent, ...] = ()

    def with_events(self, *records: RecordEvent) -> "QueueProgress":
        return replace(self, events=(*self.events, *records))

    def move(self, action: Action) -> "QueueProgress":
        """Applies one cell of the table."""
        cell = TABLE[self.state, action]
        moved = replace(self, state=cell.state(self.groups))
        return moved.with_events(_SUCCESS[cell.operation]) if cell.operation in _SUCCESS else moved


def run(queue: Object, groups: int, above: QueueState | None, commands: Sequence[Object]) -> QueueProgress:
    """Returns the queue's final state. commands: those without effect so far, in order."""
    state = state_of(queue)
    # On an open queue the annotation is left over from a plan that was cut short.
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
    """Applies a user's request: the root never closes, and no queue opens below a closed one."""
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
    """Closes the queue with its parent, and reopens it unless a user had closed it."""
    if progress.above is None:
        return progress
    if progress.above.shut and not progress.state.shut:
        return replace(progress.move(Action.CLOSE), closed_by_parent=True)
    if progress.above is QueueState.OPEN and progress.state.shut and progress.closed_by_parent:
        return replace(progress.move(Action.OPEN), closed_by_parent=False)
    return progress
