"""A queue's pending PodGroups in the order of admission, with the reasons why they wait."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.volcano import verbs
from workers.api import conditions
from workers.api.kinds import POD_GROUP, PRIORITY_CLASS, Object, controller_of
from workers.api.references import DEFAULT_QUEUE
from workers.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The phase of a PodGroup that waits for admission, also assumed of one without a phase.
PENDING = "Pending"
#: The number of PodGroups shown.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class PendingGroups:
    """The pending PodGroups of one queue, in the order of admission."""

    groups: tuple[Object, ...]

    def position(self, group: Object) -> int | None:
        """Returns the PodGroup's position, from 1; None if it is not pending."""
        uids = [each["metadata"]["uid"] for each in self.groups]
        uid = group["metadata"]["uid"]
        return uids.index(uid) + 1 if uid in uids else None


def in_order(groups: Iterable[Object], queue: str, priorities: Mapping[str, int], now: datetime) -> PendingGroups:
    """Returns a queue's pending PodGroups. priorities: the values of PriorityClasses by name."""
    pending = [body for body in groups if queue_of(body) == queue and _waits(body)]
    if not pending:
        return PendingGroups(())
    # Imported late, because loading the pydantic models of PodGroups takes longer than most commands.
    from workers.controllers.volcano.podgroup import order
    from workers.controllers.volcano.podgroup.group import observe

    found = [observe(body, ()) for body in pending]
    late = order.overdue(found, priorities, now)
    names = {group.ref for group in late}
    rest = sorted(
        (group for group in found if group.ref not in names),
        key=lambda group: order.urgency(group, bool(group.status.get("allocated")), priorities),
    )
    return PendingGroups(tuple(group.body for group in (*late, *rest)))


def _waits(group: Object) -> bool:
    return phase(group) == PENDING and "deletionTimestamp" not in group["metadata"]


async def read(cluster: "Cluster", queue: str, now: datetime) -> PendingGroups | None:
    """Reads a queue's pending PodGroups; returns None, with a note, if the user may not list them."""
    try:
        groups = await verbs.list_objects(cluster, POD_GROUP)
        classes = await verbs.list_objects(cluster, PRIORITY_CLASS)
    except (Forbidden, NotFound) as error:
        output.note(f"penstock: pending PodGroups are not shown: {output.reason(error)}")
        return None
    return in_order(groups, queue, {each["metadata"]["name"]: int(each.get("value") or 0) for each in classes}, now)


def show(waiting: PendingGroups, now: datetime) -> None:
    """Prints the pending PodGroups as a table."""
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
    """Returns a PodGroup's phase."""
    return (group.get("status") or {}).get("phase") or PENDING


def queue_of(group: Object) -> str:
    """Returns the name of a PodGroup's queue."""
    return (group.get("spec") or {}).get("queue") or DEFAULT_QUEUE


def owner(group: Object) -> str:
    """Returns the PodGroup's controller, such as ``Job/train``; empty if it has none."""
    found = controller_of(group)
    return f"{found['kind']}/{found['name']}" if found else ""


def why(group: Object) -> str:
    """Returns the reason why a PodGroup waits, from its last admission round; empty before the first one."""
    found = conditions.find(group, "Unschedulable") or {}
    if found.get("status") != "True":
        return ""
    return " ".join(": ".join(filter(None, (found.get("reason"), found.get("message")))).split())
