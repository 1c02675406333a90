"""``penstock logs``: the logs of one pod, or of all pods of a Job or of a Job's owner."""

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, discovery, options, output
from deploy.cli.completion import completers
from scheduler.cron import durations
from workers.api import times
from workers.api.kinds import (
    CRON_JOB,
    DEPLOYMENT,
    EVENT_JOB,
    JOB,
    JOB_FLOW,
    POD,
    REPLICA_SET,
    SCALED_JOB,
    SCHEDULED_JOB,
    STATEFUL_SET,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
    controller_of,
)
from workers.errors import ClusterError, Forbidden, Invalid, NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The pods' label that names an owner of each kind: Kubernetes' and Volcano's for Jobs, KEDA's for ScaledJobs.
LABELS = {JOB.id: "job-name", VC_JOB.id: "volcano.sh/job-name", SCALED_JOB.id: "scaledjob.keda.sh/name"}
#: Owners that no pod label names, and the kind of their Jobs, whose owner references name them.
OWNERS = {SCHEDULED_JOB.id: JOB, EVENT_JOB.id: JOB, CRON_JOB.id: JOB, VC_CRON_JOB.id: VC_JOB, JOB_FLOW.id: VC_JOB}
#: Kinds whose scale names the labels of their pods.
SCALED = (DEPLOYMENT.id, REPLICA_SET.id, STATEFUL_SET.id)
#: The annotation that names a pod's container for readers who name none.
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@click.command("logs")
@click.argument("what", required=False, metavar="[POD | KIND/NAME]", shell_complete=completers.what)
@options.selector("The pods with these labels: app=x,tier!=y.")
@click.option(
    "-c",
    "--container",
    type=options.WORD,
    metavar="NAME",
    help="Which container; without it the first, or all with --all-containers.",
)
@click.option("--all-containers", is_flag=True, help="Every container of the pod.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the pods end.")
@click.option("--tail", type=click.IntRange(min=-1), default=-1, metavar="N", help="Only the last N lines.")
@click.option("--since", metavar="DURATION", help="Only lines of the last 30s, 5m or 2h.")
@click.option("--since-time", metavar="TIME", help="Only lines since this time: 2026-03-01T08:00:00Z.")
@click.option("-p", "--previous", is_flag=True, help="The run before the last restart.")
@click.option("--timestamps", is_flag=True, help="The time in front of each line.")
@api_connection.cluster_options
def command(
    what: str | None,
    selector: str,
    container: str | None,
    all_containers: bool,
    follow: bool,
    tail: int,
    since: str | None,
    since_time: str | None,
    previous: bool,
    timestamps: bool,
    target: api_connection.ConnectionTarget,
) -> None:
    """Print the logs of a pod, or of all pods of an object.

    The object is a Job (Volcano's, too), a ScaledJob, a ScheduledJob, a CronJob, an EventJob, a JobFlow, a Deployment,
    a ReplicaSet or a StatefulSet. With several pods or containers each line starts with [pod] or [pod/container].

    \b
    Examples:
      penstock logs crunch-1-x7k2p
      penstock logs job/crunch-1 -f
      penstock logs scaledjob/crunch --tail 5
      penstock logs cronjob/backup
      penstock logs vcjob/gang
      penstock logs -l app=crunch --since 5m
      penstock logs crunch-1-x7k2p -c worker --previous
    """
    if container and all_containers:
        raise click.UsageError("--container and --all-containers exclude each other")
    if bool(what) == bool(selector):
        raise click.UsageError("either POD, KIND/NAME or --selector is needed")
    if since and since_time:
        raise click.UsageError("--since and --since-time exclude each other")
    query = {
        **parameters(follow=follow, tail=tail, previous=previous, timestamps=timestamps),
        **since_parameters(since, since_time),
    }

    async def work(cluster: "Cluster") -> None:
        pods = await chosen(cluster, what, target.namespace) if what else await selected(cluster, target, selector)
        streams = [
            (pod["metadata"]["name"], name) for pod in pods for name in containers(pod, container, all_containers)
        ]
        await printed(cluster, target.namespace, streams, query, side_by_side=follow)

    api_connection.run(target, work)


