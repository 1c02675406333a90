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


class State(StrEnum):
    """Whether a Queue takes new work. Only an open one does; closing, it still has some."""

    NEW = ""
    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"

    @property
    def shut(self) -> bool:
        """Closed, or on its way to be."""
        return self in (State.CLOSED, State.CLOSING)


def state_of(queue: Mapping[str, object]) -> State:
    """The state that a Queue's status tells. Whatever no state is called is not known."""
    status = queue.get("status") or {}
    told = status.get("state") or "" if isinstance(status, Mapping) else ""
    return State(told) if told in list(State) else State.UNKNOWN


#: How a cell is carried out. A Queue that is opened or closed says so in an Event.
Operation = Literal["sync", "open", "close"]


@dataclass(frozen=True, slots=True)
class Cell:
    """operation: what is done. becomes: the state afterwards; None: Closed without PodGroups, Closing with them."""

    operation: Operation
    becomes: State | None

    def state(self, groups: int) -> State:
        """The state afterwards of a Queue that has so many PodGroups, in whatever phase."""
        return self.becomes if self.becomes is not None else State.CLOSING if groups else State.CLOSED


_STAYS_OPEN = Cell("sync", State.OPEN)
_EMPTIES = Cell("sync", None)
_OPENS = Cell("open", State.OPEN)
_CLOSES = Cell("close", None)

TABLE: Mapping[tuple[State, Action], Cell] = {
    (State.NEW, Action.SYNC): _STAYS_OPEN,
    (State.NEW, Action.OPEN): _STAYS_OPEN,
    (State.NEW, Action.CLOSE): _CLOSES,
    (State.OPEN, Action.SYNC): _STAYS_OPEN,
    (State.OPEN, Action.OPEN): _STAYS_OPEN,
    (State.OPEN, Action.CLOSE): _CLOSES,
    (State.CLOSED, Action.SYNC): _EMPTIES,
    (State.CLOSED, Action.OPEN): _OPENS,
    (State.CLOSED, Action.CLOSE): _EMPTIES,
    (State.CLOSING, Action.SYNC): _EMPTIES,
    (State.CLOSING, Action.OPEN): _OPENS,
    (State.CLOSING, Action.CLOSE): _EMPTIES,
    (State.UNKNOWN, Action.SYNC): Cell("sync", State.UNKNOWN),
    (State.UNKNOWN, Action.OPEN): _OPENS,
    (State.UNKNOWN, Action.CLOSE): _CLOSES,
}
