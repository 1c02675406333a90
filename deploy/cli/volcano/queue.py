"""``penstock queue``: queues of Volcano, with vcctl's verbs."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from deploy.cli import connection, output
from deploy.cli.objects.apply import MERGE_PATCH
from deploy.cli.volcano import columns, commands, flags, queue_order
from workers.api.kinds import QUEUE, Object, Ref

if TYPE_CHECKING:
    from workers.client.rest import Cluster

COLUMNS = ("Name", "Weight", "State", "Parent")
COUNTERS = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
ACTIONS = {"open": "OpenQueue", "close": "CloseQueue"}
#: What a queue's weight may be.
WEIGHT = click.IntRange(1, 65535)

NAME = click.option("-n", "--name", required=True, metavar="NAME", help="Its name.")


@click.group("queue", no_args_is_help=True)
def group() -> None:
    """Make, list, open and close queues of Volcano.

    The verbs of `vcctl queue`. Queues have no namespace: -n is the name.

    \b
    Examples:
      penstock queue create -n research -w 4
      penstock queue list
      penstock queue get -n research
      penstock queue operate -n research -a close
    """


@group.command("create")
@click.option("-n", "--name", default="test", show_default=True, metavar="NAME", help="Its name.")
@click.option("-w", "--weight", type=WEIGHT, default=1, show_default=True, help="Its share beside other queues.")
@click.option(
    "-S",
    "--state",
    type=click.Choice(("Open", "Closed")),
    default="Open",
    show_default=True,
    help="Closed: it takes no work until it is opened.",
)
@flags.cluster_wide
def create(name: str, weight: int, state: str, target: connection.ConnectionTarget) -> None:
    """Make a queue.

    \b
    Examples:
      penstock queue create -n research -w 4
    """

    async def work(cluster: "Cluster") -> None:
        await cluster.request("POST", QUEUE.path(), body=queue(name, weight, state))
        if state == "Closed":
            # An API server drops the status of what is made.
            await commands.send(cluster, Ref(QUEUE, "", name), ACTIONS["close"])
        output.say(f"create queue {name} successfully")

    connection.run(target, work)


def queue(name: str, weight: int, state: str) -> Object:
    """The queue that is made."""
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": name},
        "spec": {"weight": weight},
        "status": {"state": state},
    }


@group.command("list")
@flags.cluster_wide
def list_(target: connection.ConnectionTarget) -> None:
    """List queues, with how many PodGroups of each are in which phase.

    \b
    Examples:
      penstock queue list
    """

    async def work(cluster: "Cluster") -> None:
        columns.show((*COLUMNS, *COUNTERS), [row(each) for each in await columns.items(cluster, QUEUE)])

    connection.run(target, work)


@group.command("get")
@NAME
@flags.cluster_wide
def get(name: str, target: connection.ConnectionTarget) -> None:
    """Show one queue, and who waits in it: in which order, and why.

    \b
    Examples:
      penstock queue get -n research
    """

    async def work(cluster: "Cluster") -> None:
        found = await cluster.request("GET", QUEUE.path(name=name))
        columns.show((*COLUMNS, *COUNTERS), [row(found)])
        now = datetime.now(UTC)
        if line := await queue_order.read(cluster, name, now):
            queue_order.show(line, now)

    connection.run(target, work)


def row(found: Object) -> list[Any]:
    """One queue as `list` and `get` show it."""
    spec, status = found.get("spec") or {}, found.get("status") or {}
    return [
        found["metadata"]["name"],
        spec.get("weight") or 0,
        status.get("state"),
        spec.get("parent"),
        *(status.get(counter.lower()) or 0 for counter in COUNTERS),
    ]


@group.command("operate")
@NAME
@click.option(
    "-a",
    "--action",
    type=click.Choice((*ACTIONS, "update")),
    required=True,
    help="Open it, close it (what runs goes on), or change its weight.",
)
@click.option("-w", "--weight", type=WEIGHT, help="Its new weight, for update.")
@flags.cluster_wide
def operate(name: str, action: str, weight: int | None, target: connection.ConnectionTarget) -> None:
    """Open or close a queue, or change its weight.

    \b
    Examples:
      penstock queue operate -n research -a close
      penstock queue operate -n research -a update -w 8
    """
    if (weight is None) == (action == "update"):
        raise click.UsageError("--weight is needed for update, and for nothing else")

    async def work(cluster: "Cluster") -> None:
        if action in ACTIONS:
            await commands.send(cluster, Ref(QUEUE, "", name), ACTIONS[action])
            output.say(f"{action} queue {name}: command {ACTIONS[action]} was given")
        else:
            patch = {"spec": {"weight": weight}}
            await cluster.request("PATCH", QUEUE.path(name=name), body=patch, headers=MERGE_PATCH)
            output.say(f"update queue {name} successfully")

    connection.run(target, work)


@group.command("delete")
@NAME
@flags.cluster_wide
def delete(name: str, target: connection.ConnectionTarget) -> None:
    """Delete a queue that nobody uses.

    \b
    Examples:
      penstock queue delete -n research
    """

    async def work(cluster: "Cluster") -> None:
        await cluster.request("DELETE", QUEUE.path(name=name))
        output.say(f"delete queue {name} successfully")

    connection.run(target, work)
