"""``penstock flow``: JobFlows, with vcctl's verbs, and suspend, resume, cancel and retry."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import api_connection, output
from deploy.cli.objects import describe
from deploy.cli.objects.apply import MERGE_PATCH
from deploy.cli.volcano.verbs import KindVerbs, Work, age, help_text
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, Object
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: Phases in which a flow can be retried.
ENDED_BADLY = ("Failed", "Terminated")
#: Phases in which a flow can no longer be suspended or cancelled.
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


def row(flow: Object, now: datetime) -> list[Any]:
    """Returns a flow's columns for `list` and `get`."""
    metadata = flow["metadata"]
    created = age(metadata.get("creationTimestamp"), now)
    return [metadata["name"], metadata["namespace"], phase(flow), created]


def phase(flow: Object) -> str:
    """Returns a flow's phase; empty before its first reconciliation."""
    return ((flow.get("status") or {}).get("state") or {}).get("phase") or ""


def patching(verb: str) -> Callable[..., Work]:
    """Returns the function that begins a verb which patches one flow."""

    def begin(target: api_connection.ConnectionTarget, name: str) -> Work:
        async def work(cluster: "Cluster") -> None:
            path = JOB_FLOW.path(target.namespace, name)
            flow: Object = await cluster.request("GET", path)
            patch = change(flow, verb, datetime.now(UTC))
            if patch:
                await cluster.request("PATCH", path, body=patch, headers=MERGE_PATCH)
            output.say(f"{verb} flow {name}: {'asked for' if patch else 'nothing to change'}")

        return work

    return begin


def change(flow: Object, verb: str, now: datetime) -> Object:
    """Returns the merge patch of a verb; empty if nothing changes.

    Raises UserError if the flow's phase does not allow the verb.
    """
    from workers.api.volcano.jobflow import RETRY

    name, spec, reached = flow["metadata"]["name"], flow.get("spec") or {}, phase(flow)
    if verb == "retry":
        if reached not in ENDED_BADLY:
            raise UserError(
                f"flow {name} is {reached or 'new'}: what is Failed or Terminated can be run again, nothing else"
            )
        # Microseconds, because two retries within one second are two requests.
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


VERBS = KindVerbs(group, JOB_FLOW, ("Name", "Namespace", "Phase", "Age"), row, also=(JOB_TEMPLATE,))
VERBS.add_create(help_text("Make the JobFlows and JobTemplates of a file.", "flow create -f examples/jobflow.yaml"))
VERBS.add_list(help_text("List flows.", "flow list --all-namespaces"))
VERBS.add_get(help_text("Show one flow.", "flow get -N nightly"))
VERBS.add_describe(
    help_text("Print complete flows.", "flow describe -N nightly -o text", "flow describe -o json"), describe.describe
)
VERBS.add_delete_files(
    help_text(
        "Delete a flow and its Jobs, or the objects of a file.",
        "flow delete -N nightly",
        "flow delete -f examples/jobflow.yaml",
    )
)
# vcctl has no equivalents of these.
for verb, text in (
    ("suspend", "Start no further Jobs of a flow; running Jobs continue."),
    ("resume", "Resume a suspended flow."),
    ("cancel", "End a flow: terminate its Jobs and start no further ones."),
    (
        "retry",
        "Run the failed, terminated and skipped Jobs of a flow again.\n\n"
        "Completed Jobs stay, unless they depend on a failed one. The flow is no longer cancelled.",
    ),
):
    VERBS.add(verb, help_text(text, f"flow {verb} -N nightly"), patching(verb), VERBS.name)
