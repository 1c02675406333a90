"""``penstock job``: Jobs of Volcano, with vcctl's verbs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from deploy.cli import api_connection, manifests, output
from deploy.cli.objects import describe
from deploy.cli.volcano import verbs
from deploy.cli.volcano.verbs import KindVerbs, help_text
from workers.api import kinds, quantities
from workers.api.kinds import VC_JOB, Object, Ref
from workers.api.references import DEFAULT_QUEUE
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: The label of the pods of a Job that `run` makes from flags.
LABEL = "job.volcano.sh"
#: The label of a Job that names its type of work.
TYPE = "volcano.sh/job-type"
#: The default requests and limits of a pod.
AMOUNTS = "cpu=1000m,memory=100Mi"
COLUMNS = ("Name", "Creation", "Phase", "JobType", "Replicas", "Min")
COUNTERS = {
    "Pending": "pending",
    "Running": "running",
    "Succeeded": "succeeded",
    "Failed": "failed",
    "Unknown": "unknown",
    "RetryCount": "retryCount",
}
#: Phases of a Job that a Command suspended, and phases that no Command leaves.
SUSPENDED = ("Aborting", "Aborted")
ENDING = ("Completing", "Terminating", "Completed", "Failed", "Terminated")
#: The parameters of `run` that exclude a file.
_DESCRIBING = frozenset({"name", "image", "least", "replicas", "requests", "limits", "scheduler", "words"})


@click.group("job", no_args_is_help=True)
def group() -> None:
    """Run, list and steer Jobs of Volcano.

    The verbs of `vcctl job`. For Jobs of batch/v1, see `penstock get jobs`.

    \b
    Examples:
      penstock job run -N hello -r 3 -m 3 -- sh -c "echo hello"
      penstock job run -f examples/volcano-job.yaml
      penstock job list
      penstock job suspend -N hello
    """


VERBS = KindVerbs(group, VC_JOB)


@dataclass(frozen=True, slots=True)
class Launch:
    """A Job of one task, from flags. words: the container's command; empty for the image's own."""

    name: str
    image: str
    least: int
    replicas: int
    requests: dict[str, str]
    limits: dict[str, str]
    scheduler: str
    words: tuple[str, ...] = field(default=())

    def job(self, namespace: str) -> Object:
        """Returns the Job's manifest."""
        amounts = {"requests": self.requests, "limits": self.limits}
        container = {
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {key: value for key, value in amounts.items() if value},
            **({"command": list(self.words)} if self.words else {}),
        }
        template = {
            "metadata": {"name": self.name, "labels": {LABEL: self.name}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        return {
            **VC_JOB.type_meta,
            "metadata": {"name": self.name, "namespace": namespace},
            "spec": {
                "minAvailable": self.least,
                "schedulerName": self.scheduler,
                "tasks": [{"replicas": self.replicas, "template": template}],
            },
        }


@group.command("run")
@verbs.NAME_OR_FILE
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of its containers.")
@click.option(
    "-m", "--min", "least", type=int, default=1, show_default=True, help="Number of pods that start together."
)
@click.option("-r", "--replicas", type=int, default=1, show_default=True, help="Number of pods.")
@click.option("-R", "--requests", default=AMOUNTS, show_default=True, help="Resource requests of each pod.")
@click.option("-L", "--limits", default=AMOUNTS, show_default=True, help="Resource limits of each pod.")
@click.option("-S", "--scheduler", default="volcano", show_default=True, help="The pods' schedulerName.")
@verbs.FILE
@click.argument("words", nargs=-1, metavar="[-- COMMAND...]")
@VERBS.cluster_options
def run(name: str | None, source: str | None, target: api_connection.ConnectionTarget, **given: Any) -> None:
    """Run a Job: one task of some pods, or the Job of a file.

    The embedded cluster ignores images, so a COMMAND is needed there.

    \b
    Examples:
      penstock job run -N hello -r 3 -m 3 -- sh -c "echo hello"
      penstock job run -N small -R cpu=100m,memory=10Mi -L ""
      penstock job run -f examples/volcano-job.yaml -n batch
    """
    if source:
        _alone()
        body = written(source, target.namespace)
    elif name:
        for flag in ("requests", "limits"):
            given[flag] = amounts(f"--{flag}", given[flag])
        body = Launch(name=name, **given).job(target.namespace)
    else:
        raise click.UsageError("either -N NAME or -f FILE is needed")

    async def work(cluster: "Cluster") -> None:
        path = VC_JOB.path(body["metadata"]["namespace"])
        made = await cluster.request("POST", path, query={"fieldValidation": "Strict"}, body=body)
        output.say(f"run job {made['metadata']['name']} successfully")

    api_connection.run(target, work)


def amounts(flag: str, text: str) -> dict[str, str]:
    """Returns the quantities by resource name of a list such as ``cpu=1000m,memory=100Mi``.

    Raises UserError if a part of the list is invalid; its message names the flag and the part.
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        if not name or not value or "=" in value:
            raise UserError(f"{flag}: {part!r}: NAME=QUANTITY is needed, as in cpu=500m,memory=1Gi")
        if name in found:
            raise UserError(f"{flag}: {name} stands twice")
        try:
            quantities.parse(value)
        except ValueError:
            raise UserError(f"{flag}: {name}: {value!r} is no quantity; one looks like 500m, 2 or 1Gi") from None
        found[name] = value
    return found


def _alone() -> None:
    """Raises UsageError if the command line describes a Job and also names a file."""
    context = click.get_current_context()
    typed = [
        each.human_readable_name if isinstance(each, click.Argument) else each.opts[0]
        for each in context.command.params
        if each.name in _DESCRIBING
        and context.params[each.name]
        and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]
    if typed:
        raise click.UsageError(f"with -f the file says everything: {', '.join(typed)} would be ignored")


def written(source: str, namespace: str) -> Object:
    """Returns the Job of a file; `namespace` is the default. Raises UserError unless the file holds exactly one Job."""
    found = manifests.read([source])
    if len(found) > 1 or kinds.by_manifest(found[0].api_version, found[0].kind) is not VC_JOB:
        names = ", ".join(f"{each.kind} {each.name} ({each.api_version})" for each in found)
        raise UserError(f"{source}: one Job of {VC_JOB.api_version} is needed, and there is {names}")
    metadata = {**found[0].body["metadata"], "namespace": found[0].namespace or namespace}
    return {**found[0].body, "metadata": metadata}


@group.command("list")
@click.option("-q", "--queue", metavar="NAME", help="Only Jobs of this queue.")
@click.option("-S", "--scheduler", metavar="NAME", help="Only Jobs of this scheduler.")
@click.option("--selector", default="", metavar="TEXT", help="Only Jobs with this text in their names.")
@verbs.EVERYWHERE
@VERBS.cluster_options
def list_(
    queue: str | None, scheduler: str | None, selector: str, everywhere: bool, target: api_connection.ConnectionTarget
) -> None:
    """List Jobs.

    \b
    Examples:
      penstock job list
      penstock job list --all-namespaces -q research --selector train
    """

    async def work(cluster: "Cluster") -> None:
        found = await verbs.list_objects(cluster, VC_JOB, "" if everywhere else target.namespace)
        chosen = [
            job
            for job in found
            if queue in (None, job["spec"].get("queue") or DEFAULT_QUEUE)
            if scheduler in (None, job["spec"].get("schedulerName"))
            if selector in job["metadata"]["name"]
        ]
        before = ("Namespace",) if everywhere else ()
        verbs.print_table((*before, *COLUMNS, *COUNTERS), [row(job, everywhere) for job in chosen])

    api_connection.run(target, work)


def row(job: Object, everywhere: bool = False) -> list[Any]:
    """Returns a Job's columns for `list`."""
    metadata, status = job["metadata"], job.get("status") or {}
    return [
        *([metadata["namespace"]] if everywhere else []),
        metadata["name"],
        (metadata.get("creationTimestamp") or "")[:10],
        (status.get("state") or {}).get("phase"),
        (metadata.get("labels") or {}).get(TYPE) or "Batch",
        sum(task.get("replicas") or 0 for task in job["spec"].get("tasks") or ()),
        status.get("minAvailable") or 0,
        *(status.get(counter) or 0 for counter in COUNTERS.values()),
    ]


def _view(target: api_connection.ConnectionTarget, name: str) -> verbs.Work:
    ref = Ref(VC_JOB, target.namespace, name)

    async def work(cluster: "Cluster") -> None:
        body = await cluster.request("GET", ref.kind.path(ref.namespace, name))
        await describe.describe(cluster, ref, body, target.homes)

    return work


VERBS.add(
    "view",
    help_text("Show a Job with its tasks, its pods, its failures and its Events.", "job view -N hello"),
    _view,
    VERBS.name,
)


def has_effect(job: Object, action: str) -> bool:
    """Returns True if the Command AbortJob or ResumeJob changes a Job in its phase.

    Raises UserError for a Job that has ended, is ending, or whose spec suspends it.
    """
    name = job["metadata"]["name"]
    phase = ((job.get("status") or {}).get("state") or {}).get("phase") or "Pending"
    if phase in ENDING:
        raise UserError(f"job {name} is {phase}: it can be neither suspended nor resumed")
    if action == "ResumeJob" and job["spec"].get("suspend"):
        raise UserError(f"job {name}: spec.suspend is true: set it to false to resume the Job")
    return (phase in SUSPENDED) == (action == "ResumeJob")


VERBS.add_action(
    "suspend",
    "AbortJob",
    help_text("Abort a Job until it is resumed; its pods end.", "job suspend -N hello"),
    has_effect,
)
VERBS.add_action("resume", "ResumeJob", help_text("Run an aborted Job again.", "job resume -N hello"), has_effect)
VERBS.add_delete(help_text("Delete a Job and its pods.", "job delete -N hello"))