def parameters(*, follow: bool, tail: int, previous: bool, timestamps: bool) -> dict[str, str]:
    """Returns the query of a log request."""
    query = {
        name: "true" for name, on in (("follow", follow), ("previous", previous), ("timestamps", timestamps)) if on
    }
    return query if tail < 0 else {**query, "tailLines": str(tail)}


def since_parameters(since: str | None, since_time: str | None) -> dict[str, str]:
    """Returns the part of a log request's query that leaves older lines out. Raises UserError for what is no time."""
    if since_time:
        try:
            return {"sinceTime": times.render(times.parse(since_time))}
        except ValueError as error:
            raise UserError(f"--since-time: {error}; a time looks like 2026-03-01T08:00:00+01:00") from None
    if since:
        try:
            seconds = durations.duration(since).total_seconds()
        except ValueError:
            seconds = 0
        if seconds <= 0:
            raise UserError(f"--since: {since!r} is no duration; one looks like 30s, 5m or 2h")
        return {"sinceSeconds": str(math.ceil(seconds))}
    return {}


async def selected(cluster: "Cluster", target: api_connection.ConnectionTarget, selector: str) -> list[Object]:
    """Returns the pods with these labels, the oldest first. Raises UserError if there are none."""
    found = await labelled(cluster, target.namespace, selector)
    if not found:
        raise UserError(f"namespace {target.namespace} has no pods with the labels {selector}")
    return _by_age(found)


def _by_age(pods: Sequence[Object]) -> list[Object]:
    return sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))


async def chosen(cluster: "Cluster", what: str, namespace: str) -> list[Object]:
    """Returns the pods of ``POD``, ``pod/NAME``, ``job/NAME`` or another owner, the oldest first."""
    text, slash, name = what.rpartition("/")
    if not name:
        raise UserError(f"{what}: a name is missing")
    if not slash or text in ("pod", "pods", "po"):
        return [await cluster.request("GET", POD.path(namespace, name))]
    kind = (await discovery.discover(cluster)).find(text).kind
    if kind.id not in (*LABELS, *OWNERS, *SCALED):
        raise UserError(
            f"{what}: logs are of a pod, a Job, a ScaledJob, a ScheduledJob, a CronJob, an EventJob, a JobFlow,"
            " a Deployment, a ReplicaSet or a StatefulSet"
        )
    owner: Object = await cluster.request("GET", kind.path(namespace, name))
    found = await below(cluster, kind, owner, namespace)
    if not found:
        raise UserError(f"{kind.kind} {namespace}/{name} has no pods")
    return _by_age(found)


async def below(cluster: "Cluster", kind: Kind, owner: Object, namespace: str) -> list[Object]:
    """Returns the pods of an object's Jobs, or of the Job or workload itself."""
    if kind.id in SCALED:
        scale = await cluster.request("GET", kind.path(namespace, owner["metadata"]["name"], "scale"))
        return await labelled(cluster, namespace, scale["status"]["selector"])
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
    if everything:
        return names
    usual = str((pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER))
    return [usual if usual in names else spec["containers"][0]["name"]]


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
    """Prints the streams one by one, or concurrently while following them, each from the start of its container.

    A stream that the server refuses, such as that of a pod without a node, leaves the others; the errors are told last.
    """
    refused: list[ClusterError] = []
    several_containers = len({container for _, container in streams}) > 1

    async def one(pod: str, container: str) -> None:
        mark = f"[{pod}/{container}] " if several_containers else f"[{pod}] "
        prefix = mark if len(streams) > 1 else ""
        path = POD.path(namespace, pod, "log")
        try:
            if side_by_side:
                # Unscheduled pods have no logs yet; the server refuses to follow them.
                await started(cluster, namespace, pod, container)
            async for line in cluster.stream_lines(path, {**query, "container": container}):
                output.pass_on(prefix + line.decode(errors="replace"))
        except (Forbidden, Invalid, NotFound) as error:
            refused.append(error)

    if side_by_side:
        await asyncio.gather(*(one(*stream) for stream in streams))
    else:
        for stream in streams:
            await one(*stream)
    output.raise_last(refused)
