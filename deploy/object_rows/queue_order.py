"""A queue's pending PodGroups in the order of admission, with the reasons why they wait. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from workers.api import conditions
from workers.api.kinds import Object, controller_of
from workers.api.references import DEFAULT_QUEUE

#: The phase of a PodGroup that waits for admission, also assumed of one without a phase.
PENDING = "Pending"


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
