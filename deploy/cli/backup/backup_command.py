"""`penstock backup`: writes what lives in the broker alone to a file."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, options, output
from workers.errors import UserError

if TYPE_CHECKING:
    from deploy.backup.taking import BackupCounts
    from workers.settings import Settings

BROKER = click.option(
    "--broker", metavar="URL", help="The broker; without it PENSTOCK_BROKER, or that of the embedded cluster in --home."
)
PREFIX = click.option("--prefix", metavar="WORD", help="First part of every key in the broker. [default: penstock]")
HOME = click.option("--home", metavar="PATH", help="Folder of the embedded cluster. [default: .penstock]")

#: Seconds that one answer of the broker may take: that of a channel with very many events is long.
PATIENCE = 120.0


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@BROKER
@PREFIX
@HOME
def command(file: Path, overwrite: bool, broker: str | None, prefix: str | None, home: str | None) -> None:
    """Write what lives in the broker alone to a file.

    These are accepted events, deliveries of EventJobs, ledgers of claims, logged decisions and last runs. All else is
    derived from the cluster. Everything goes on meanwhile; docs/backup.md says what a backup holds.

    \b
    Examples:
      penstock backup monday.backup
      penstock backup /backups/penstock.backup --overwrite --broker rediss://redis.example:6380/0
    """
    if file.exists() and not overwrite:
        raise UserError(f"{file}: is there already; --overwrite replaces it")
    settings = options.load({"broker": broker, "prefix": prefix, "home": home})
    counts = asyncio.run(_take(settings, file))
    output.say(
        f"{file}: {counts.objects} objects with {counts.keys} keys; {counts.deliveries} deliveries and "
        f"{counts.events} events in channels and intakes"
    )


async def _take(settings: "Settings", file: Path) -> "BackupCounts":
    from deploy.backup import taking
    from scheduler.keys import Keys

    async with connected(settings, [settings.home], "penstock-backup") as client:
        try:
            return await taking.take(client, Keys(settings.prefix), file)
        except OSError as error:
            raise UserError(f"{file}: {error.strerror or error}") from error


def connected(settings: "Settings", homes: Sequence[Path], name: str):  # type: ignore[no-untyped-def]
    """Returns a client of the broker that has time for long answers.

    homes: may hold the broker's URL. Raises UserError if none does and no setting names it.
    """
    from scheduler.broker import address, clients

    at = address.parse(api_connection.broker_url(settings, homes), prefix=settings.prefix)
    return clients.client(at, socket_timeout=PATIENCE, socket_connect_timeout=5, client_name=name)
