"""``penstock flow``: JobFlows, with vcctl's verbs and those that only Penstock's flows know."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import connection, output
from deploy.cli.objects import describe
from deploy.cli.objects.apply import MERGE_PATCH
from deploy.cli.volcano import columns, files, flags
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, Object, Ref
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

COLUMNS = ("Name", "Namespace", "Phase", "Age")
#: What a file of flows may hold.
KINDS = (JOB_FLOW, JOB_TEMPLATE)
#: Phases from which a flow is run again.
ENDED_BADLY = ("Failed", "Terminated")
#: Phases in which there is nothing left to hold back or to end.
OVER = ("Succeed", "Terminated")


@click.group("flow", no_args_is_help=True)
def group() -> None:
    """Make, list and steer JobFlows of Volcano.

    The verbs of `vcctl jobflow`, and suspend, resume, cancel and retry. `penstock jobflow` is the same.

    \b
    Examples:
      penstock flow create -f examples/jobflow.yaml
      penstock flow list
      penstock flow describe -N nightly -o text
      penstock flow retry -N nightly
    """


@group.command("create")
@flags.SOURCE
@flags.namespaced
def create(source: str, target: connection.ConnectionTarget) -> None:
    """Make the JobFlows of a file, and the JobTemplates in it.

    \b
    Examples:
      penstock flow create -f examples/jobflow.yaml
    """
    found = files.read(source, KINDS, target.namespace)
    connection.run(target, lambda cluster: files.create(cluster, found))


@group.command("list")
@flags.EVERYWHERE
@flags.namespaced
def list_(everywhere: bool, target: connection.ConnectionTarget) -> None:
    """List flows.

    \b
    Examples:
      penstock flow list --all-namespaces
    """

    async def work(cluster: "Cluster") -> None:
        show(await columns.items(cluster, JOB_FLOW, "" if everywhere else target.namespace))

    connection.run(target, work)


@group.command("get")
@flags.NAME
@flags.namespaced
def get(name: str, target: connection.ConnectionTarget) -> None:
    """Show one flow.

    \b
    Examples:
      penstock flow get -N nightly
    """

    async def work(cluster: "Cluster") -> None:
        show([await cluster.request("GET", JOB_FLOW.path(target.namespace, name))])

    connection.run(target, work)


def show(flows: list[Object]) -> None:
    """The table of flows."""
    now = datetime.now(UTC)
    columns.show(COLUMNS, [row(flow, now) for flow in flows])


def row(flow: Object, now: datetime) -> list[Any]:
    """One flow as `list` and `get` show it."""
    metadata = flow["metadata"]
    age = output.age(metadata.get("creationTimestamp"), now)
    return [metadata["name"], metadata["namespace"], phase(flow), age]


def phase(flow: Object) -> str:
    """How far a flow is; empty when nobody has looked at it yet."""
    return ((flow.get("status") or {}).get("state") or {}).get("phase") or ""


@group.command("describe")
@flags.NAME_OR_ALL
@click.option(
    "-o",
    "--format",
    "form",
    type=click.Choice((*files.FORMATS, "text")),
    default="yaml",
    show_default=True,
    help="text: with its graph, Jobs and Events.",
)
@flags.namespaced
def describe_(name: str | None, form: str, target: connection.ConnectionTarget) -> None:
    """Show flows whole.

    \b
    Examples:
      penstock flow describe -N nightly -o text
      penstock flow describe -o json
    """

    async def work(cluster: "Cluster") -> None:
        found = await files.bodies(cluster, JOB_FLOW, target.namespace, name)
        if form != "text":
            files.write(found, form)
            return
        for index, flow in enumerate(found):
            if index:
                output.say("\n")
            await describe.describe(cluster, Ref(JOB_FLOW, target.namespace, flow["metadata"]["name"]))
        if not found:
            output.say("No resources found")

    connection.run(target, work)


@group.command("delete")
@flags.NAME_OR_FILE
@flags.FILE
@flags.namespaced
def delete(name: str | None, source: str | None, target: connection.ConnectionTarget) -> None:
    """Delete a flow and its Jobs, or what a file describes.

    \b
    Examples:
      penstock flow delete -N nightly
      penstock flow delete -f examples/jobflow.yaml
    """
    refs = files.named(name, source, KINDS, target.namespace)
    connection.run(target, lambda cluster: files.delete(cluster, refs))


# --- what vcctl does not have


@group.command("suspend")
@flags.NAME
@flags.namespaced
def suspend(name: str, target: connection.ConnectionTarget) -> None:
    """Start nothing new in a flow; Jobs that run go on.

    \b
    Examples:
      penstock flow suspend -N nightly
    """
    _steer(name, target, "suspend")


@group.command("resume")
@flags.NAME
@flags.namespaced
def resume(name: str, target: connection.ConnectionTarget) -> None:
    """Let a suspended flow go on.

    \b
    Examples:
      penstock flow resume -N nightly
    """
    _steer(name, target, "resume")


@group.command("cancel")
@flags.NAME
@flags.namespaced
def cancel(name: str, target: connection.ConnectionTarget) -> None:
    """End a flow: nothing new starts, and Jobs that run are terminated.

    \b
    Examples:
      penstock flow cancel -N nightly
    """
    _steer(name, target, "cancel")


@group.command("retry")
@flags.NAME
@flags.namespaced
def retry(name: str, target: connection.ConnectionTarget) -> None:
    """Run once more what failed, was terminated or was skipped in a flow that ended so.

    What completed stays, unless it depends on what failed. A flow that was cancelled is no longer.

    \b
    Examples:
      penstock flow retry -N nightly
    """
    _steer(name, target, "retry")


def _steer(name: str, target: connection.ConnectionTarget, verb: str) -> None:
    async def work(cluster: "Cluster") -> None:
        path = JOB_FLOW.path(target.namespace, name)
        flow: Object = await cluster.request("GET", path)
        patch = change(flow, verb, datetime.now(UTC))
        if patch:
            await cluster.request("PATCH", path, body=patch, headers=MERGE_PATCH)
        output.say(f"{verb} flow {name}: {'asked for' if patch else 'nothing to change'}")

    connection.run(target, work)


def change(flow: Object, verb: str, now: datetime) -> Object:
    """What is merged into the flow; empty when it is so already.

    Raises UserError when the verb means nothing for the flow as it is.
    """
    from workers.api.volcano.jobflow import RETRY

    name, spec, reached = flow["metadata"]["name"], flow.get("spec") or {}, phase(flow)
    if verb == "retry":
        if reached not in ENDED_BADLY:
            raise UserError(
                f"flow {name} is {reached or 'new'}: what is Failed or Terminated can be run again, nothing else"
            )
        # Two within one second are two.
        again = {"metadata": {"annotations": {RETRY: now.isoformat(timespec="microseconds")}}}
        return {**again, "spec": {"cancel": None}} if spec.get("cancel") else again
    if verb == "resume":
        if spec.get("cancel"):
            raise UserError(
                f"flow {name} is cancelled: `penstock flow retry -N {name}` runs it again once it has ended"
            )
        return {"spec": {"suspend": None}} if spec.get("suspend") else {}
    if reached in OVER:
        raise UserError(f"flow {name} is over: {reached}")
    return {} if spec.get(verb) else {"spec": {verb: True}}
