"""``penstock queue``: queues of Volcano, with vcctl's verbs."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import api_connection, output
from deploy.cli.objects.apply import MERGE_PATCH
from deploy.cli.volcano import pending_groups, verbs
from deploy.cli.volcano.verbs import KindVerbs, help_text
from workers.admission.volcano.queue_lookup import ROOT
from workers.api.kinds import QUEUE, Object, Ref

if TYPE_CHECKING:
    from workers.client.rest import Cluster

COLUMNS = ("Name", "Weight", "State", "Parent")
COUNTERS = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
ACTIONS = {"open": "OpenQueue", "close": "CloseQueue"}
#: The range of a queue's weight.
WEIGHT = click.IntRange(1, 65535)


@click.group("queue", no_args_is_help=True)
def group() -> None:
    """Make, list, open and close queues of Volcano.

    The verbs of `vcctl queue`. Queues have no namespace; -n is the name.

    \b
    Examples:
      penstock queue create -n research -w 4
      penstock queue list
      penstock queue get -n research
      penstock queue operate -n research -a close
    """


def row(found: Object, _now: datetime) -> list[Any]:
    """Returns a queue's columns for `list` and `get`."""
    spec, status = found.get("spec") or {}, found.get("status") or {}
    return [
        found["metadata"]["name"],
        spec.get("weight") or 0,
        status.get("state"),
        spec.get("parent"),
        *(status.get(counter.lower()) or 0 for counter in COUNTERS),
    ]


async def show_pending(cluster: "Cluster", name: str) -> None:
    """Prints a queue's pending PodGroups."""
    now = datetime.now(UTC)
    if pending := await pending_groups.read(cluster, name, now):
        pending_groups.show(pending, now)


VERBS = KindVerbs(group, QUEUE, (*COLUMNS, *COUNTERS), row)


@group.command("create")
@click.option("-n", "--name", default="test", show_default=True, metavar="NAME", help="Its name.")
@click.option("-w", "--weight", type=WEIGHT, default=1, show_default=True, help="Its weight relative to other queues.")
@click.option(
    "-S",
    "--state",
    type=click.Choice(("Open", "Closed")),
    default="Open",
    show_default=True,
    help="A closed queue accepts no work until it is opened.",
)
@VERBS.cluster_options
def create(name: str, weight: int, state: str, target: api_connection.ConnectionTarget) -> None:
    """Make a queue.

    \b
    Examples:
      penstock queue create -n research -w 4
    """

    async def work(cluster: "Cluster") -> None:
        await cluster.request("POST", QUEUE.path(), body=queue(name, weight, state))
        if state == "Closed":
            # The API server drops the status of a new object, so a Command closes the queue.
            await verbs.send_command(cluster, Ref(QUEUE, "", name), ACTIONS["close"])
        output.say(f"create queue {name} successfully")

    api_connection.run(target, work)


def queue(name: str, weight: int, state: str) -> Object:
    """Returns the new queue's manifest."""
    return {
        **QUEUE.type_meta,
        "metadata": {"name": name},
        "spec": {"weight": weight},
        "status": {"state": state},
    }


VERBS.add_list(help_text("List queues with their number of PodGroups in each phase.", "queue list"))
VERBS.add_get(
    help_text("Show one queue and its pending PodGroups in admission order.", "queue get -n research"), show_pending
)


@group.command("operate")
@VERBS.name
@click.option(
    "-a",
    "--action",
    type=click.Choice((*ACTIONS, "update")),
    required=True,
    help="Open it, close it (running work continues), or change its weight.",
)
@click.option("-w", "--weight", type=WEIGHT, help="Its new weight, for update.")
@VERBS.cluster_options
def operate(name: str, action: str, weight: int | None, target: api_connection.ConnectionTarget) -> None:
    """Open or close a queue, or change its weight.

    \b
    Examples:
      penstock queue operate -n research -a close
      penstock queue operate -n research -a update -w 8
    """
    if (weight is None) == (action == "update"):
        raise click.UsageError("--weight is needed for update, and for nothing else")
    if (name, action) == (ROOT, "close"):
        raise click.UsageError(f"queue {ROOT} is never closed")

    async def work(cluster: "Cluster") -> None:
        if action in ACTIONS:
            await VERBS.request(cluster, Ref(QUEUE, "", name), action, ACTIONS[action])
        else:
            patch = {"spec": {"weight": weight}}
            await cluster.request("PATCH", QUEUE.path(name=name), body=patch, headers=MERGE_PATCH)
            output.say(f"update queue {name} successfully")

    api_connection.run(target, work)


VERBS.add_delete(help_text("Delete a queue that is not in use.", "queue delete -n research"))
