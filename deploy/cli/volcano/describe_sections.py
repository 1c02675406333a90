"""The sections of `describe` on Volcano's kinds: tasks, failures, phases, pending PodGroups, graphs."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.volcano import pending_groups, verbs
from deploy.object_rows import queue_order
from workers.api import conditions as object_conditions
from workers.api.kinds import JOB_FLOW, POD, POD_GROUP, QUEUE, VC_JOB, Object, Ref, controller_of
from workers.api.references import GROUP_NAME
from workers.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The status fields that these sections show, which the common part therefore omits.
TABLES = frozenset({"failures", "taskStatusCount"})
#: The number of newest phases shown.
SHOWN = 10
#: The number of holders shown.
HOLDERS_SHOWN = 10
#: Resources of a gang that does not say what it needs.
_USUAL = ("cpu", "memory")


def conditions(ref: Ref, body: Object) -> Sequence[Object]:
    """Returns the conditions in the common form: none for a Job, whose field of this name is a history of phases."""
    status = body.get("status") or {}
    if ref.kind.id == VC_JOB.id:
        return ()
    found: Sequence[Object] = status.get("flowConditions" if ref.kind.id == JOB_FLOW.id else "conditions") or ()
    return found


async def show(cluster: "Cluster", ref: Ref, body: Object, now: datetime) -> None:
    """Prints the sections of a Job, Queue, PodGroup or JobFlow; nothing for any other kind."""
    if ref.kind.id == VC_JOB.id:
        _job(body, now)
        await _group_of(cluster, ref, body, now)
    elif ref.kind.id == QUEUE.id:
        if pending := await pending_groups.read(cluster, ref.name, now):
            pending_groups.show(pending, now)
    elif ref.kind.id == POD_GROUP.id:
        await _position(cluster, body, now)
    elif ref.kind.id == JOB_FLOW.id:
        _graph(body)


def _graph(flow: Object) -> None:
    """Prints a flow's entries, each below its dependencies."""
    # Imported late, because loading the pydantic models of flows takes longer than most commands.
    from workers.flows.drawing import graph

    output.say("Graph:")
    for line in graph(flow).splitlines():
        output.say(f"  {line}")


def _job(body: Object, now: datetime) -> None:
    """Prints the reason of the Job's phase, its tasks, its failures and its history of phases."""
    status = body.get("status") or {}
    state = status.get("state") or {}
    if why := ": ".join(filter(None, (state.get("reason"), state.get("message")))):
        output.say(f"Why:           {' '.join(why.split())}")
    output.say("Tasks:")
    output.table(["NAME", "REPLICAS", "MIN", "PODS"], list(tasks(body)), indent="  ")
    if failures := status.get("failures"):
        output.say("Failures:")
        rows = [failure(each, now) for each in failures]
        output.table(["POD", "CONTAINER", "EXIT CODE", "AGE", "WHY"], rows, indent="  ")
    if history := status.get("conditions"):
        output.say("Phases:")
        rows = [[each.get("status", ""), output.age(each.get("lastTransitionTime"), now)] for each in history[-SHOWN:]]
        output.table(["PHASE", "SINCE"], rows, indent="  ")


def tasks(job: Object) -> Iterator[list[str]]:
    """Yields a row per task of the Job, with the number of its pods in each phase."""
    counts = (job.get("status") or {}).get("taskStatusCount") or {}
    for index, task in enumerate(job["spec"].get("tasks") or ()):
        name = task.get("name") or f"default{index}"
        phases = (counts.get(name) or {}).get("phase") or {}
        pods = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()) if count)
        replicas = task.get("replicas") or 0
        least = task.get("minAvailable")
        yield [name, str(replicas), str(replicas if least is None else least), pods or "none"]


def failure(found: Object, now: datetime) -> list[str]:
    """Returns the row of a failed pod."""
    code = found.get("exitCode")
    why = ": ".join(str(part) for part in (found.get("reason"), found.get("message")) if part)
    return [
        found["pod"],
        found.get("container") or "",
        "" if code is None else str(code),
        output.age(found.get("time"), now),
        " ".join(why.split()),
    ]


