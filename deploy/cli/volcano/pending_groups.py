"""The table of a queue's pending PodGroups, in the order of admission and with the reasons why they wait."""

from datetime import datetime
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.volcano import verbs
from deploy.object_rows import queue_order
from deploy.object_rows.queue_order import PendingGroups
from workers.api.kinds import POD_GROUP, PRIORITY_CLASS
from workers.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The number of PodGroups shown.
SHOWN = 20


async def read(cluster: "Cluster", queue: str, now: datetime) -> PendingGroups | None:
    """Reads a queue's pending PodGroups; returns None, with a note, if the user may not list them."""
    try:
        groups = await verbs.list_objects(cluster, POD_GROUP)
        classes = await verbs.list_objects(cluster, PRIORITY_CLASS)
    except (Forbidden, NotFound) as error:
        output.note(f"penstock: pending PodGroups are not shown: {output.reason(error)}")
        return None
    priorities = {each["metadata"]["name"]: int(each.get("value") or 0) for each in classes}
    return queue_order.in_order(groups, queue, priorities, now)


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
            queue_order.owner(group),
            output.age(group["metadata"].get("creationTimestamp"), now),
            queue_order.why(group),
        ]
        for place, group in enumerate(waiting.groups[:SHOWN], 1)
    ]
    output.table(["PLACE", "NAMESPACE", "PODGROUP", "OF", "AGE", "WHY"], rows, indent="  ")
