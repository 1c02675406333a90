"""``penstock logs``: the logs of one pod, or of all pods of a Job or of a Job's owner."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, discovery, output
from deploy.cli.completion import completers
from workers.api.kinds import (
    CRON_JOB,
    EVENT_JOB,
    JOB,
    JOB_FLOW,
    POD,
    SCALED_JOB,
    SCHEDULED_JOB,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
    controller_of,
)
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The pods' label that names an owner of each kind: Kubernetes' and Volcano's for Jobs, KEDA's for ScaledJobs.
LABELS = {JOB.id: "job-name", VC_JOB.id: "volcano.sh/job-name", SCALED_JOB.id: "scaledjob.keda.sh/name"}
#: Owners that no pod label names, and the kind of their Jobs, whose owner references name them.
OWNERS = {SCHEDULED_JOB.id: JOB, EVENT_JOB.id: JOB, CRON_JOB.id: JOB, VC_CRON_JOB.id: VC_JOB, JOB_FLOW.id: VC_JOB}


@click.command("logs")
@click.argument("what", metavar="POD | KIND/NAME", shell_complete=completers.what)
@click.option("-c", "--container", help="Which container; without it the first, or all with --all-containers.")
@click.option("--all-containers", is_flag=True, help="Every container of the pod.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the pods end.")
@click.option("--tail", type=click.IntRange(min=-1), default=-1, metavar="N", help="Only the last N lines.")
@click.option("-p", "--previous", is_flag=True, help="The run before the last restart.")
@click.option("--timestamps", is_flag=True, help="The time in front of each line.")
@api_connection.cluster_options
def command(
    what: str,
    container: str | None,
    all_containers: bool,
    follow: bool,
    tail: int,
    previous: bool,
    timestamps: bool,
    target: api_connection.ConnectionTarget,
) -> None:
    """Print the logs of a pod, or of all pods of an object.

    The object is a Job (Volcano's, too), a ScaledJob, a ScheduledJob, a CronJob, an EventJob or a
    JobFlow. With several pods or containers each line starts with [pod] or [pod/container].

    \b
    Examples:
      penstock logs crunch-1-x7k2p
      penstock logs job/crunch-1 -f
      penstock logs scaledjob/crunch --tail 5
      penstock logs cronjob/backup
      penstock logs vcjob/gang
      penstock logs crunch-1-x7k2p -c worker --previous
    """
    if container and all_containers:
        raise click.UsageError("--container and --all-containers exclude each other")
    query = parameters(follow=follow, tail=tail, previous=previous, timestamps=timestamps)

    async def work(cluster: "Cluster") -> None:
        pods = await chosen(cluster, what, target.namespace)
        streams = [
            (pod["metadata"]["name"], name) for pod in pods for name in containers(pod, container, all_containers)
        ]
        if follow:
            # Unscheduled pods have no logs yet; the server refuses to follow them.
            await asyncio.gather(*(started(cluster, target.namespace, pod, name) for pod, name in streams))
        await printed(cluster, target.namespace, streams, query, side_by_side=follow)

    api_connection.run(target, work)


def parameters(*, follow: bool, tail: int, previous: bool, timestamps: bool) -> dict[str, str]:
    """Returns the query of a log request."""
    query = {
        name: "true" for name, on in (("follow", follow), ("previous", previous), ("timestamps", timestamps)) if on
    }
    return query if tail < 0 else {**query, "tailLines": str(tail)}


async def chosen(cluster: "Cluster", what: str, namespace: str) -> list[Object]:
    """Returns the pods of ``POD``, ``pod/NAME``, ``job/NAME`` or another owner, the oldest first."""
    text, slash, name = what.rpartition("/")
    if not name:
        raise UserError(f"{what}: a name is missing")
    if not slash or text in ("pod", "pods", "po"):
        return [await cluster.request("GET", POD.path(namespace, name))]
    kind = (await discovery.discover(cluster)).find(text).kind
    if kind.id not in LABELS | OWNERS:
        raise UserError(
            f"{what}: logs are of a pod, a Job, a ScaledJob, a ScheduledJob, a CronJob, an EventJob or a JobFlow"
        )
    owner: Object = await cluster.request("GET", kind.path(namespace, name))
    found = await below(cluster, kind, owner, namespace)
    if not found:
        raise UserError(f"{kind.kind} {namespace}/{name} has no pods")
    return sorted(found, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))


async def below(cluster: "Cluster", kind: Kind, owner: Object, namespace: str) -> list[Object]:
    """Returns the pods of an object's Jobs, or of the Job itself."""
    if label := LABELS.get(kind.id):
        return await labelled(cluster, namespace, f"{label}={owner['metadata']['name']}")
    of = OWNERS[kind.id]
    jobs = (await cluster.request("GET", of.path(namespace)))["items"]
    uid = owner["metadata"]["uid"]
    names = {job["metadata"]["name"] for job in jobs if (controller_of(job) or {}).get("uid") == uid}
    pods = await labelled(cluster, namespace, LABELS[of.id])
    return [pod for pod in pods if pod["metadata"]["labels"][LABELS[of.id]] in names]


async def labelled(cluster: "Cluster", namespace: str, selector: str) -> list[Object]:
    """Returns the pods that match a label selector."""
    answer = await cluster.request("GET", POD.path(namespace), query={"labelSelector": selector})
    return list(answer["items"])


def containers(pod: Object, wanted: str | None, everything: bool) -> list[str]:
    """Returns the pod's containers to print. Raises UserError, which lists the pod's containers, for an unknown one."""
    spec = pod["spec"]
    names = [entry["name"] for field in ("initContainers", "containers") for entry in spec.get(field) or ()]
    if wanted and wanted not in names:
        raise UserError(f"pod {pod['metadata']['name']} has no container {wanted}; it has {', '.join(names)}")
    if wanted:
        return [wanted]
    return names if everything else [spec["containers"][0]["name"]]


async def started(cluster: "Cluster", namespace: str, pod: str, container: str) -> None:
    """Waits until a container has started (or ended)."""
    while True:
        status = (await cluster.request("GET", POD.path(namespace, pod))).get("status") or {}
        states = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        state = next((entry.get("state") or {} for entry in states if entry["name"] == container), {})
        if "running" in state or "terminated" in state or status.get("phase") in ("Succeeded", "Failed"):
            return
        await asyncio.sleep(0.2)


async def printed(
    cluster: "Cluster",
    namespace: str,
    streams: Sequence[tuple[str, str]],
    query: dict[str, str],
    *,
    side_by_side: bool,
) -> None:
    """Prints the streams one by one, or concurrently while following them."""
    several_containers = len({container for _, container in streams}) > 1

    async def one(pod: str, container: str) -> None:
        mark = f"[{pod}/{container}] " if several_containers else f"[{pod}] "
        prefix = mark if len(streams) > 1 else ""
        path = POD.path(namespace, pod, "log")
        async for line in cluster.stream_lines(path, {**query, "container": container}):
            output.pass_on(prefix + line.decode(errors="replace"))

    if side_by_side:
        await asyncio.gather(*(one(*stream) for stream in streams))
    else:
        for stream in streams:
            await one(*stream)
