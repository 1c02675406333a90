"""Who waits in a queue, in which order they are asked next, and why each of them waits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.volcano import verbs
from workers.api.kinds import POD_GROUP, PRIORITY_CLASS, Object, controller_of
from workers.api.references import DEFAULT_QUEUE
from workers.controllers import conditions
from workers.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The phase of those that wait; what has no phase yet waits, too.
PENDING = "Pending"
#: Of a longer line so many are shown.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class QueueLine:
    """The PodGroups of one queue that wait, the next to be asked first."""

    groups: tuple[Object, ...]

    def place(self, group: Object) -> int | None:
        """Which one it is, from 1 on; None when it does not wait."""
        uids = [each["metadata"]["uid"] for each in self.groups]
        uid = group["metadata"]["uid"]
        return uids.index(uid) + 1 if uid in uids else None


def line(groups: Iterable[Object], queue: str, priorities: Mapping[str, int], now: datetime) -> QueueLine:
    """The line of a queue. priorities: the values of PriorityClasses by name."""
    pending = [body for body in groups if queue_of(body) == queue and _waits(body)]
    if not pending:
        return QueueLine(())
    # Here, because what knows the order is made of models: loading them takes longer than most commands.
    from workers.controllers.volcano.podgroup import order
    from workers.controllers.volcano.podgroup.group import observe

    found = [observe(body, ()) for body in pending]
    late = order.overdue(found, priorities, now)
    names = {group.ref for group in late}
    rest = sorted(
        (group for group in found if group.ref not in names),
        key=lambda group: order.urgency(group, bool(group.status.get("allocated")), priorities),
    )
    return QueueLine(tuple(group.body for group in (*late, *rest)))


def _waits(group: Object) -> bool:
    return phase(group) == PENDING and "deletionTimestamp" not in group["metadata"]


async def read(cluster: "Cluster", queue: str, now: datetime) -> QueueLine | None:
    """The line of a queue as it is now; None, with a note, when PodGroups may not be listed."""
    try:
        groups = await verbs.list_objects(cluster, POD_GROUP)
        classes = await verbs.list_objects(cluster, PRIORITY_CLASS)
    except (Forbidden, NotFound) as error:
        output.note(f"penstock: who waits is not shown: {output.reason(error)}")
        return None
    return line(groups, queue, {each["metadata"]["name"]: int(each.get("value") or 0) for each in classes}, now)


def show(waiting: QueueLine, now: datetime) -> None:
    """The line as a table."""
    if not waiting.groups:
        return
    total = len(waiting.groups)
    output.say(f"Waiting ({total}{f', the first {SHOWN} shown' if total > SHOWN else ''}):")
    rows = [
        [
            str(place),
            group["metadata"]["namespace"],
            group["metadata"]["name"],
            owner(group),
            output.age(group["metadata"].get("creationTimestamp"), now),
            why(group),
        ]
        for place, group in enumerate(waiting.groups[:SHOWN], 1)
    ]
    output.table(["PLACE", "NAMESPACE", "PODGROUP", "OF", "AGE", "WHY"], rows, indent="  ")


def phase(group: Object) -> str:
    """How far a PodGroup is."""
    return (group.get("status") or {}).get("phase") or PENDING


def queue_of(group: Object) -> str:
    """The queue that a PodGroup is in."""
    return (group.get("spec") or {}).get("queue") or DEFAULT_QUEUE


def owner(group: Object) -> str:
    """Whose pods they are: ``Job/train``."""
    found = controller_of(group)
    return f"{found['kind']}/{found['name']}" if found else ""


def why(group: Object) -> str:
    """Why a PodGroup waits, as the last round of admission said; empty when none has."""
    found = conditions.find(group, "Unschedulable") or {}
    if found.get("status") != "True":
        return ""
    return " ".join(": ".join(filter(None, (found.get("reason"), found.get("message")))).split())
