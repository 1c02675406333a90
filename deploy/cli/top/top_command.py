"""``penstock top``: the screen, and the table that is printed once."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, output
from deploy.cli.completion import completers
from workers.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploy.cli.top.top_rows import TopRow, TopView
    from workers.client.rest import Cluster

SORTS = ("kind", "namespace", "name", "state", "waiting", "active", "parked", "jobs/min", "age")


@click.command("top")
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@click.option(
    "-k", "--kind", "kind_name", metavar="KIND", help="Only objects of this kind.", shell_complete=completers.what
)
@click.option("--filter", "text", default="", metavar="TEXT", help="Only rows that contain this text.")
@click.option("--sort", type=click.Choice(SORTS), default="kind", show_default=True, help="Order of the rows.")
@click.option("--once", is_flag=True, help="Print the table once; also where standard output is no terminal.")
@click.option("-o", "--output", "form", type=click.Choice(("json",)), help="With --once: JSON instead of the table.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two tables.",
)
@api_connection.cluster_options
def command(
    all_namespaces: bool,
    kind_name: str | None,
    text: str,
    sort: str,
    once: bool,
    form: str | None,
    every: float,
    target: api_connection.ConnectionTarget,
) -> None:
    """Watch objects, their work and their Jobs in the terminal.

    WAITING is what triggers measured, or events that have no Job yet; ACTIVE unfinished Jobs; PARKED events whose last
    attempt has failed. JOBS/MIN are Jobs created within the last minute; with a plus sign at least so many, because
    some may be deleted already. A hyphen stands for a number that is unknown or that the kind does not have.

    Keys: s sort, r reverse, / filter, k next kind, a all namespaces, Enter or e explain, p pause or resume, q quit.

    \b
    Examples:
      penstock top -A
      penstock top --kind eventjobs --sort parked
      penstock top --once -o json | jq '.objects[] | select(.state == "NotReady") | .why'
    """
    namespace = "" if all_namespaces else target.namespace
    if form and not once and sys.stdout.isatty():
        raise click.UsageError("-o json needs --once")
    if once or not sys.stdout.isatty():
        api_connection.run(
            target, lambda cluster: _once(cluster, target, namespace, kind_name, text, sort.upper(), form)
        )
        return
    from deploy.cli.top.top_screen import ScreenOptions, TopScreen

    options = ScreenOptions(target, all_namespaces, kind_name, text, sort.upper(), every)
    app = TopScreen(options)
    app.run()
    if app.failure:
        raise UserError(app.failure)


async def _once(
    cluster: "Cluster",
    target: api_connection.ConnectionTarget,
    namespace: str,
    kind_name: str | None,
    text: str,
    sort: str,
    form: str | None,
) -> None:
    from deploy.cli.top import top_reader, top_rows

    kind = await top_reader.find_kind(cluster, kind_name)
    view = await top_reader.read(cluster, namespace, kind, target.homes)
    rows = top_rows.ordered(top_rows.chosen(view.rows, kind, text), sort)
    if form == "json":
        output.say(output.as_json(top_rows.as_objects(view, rows)))
    else:
        show(view, rows)


def show(view: "TopView", rows: "Sequence[TopRow]") -> None:
    """Prints the lanes and the table."""
    from deploy.cli.top import top_reader, top_rows

    now = datetime.now(UTC)
    for line in top_rows.pipeline(view.lanes):
        output.say(line)
    for name, reason in view.missing.items():
        output.note(f"penstock: {name}: {reason}")
    output.say()
    output.table(list(top_rows.COLUMNS), [top_rows.cells(row, top_reader.age(row.since, now)) for row in rows])
