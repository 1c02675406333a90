"""``penstock run``: starts one run of a ScheduledJob or CronJob now."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, output
from deploy.cli.completion import completers
from deploy.cli.schedules import resolve
from deploy.cli.schedules import wait as awaiting
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Object
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster
    from workers.controllers.batch.cronjob.run_requests import RunRequest

KINDS = (SCHEDULED_JOB, CRON_JOB)


@click.command("run")
@click.argument("what", metavar="NAME | KIND/NAME", shell_complete=completers.objects(SCHEDULED_JOB, CRON_JOB))
@click.option("-e", "--env", "env", multiple=True, metavar="NAME=VALUE", help="A variable for every container.")
@click.option("--wait", is_flag=True, help="Return when the run has ended: 0 if it succeeded, else 1.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Longest wait; without it none.")
@api_connection.cluster_options
def command(
    what: str, env: tuple[str, ...], wait: bool, timeout: float | None, target: api_connection.ConnectionTarget
) -> int:
    """Run a ScheduledJob or CronJob now.

    The object's concurrency policy applies (with Forbid the run waits for the current one to end), its suspension does
    not. A bare name is a ScheduledJob, else a CronJob.

    Penstock runs a CronJob only where it runs the cluster's CronJobs: on the embedded cluster, or with --cronjobs.

    \b
    Examples:
      penstock run nightly-import
      penstock run nightly-import --env DAY=2026-03-01 --env FULL=yes --wait
      penstock run cronjob/backup -n ops
    """
    from workers.controllers.batch.cronjob import names, run_requests

    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    request = run_requests.RunRequest(run_requests.new_id(), variables(env))

    async def work(cluster: "Cluster") -> int:
        found = await resolve.find(cluster, what, target.namespace, KINDS)
        before = await awaiting.version(cluster, found.ref) if wait else ""
        asked = await ask(cluster, found, request)
        job = names.of(found.ref.kind, found.ref.name).manual(request.id)
        output.say(f"{found.title} run asked for: {job}")
        if not wait:
            return 0
        progress = awaiting.RunProgress(found.ref, asked, request.annotation, job)
        end = await awaiting.end(cluster, progress, before, timeout)
        output.say(str(end))
        for line in () if end.succeeded else await awaiting.failing_pods(cluster, found.ref.namespace, end.job):
            output.note(line)
        output.note(f"its output: penstock logs job/{end.job} -n {found.ref.namespace}")
        return 0 if end.succeeded else 1

    return api_connection.run(target, work)


def variables(given: Iterable[str]) -> dict[str, str]:
    """Returns the variables of ``--env``; the last value of a name counts. Raises UserError for an invalid one."""
    from workers.controllers.batch.cronjob import run_requests

    env = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--env: {text}: NAME=VALUE is needed")
        if not run_requests.is_variable(name):
            raise UserError(
                f"--env: {name!r} is no name of a variable: letters, digits, '-', '_' and '.', no digit first"
            )
        env[name] = value
    return env


async def ask(cluster: "Cluster", found: resolve.ResolvedSchedule, request: "RunRequest") -> Object:
    """Annotates the object with the request and returns the result. Raises UserError if it is being deleted."""
    if found.body["metadata"].get("deletionTimestamp"):
        raise UserError(f"{found.ref} is being deleted; nothing of it is run any more")
    return await resolve.patch(cluster, found.ref, {"metadata": {"annotations": {request.annotation: request.value}}})
