"""`penstock restore`: writes a backup into an empty broker, brought up to the Jobs in the cluster."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, options, output
from deploy.cli.backup import backup_command
from workers.api.kinds import JOB

if TYPE_CHECKING:
    from deploy.backup.resettle import MadeClaim
    from deploy.backup.restoring import RestoreCounts
    from workers.client.rest import Cluster


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--without-cluster", is_flag=True, help="Do not look for Jobs that were made after the backup: they may run again."
)
@backup_command.BROKER
@backup_command.PREFIX
@click.option("--kubeconfig", metavar="PATH", help="Kubeconfig file of the cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
@backup_command.HOME
def command(
    file: Path,
    without_cluster: bool,
    broker: str | None,
    prefix: str | None,
    kubeconfig: str | None,
    context: str | None,
    home: str | None,
) -> None:
    """Write a backup into a broker that has lost its data.

    The file is checked as a whole first. The broker must have none of Penstock's work in it, and no process of Penstock
    may run. Events whose Jobs were made after the backup do not run again, if the cluster still has those Jobs.

    A restore that was interrupted is repeated with the same file.

    \b
    Examples:
      penstock restore monday.backup
      penstock restore monday.backup --broker rediss://redis.example:6380/0 --kubeconfig ~/.kube/config
    """
    from deploy.backup import archive, restoring
    from scheduler.keys import Keys

    backup = archive.verify(file)
    settings = options.load({"broker": broker, "prefix": prefix, "home": home})

    async def work(homes: Sequence[Path], made: "Mapping[str, list[MadeClaim]]") -> "RestoreCounts":
        async with backup_command.connected(settings, homes, "penstock-restore") as client:
            return await restoring.restore(client, Keys(settings.prefix), backup, made)

    if without_cluster:
        counts = asyncio.run(work([settings.home], {}))
    else:
        target = api_connection.target(kubeconfig=kubeconfig, context=context, home=home)

        async def with_cluster(cluster: "Cluster") -> "RestoreCounts":
            return await work(target.homes, await made_claims(cluster))

        counts = api_connection.run(target, with_cluster)
    again = f", {counts.before} were there from the interrupted restore" if counts.before else ""
    output.say(f"{file}, taken {backup.header.taken}: {counts.objects} objects restored{again}")
    if counts.advanced:
        output.say(f"{counts.advanced} deliveries have Jobs that were made after the backup; they end as those do")
    if counts.unknown:
        output.say(f"{counts.unknown} Jobs belong to events that the backup does not have; they go on by themselves")
    output.say(f"What was accepted after {backup.header.taken} is not in the backup: senders may push it again")


async def made_claims(cluster: "Cluster") -> "dict[str, list[MadeClaim]]":
    """Returns the claims that Jobs in the cluster were made for, by the UID of their EventJob."""
    from deploy.backup import resettle
    from workers.api import job_annotations
    from workers.api.kinds import EVENT_JOB
    from workers.controllers.claims import binding

    made: dict[str, list[MadeClaim]] = defaultdict(list)
    async for jobs, _ in cluster.pages(JOB, label_selector=job_annotations.EVENT_JOB):
        for job in jobs:
            owners = job["metadata"].get("ownerReferences") or ()
            uid = next((each["uid"] for each in owners if each["kind"] == EVENT_JOB.kind), None)
            found = binding.claim_of(job)
            if uid and found and (claim := resettle.claim(*found)):
                made[uid].append(claim)
    return made
