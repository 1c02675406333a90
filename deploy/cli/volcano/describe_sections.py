"""What `describe` shows of Volcano's kinds besides what it shows of all: tasks, failures, and who waits for what."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.volcano import queue_order, verbs
from workers.api.kinds import JOB_FLOW, POD_GROUP, QUEUE, VC_JOB, Object, Ref, controller_of
from workers.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: Status fields that these sections show.
TABLES = frozenset({"failures", "taskStatusCount"})
#: Phases of a Job's history that are shown, the newest.
SHOWN = 10


def conditions(ref: Ref, body: Object) -> Sequence[Object]:
    """The conditions in the common form. A Job has a history of phases under their name instead, a flow another map."""
    status = body.get("status") or {}
    if ref.kind.id == VC_JOB.id:
        return ()
    found: Sequence[Object] = status.get("flowConditions" if ref.kind.id == JOB_FLOW.id else "conditions") or ()
    return found


async def show(cluster: "Cluster", ref: Ref, body: Object, now: datetime) -> None:
    """Print the sections of a Job, a Queue, a PodGroup or a JobFlow; of any other kind nothing."""
    if ref.kind.id == VC_JOB.id:
        _job(body, now)
        await _group_of(cluster, ref, body, now)
    elif ref.kind.id == QUEUE.id:
        if line := await queue_order.read(cluster, ref.name, now):
            queue_order.show(line, now)
    elif ref.kind.id == POD_GROUP.id:
        await _place(cluster, body, now)
    elif ref.kind.id == JOB_FLOW.id:
        _graph(body)


def _graph(flow: Object) -> None:
    """A flow's entries, each below what it depends on."""
    # Here, because the language of flows is made of models: loading them takes longer than most commands.
    from workers.flows.drawing import graph

    output.say("Graph:")
    for line in graph(flow).splitlines():
        output.say(f"  {line}")


def _job(body: Object, now: datetime) -> None:
    """Why the job is where it is, its tasks, its failures, and the phases it went through."""
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
    """The rows of a job's tasks: how many pods of each are in which phase."""
    counts = (job.get("status") or {}).get("taskStatusCount") or {}
    for index, task in enumerate(job["spec"].get("tasks") or ()):
        name = task.get("name") or f"default{index}"
        phases = (counts.get(name) or {}).get("phase") or {}
        told = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()) if count)
        replicas = task.get("replicas") or 0
        least = task.get("minAvailable")
        yield [name, str(replicas), str(replicas if least is None else least), told or "none"]


def failure(found: Object, now: datetime) -> list[str]:
    """The row of a pod that failed."""
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
    """The job's PodGroup, and why it waits."""
    try:
        groups = await verbs.list_objects(cluster, POD_GROUP, ref.namespace)
    except (Forbidden, NotFound) as error:
        output.note(f"penstock: the PodGroup is not shown: {output.reason(error)}")
        return
    uid = body["metadata"].get("uid")
    for group in groups:
        if (controller_of(group) or {}).get("uid") == uid:
            text = queue_order.why(group)
            told = f"{queue_order.phase(group)}{f': {text}' if text else ''}"
            output.say(f"PodGroup:      {group['metadata']['name']} {told}")
            await _place(cluster, group, now)


async def _place(cluster: "Cluster", group: Object, now: datetime) -> None:
    """Which one in its queue a PodGroup is, while it waits."""
    if queue_order.phase(group) != queue_order.PENDING:
        return
    queue = queue_order.queue_of(group)
    line = await queue_order.read(cluster, queue, now)
    if line and (place := line.place(group)):
        output.say(f"Place:         {place} of {len(line.groups)} that wait in queue {queue}")
