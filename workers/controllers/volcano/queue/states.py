"""The states of a Queue, and what each action makes of each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


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
    told = status.get("state") or "" if isinstance(status, Mapping) else ""
    return QueueState(told) if told in list(QueueState) else QueueState.UNKNOWN


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
