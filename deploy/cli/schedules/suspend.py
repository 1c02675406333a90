"""``penstock suspend`` and ``penstock resume``: pause schedules and Jobs."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, output
from deploy.cli.completion import completers
from deploy.cli.schedules import resolve
from workers.api import times
from workers.api.kinds import CRON_JOB, EVENT_JOB, JOB, SCHEDULED_JOB, Object
from workers.errors import ClusterError, PenstockError, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

KINDS = (SCHEDULED_JOB, CRON_JOB, JOB, EVENT_JOB)
WHAT = click.argument(
    "what", nargs=-1, required=True, metavar="NAME... | KIND/NAME...", shell_complete=completers.objects(*KINDS)
)


@click.command("suspend")
@WHAT
@click.option("--until", metavar="TIME", help="Resume at this time: 2026-03-01T08:00:00Z (ScheduledJobs only).")
@api_connection.cluster_options
def suspend(what: tuple[str, ...], until: str | None, target: api_connection.ConnectionTarget) -> None:
    """Start no further runs, or stop a Job's pods.

    Active runs of a ScheduledJob or CronJob continue, and no further run starts. The pods of a suspended Job end,
    and start again when it is resumed. A suspended EventJob takes events in and creates no Job. A bare name is a
    ScheduledJob, else a CronJob, else a Job, else an EventJob.

    \b
    Examples:
      penstock suspend nightly
      penstock suspend scheduledjob/nightly --until 2026-03-01T08:00:00+01:00
      penstock suspend job/crunch
    """
    moment = instant(until) if until else None

    async def pause(cluster: "Cluster", found: resolve.ResolvedSchedule) -> None:
        if moment is None:
            await _change(cluster, found, {"suspend": True}, "suspended")
        elif found.ref.kind.id == SCHEDULED_JOB.id:
            text = times.render(moment)
            # Clears an unlimited suspension too, which would otherwise outlast `until`.
            await _change(cluster, found, {"suspend": False, "suspendUntil": text}, f"suspended until {text}")
        else:
            raise UserError(f"{found.ref}: --until: only a ScheduledJob goes on by itself")

    _with_each(target, what, pause)


@click.command("resume")
@WHAT
@api_connection.cluster_options
def resume(what: tuple[str, ...], target: api_connection.ConnectionTarget) -> None:
    """Start further runs again, or a suspended Job's pods.

    For a ScheduledJob this also clears `--until`. Its catchUp policy and startingDeadlineSeconds decide about runs
    that were missed during the suspension.

    \b
    Examples:
      penstock resume nightly
      penstock resume cronjob/backup job/crunch
    """

    async def go_on(cluster: "Cluster", found: resolve.ResolvedSchedule) -> None:
        spec: Object = {"suspend": False}
        if found.ref.kind.id == SCHEDULED_JOB.id:
            spec["suspendUntil"] = None
        await _change(cluster, found, spec, "resumed")

    _with_each(target, what, go_on)


def instant(text: str) -> datetime:
    """Returns the time of ``--until``. Raises UserError if it is no time, has no zone, or lies in the past."""
    try:
        moment = times.parse(text)
    except ValueError as error:
        raise UserError(f"--until: {error}; a time looks like 2026-03-01T08:00:00+01:00") from None
    if moment <= datetime.now(UTC):
        raise UserError(f"--until: {text} is over")
    return moment


def _with_each(
    target: api_connection.ConnectionTarget,
    what: Sequence[str],
    change: Callable[["Cluster", resolve.ResolvedSchedule], Awaitable[None]],
) -> None:
    """Changes each object that the arguments name; one that is missing or refused keeps none of the others."""

    async def work(cluster: "Cluster") -> None:
        refused: list[PenstockError] = []
        for each in what:
            try:
                await change(cluster, await resolve.find(cluster, each, target.namespace, KINDS))
            except (ClusterError, UserError) as error:
                if isinstance(error, ClusterError) and error.concerns_all:
                    raise
                refused.append(error)
        output.raise_last(refused)

    api_connection.run(target, work)


async def _change(cluster: "Cluster", found: resolve.ResolvedSchedule, spec: Object, word: str) -> None:
    """Patches the fields of the spec that differ and prints the outcome."""
    # False, null and absent mean the same in these fields.
    if all((found.body["spec"].get(field) or None) == (value or None) for field, value in spec.items()):
        output.say(f"{found.title} unchanged")
        return
    await resolve.patch(cluster, found.ref, {"spec": spec})
    output.say(f"{found.title} {word}")
