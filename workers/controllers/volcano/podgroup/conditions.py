"""The conditions of a PodGroup: one entry of each type, written anew only when it says something new."""

from collections.abc import Sequence
from datetime import datetime

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions

UNSCHEDULABLE, SCHEDULED = "Unschedulable", "Scheduled"

#: The reason with which Volcano says that a gang is whole.
READY = "tasks in gang are ready to be scheduled"
ADMITTED = "Admitted"


def written(group: Object, type_: str, status: str, reason: str, message: str, now: datetime) -> list[Object]:
    """All conditions of the group, with this one among them."""
    known: Sequence[Object] = (group.get("status") or {}).get("conditions") or ()
    old = conditions.find(group, type_)
    if old and (old.get("status"), old.get("reason"), old.get("message", "")) == (status, reason, message):
        return list(known)
    new = {
        "type": type_,
        "status": status,
        "transitionID": f"{int(now.timestamp() * 1000):x}",
        "lastTransitionTime": times.render(now),
        "reason": reason,
        "message": message,
    }
    return [*(each for each in known if each.get("type") != type_), new]


def waits(group: Object) -> str | None:
    """The reason why the group waits, as it is written down; None when nothing says so."""
    found = conditions.find(group, UNSCHEDULABLE)
    return str(found.get("reason") or "") if found and found.get("status") == "True" else None


def was_whole(group: Object) -> bool:
    """Whether the gang has been whole before: its pods may have done work."""
    return conditions.holds(group, SCHEDULED)
