"""``penstock suspend`` and ``penstock resume``: no new runs for a while."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from deploy.cli import connection, output
from deploy.cli.schedules import resolve
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, Object
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

KINDS = (SCHEDULED_JOB, CRON_JOB, JOB)
WHAT = click.argument("what", nargs=-1, required=True, metavar="NAME... | KIND/NAME...")


@click.command("suspend")
@WHAT
@click.option("--until", metavar="TIME", help="Go on by itself then: 2026-03-01T08:00:00Z (ScheduledJobs only).")
@connection.cluster_options
def suspend(what: tuple[str, ...], until: str | None, target: connection.ConnectionTarget) -> None:
    """Let no run start, or stop a Job's pods.

    Of a ScheduledJob or CronJob, what is at work goes on, and no further run starts. The pods of a suspended
    Job end, and start again when it is resumed. A bare name is a ScheduledJob, else a CronJob, else a Job.

    \b
    Examples:
      penstock suspend nightly
      penstock suspend scheduledjob/nightly --until 2026-03-01T08:00:00+01:00
      penstock suspend job/crunch
    """
    moment = instant(until) if until else None

    async def work(cluster: "Cluster") -> None:
        for each in what:
            found = await resolve.find(cluster, each, target.namespace, KINDS)
            if moment is None:
                await _change(cluster, found, {"suspend": True}, "suspended")
            elif found.ref.kind.id == SCHEDULED_JOB.id:
                text = times.render(moment)
                # One that was suspended for good goes on then, too.
                await _change(cluster, found, {"suspend": False, "suspendUntil": text}, f"suspended until {text}")
            else:
                raise UserError(f"{found.ref}: --until: only a ScheduledJob goes on by itself")

    connection.run(target, work)


@click.command("resume")
@WHAT
@connection.cluster_options
def resume(what: tuple[str, ...], target: connection.ConnectionTarget) -> None:
    """Let runs start again, or a suspended Job's pods.

    Of a ScheduledJob this ends `--until` too. Whether a run that fell into the pause is made up for is what the
    object's catchUp policy and startingDeadlineSeconds say.

    \b
    Examples:
      penstock resume nightly
      penstock resume cronjob/backup job/crunch
    """

    async def work(cluster: "Cluster") -> None:
        for each in what:
            found = await resolve.find(cluster, each, target.namespace, KINDS)
            spec: Object = {"suspend": False}
            if found.ref.kind.id == SCHEDULED_JOB.id:
                spec["suspendUntil"] = None
            await _change(cluster, found, spec, "resumed")

    connection.run(target, work)


def instant(text: str) -> datetime:
    """The instant of ``--until``. Raises UserError for a text that is no time, has no zone, or lies in the past."""
    try:
        moment = times.parse(text)
    except ValueError as error:
        raise UserError(f"--until: {error}; a time looks like 2026-03-01T08:00:00+01:00") from None
    if moment <= datetime.now(UTC):
        raise UserError(f"--until: {text} is over")
    return moment


async def _change(cluster: "Cluster", found: resolve.ResolvedSchedule, spec: Object, word: str) -> None:
    """Write these fields of the spec if they differ, and say what became of the object."""
    # False, null and absent are the same here.
    if all((found.body["spec"].get(field) or None) == (value or None) for field, value in spec.items()):
        output.say(f"{found.title} unchanged")
        return
    await resolve.patch(cluster, found.ref, {"spec": spec})
    output.say(f"{found.title} {word}")