async def _group_of(cluster: "Cluster", ref: Ref, body: Object, now: datetime) -> None:
    """Prints the Job's PodGroup and, if it is pending, the reason and its position in the queue."""
    try:
        groups = await verbs.list_objects(cluster, POD_GROUP, ref.namespace)
    except (Forbidden, NotFound) as error:
        output.note(f"penstock: the PodGroup is not shown: {output.reason(error)}")
        return
    uid = body["metadata"].get("uid")
    for group in groups:
        if (controller_of(group) or {}).get("uid") == uid:
            text = queue_order.why(group)
            state = f"{queue_order.phase(group)}{f': {text}' if text else ''}"
            output.say(f"PodGroup:      {group['metadata']['name']} {state}")
            await _position(cluster, group, now)


async def _position(cluster: "Cluster", group: Object, now: datetime) -> None:
    """Prints a pending PodGroup's position in its queue, and who holds what it needs."""
    if queue_order.phase(group) != queue_order.PENDING:
        return
    queue = queue_order.queue_of(group)
    pending = await pending_groups.read(cluster, queue, now)
    if pending and (position := pending.position(group)):
        output.say(f"Place:         {position} of {len(pending.groups)} that wait in queue {queue}")
    if lacks_room(group):
        try:
            pods = await verbs.list_objects(cluster, POD)
        except Forbidden as error:
            output.note(f"penstock: the holders of resources are not shown: {output.reason(error)}")
            return
        show_holders(*holders(group, pods))


def lacks_room(group: Object) -> bool:
    """Returns True if a PodGroup waits because others hold what it needs."""
    found = object_conditions.find(group, "Unschedulable") or {}
    return (found.get("status"), found.get("reason")) == ("True", "NotEnoughResources")


def holders(group: Object, pods: Iterable[Object]) -> tuple[list[str], list[list[str]]]:
    """Returns the header and a row per holder, the largest first. pods: of the whole cluster."""
    # Imported late, because loading the controllers takes longer than most commands.
    from workers.controllers.volcano.podgroup import vectors
    from workers.controllers.volcano.podgroup.members import member

    asked = vectors.plain(vectors.readable((group.get("spec") or {}).get("minResources"))) or dict.fromkeys(_USUAL, 1)
    names = [name for name, amount in sorted(asked.items()) if amount > 0]
    held: dict[str, dict[str, int]] = {}
    for one in map(member, pods):
        if one.occupies:
            holder = held.setdefault(_holder(one.pod), {})
            for name in {"pods", *names}:
                holder[name] = holder.get(name, 0) + one.requests.get(name, 0)

    def rank(holder: str) -> tuple[float, int, str]:
        share = max((held[holder].get(name, 0) / asked[name] for name in names), default=0.0)
        return -share, -held[holder]["pods"], holder

    columns = [name for name in names if name != "pods"]
    rows = [
        [holder, str(held[holder]["pods"] // 10**9), *(vectors.text(name, held[holder][name]) for name in columns)]
        for holder in sorted(held, key=rank)
    ]
    return ["HELD BY", "PODS", *map(str.upper, columns)], rows


def show_holders(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints the largest holders."""
    if rows:
        total = len(rows)
        output.say(f"Held{f' ({total} holders, the largest {HOLDERS_SHOWN} shown)' if total > HOLDERS_SHOWN else ''}:")
        output.table(header, rows[:HOLDERS_SHOWN], indent="  ")


def _holder(pod: Object) -> str:
    """Returns the pod's PodGroup, else its controller, else the pod."""
    metadata = pod["metadata"]
    owner = controller_of(pod)
    if group := (metadata.get("annotations") or {}).get(GROUP_NAME):
        name = f"PodGroup/{group}"
    else:
        name = f"{owner['kind']}/{owner['name']}" if owner else f"Pod/{metadata['name']}"
    return f"{metadata['namespace']} {name}"
