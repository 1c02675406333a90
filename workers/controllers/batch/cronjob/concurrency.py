"""What may start while something else is at work."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api.scheduledjob import ConcurrencyPolicy
from workers.controllers.batch.cronjob.manual import RunRequest

#: Runs that one plan starts at most; what is left over follows at once.
HELPING = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """What starts now. replaces: what is at work is ended first. waits: something has to wait for what is at work."""

    requests: tuple[RunRequest, ...] = ()
    slots: tuple[datetime, ...] = ()
    replaces: bool = False
    waits: bool = False

    def __bool__(self) -> bool:
        return bool(self.requests or self.slots)


def choose(
    policy: ConcurrencyPolicy, *, at_work: bool, requests: Sequence[RunRequest], slots: Sequence[datetime]
) -> Choice:
    """Of the runs that were asked for, and of those of open slots (oldest first), the ones that start now."""
    if not requests and not slots:
        return Choice()
    match policy:
        case "Allow":
            asked = tuple(requests[:HELPING])
            return Choice(asked, tuple(slots[: HELPING - len(asked)]))
        case "Forbid":
            if at_work:
                return Choice(waits=True)
            # Who asked goes first: a schedule of every second would never let him have his turn.
            return Choice(tuple(requests[:1])) if requests else Choice(slots=tuple(slots[:1]))
        case "Replace":
            # Who asked goes last: the run of the slot would end his at once.
            return (
                Choice(slots=tuple(slots[-1:]), replaces=at_work) if slots else Choice(tuple(requests[:1]), (), at_work)
            )
