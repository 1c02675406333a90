"""``penstock events``: list, show, replay, drop and export the deliveries of an EventJob."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from deploy.cli import api_connection, output
from deploy.cli.events import delivery_selection
from deploy.cli.events.delivery_selection import NamedDeliveries
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

NAME = click.argument("name", metavar="EVENTJOB")
BROKER = click.option("--broker", metavar="URL", help="Penstock's own broker.")
FORM = click.option(
    "-o", "--output", "form", type=click.Choice(("json", "yaml", "wide")), help="Another form than the table."
)


@click.group("events", no_args_is_help=True)
def group() -> None:
    """List, replay and drop the events of an EventJob.

    An event is named by its id, or by its entry, which `-o wide` shows.

    \b
    Examples:
      penstock events list orders --state parked
      penstock events show orders 4711
      penstock events replay orders --all --state parked
      penstock events export orders --since 1d > orders.jsonl
    """


def _run(target: api_connection.ConnectionTarget, name: str, broker: str | None, work: Callable[..., Any]) -> None:
    async def session(cluster: "Cluster") -> None:
        async with delivery_selection.opened(cluster, target, name, broker) as found:
            await work(found)

    api_connection.run(target, session)


@group.command("list")
@NAME
@delivery_selection.filter_options
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most events, the newest.")
@FORM
@BROKER
@api_connection.cluster_options
def list_(
    name: str,
    limit: int,
    form: str | None,
    broker: str | None,
    target: api_connection.ConnectionTarget,
    **flags: Any,
) -> None:
    """List events, the newest first.

    \b
    Examples:
      penstock events list orders
      penstock events list orders --state retrying --state parked --since 12h -o wide
    """
    from deploy.cli.events import delivery_rows

    now = datetime.now(UTC)
    filter = delivery_selection.selected(**flags, now=now)

    async def work(found: NamedDeliveries) -> None:
        rows = [each async for each in found.matching(filter, limit)]
        if form in ("json", "yaml"):
            _print(form, {"deliveries": [delivery_rows.described(each, found.job(each)) for each in rows]})
        elif rows:
            wide = form == "wide"
            header = delivery_rows.WIDE if wide else delivery_rows.HEADER
            output.table(header, [delivery_rows.row(each, now, wide=wide, job=found.job(each)) for each in rows])
        else:
            output.note(f"EventJob {name} has no such events")
        if len(rows) == limit:
            output.note(f"the newest {limit}; there may be more, see --limit")

    _run(target, name, broker, work)


@group.command("show")
@NAME
@click.argument("event", metavar="ID|ENTRY")
@FORM
@BROKER
@api_connection.cluster_options
def show(name: str, event: str, form: str | None, broker: str | None, target: api_connection.ConnectionTarget) -> None:
    """Show one event: its attributes, its data and its attempts.

    \b
    Examples:
      penstock events show orders 4711
      penstock events show orders 4711 -o json
    """
    from deploy.cli.events import delivery_rows

    async def work(found: NamedDeliveries) -> None:
        for each in await found.named([event]):
            _print(form or "yaml", delivery_rows.described(each, found.job(each), full=True))

    _run(target, name, broker, work)


@group.command("export")
@NAME
@delivery_selection.filter_options
@BROKER
@api_connection.cluster_options
def export(name: str, broker: str | None, target: api_connection.ConnectionTarget, **flags: Any) -> None:
    """Print events as CloudEvents, one JSON object per line.

    `penstock push --lines` reads such lines.

    \b
    Examples:
      penstock events export orders --state parked > parked.jsonl
    """
    from deploy.cli.events import delivery_rows

    filter = delivery_selection.selected(**flags, now=datetime.now(UTC))

    async def work(found: NamedDeliveries) -> None:
        async for each in found.deliveries.export(found.uid, filter):
            output.say(delivery_rows.json_line(each))

    _run(target, name, broker, work)


def _changing(verb: Literal["replay", "drop"], default: Sequence[str], text: str) -> click.Command:
    """Returns a command that changes deliveries. default: states that `--all` means without `--state`."""

    @NAME
    @click.argument("events", nargs=-1, metavar="[ID|ENTRY]...")
    @click.option("--all", "everything", is_flag=True, help="All events that the other flags select.")
    @delivery_selection.filter_options
    @BROKER
    @api_connection.cluster_options
    def command(
        name: str,
        events: tuple[str, ...],
        everything: bool,
        broker: str | None,
        target: api_connection.ConnectionTarget,
        **flags: Any,
    ) -> None:
        if bool(events) == everything or (events and any(flags.values())):
            raise click.UsageError("either ids of events or --all, with flags that select, is needed")
        if everything and not (flags["state"] or default):
            raise click.UsageError(f"--all: --state says which events to {verb}")
        flags["state"] = flags["state"] or default
        filter = delivery_selection.selected(**flags, now=datetime.now(UTC))

        async def work(found: NamedDeliveries) -> None:
            chosen = await found.named(events) if events else [each async for each in found.matching(filter)]
            entries = [each.entry for each in chosen]
            changed = await getattr(found.deliveries, verb)(found.uid, entries)
            done = {"replay": "replayed", "drop": "dropped"}[verb]
            output.say(f"{changed} {'event' if changed == 1 else 'events'} {done}")
            if events and changed < len(entries):
                states = ", ".join(sorted({each.state for each in chosen}))
                raise UserError(f"{len(entries) - changed} could not be {done}: their state is {states}")

        _run(target, name, broker, work)

    command.__doc__ = text
    return click.command(verb)(command)


group.add_command(
    _changing(
        "replay",
        ("parked",),
        """Start parked, dropped or done events anew.

        They run behind all others, with as many attempts as at first; the record of earlier ones is kept. --all without
        --state means the parked ones.

        \b
        Examples:
          penstock events replay orders 4711
          penstock events replay orders --all --state parked --type order.placed
        """,
    )
)
group.add_command(
    _changing(
        "drop",
        (),
        """Give waiting, delayed, retrying or parked events up.

        Events that have a running Job go on.

        \b
        Examples:
          penstock events drop orders 4711
          penstock events drop orders --all --state parked --until 7d
        """,
    )
)


def _print(form: str, value: Any) -> None:
    output.say(output.as_json(value) if form == "json" else output.as_yaml(value))
