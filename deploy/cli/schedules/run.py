"""``penstock run``: starts one run of a ScheduledJob or CronJob now."""

import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from deploy.cli import api_connection, output
from deploy.cli.completion import completers
from deploy.cli.schedules import resolve
from deploy.cli.schedules import wait as awaiting
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Object, Ref
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

KINDS = (SCHEDULED_JOB, CRON_JOB)
#: Without vowels an id spells no word; without a leading digit it cannot equal a slot's number.
LETTERS = "bcdfghjklmnpqrstvwxz"
ALPHABET = LETTERS + "2456789"
#: Kubernetes' rule for names of environment variables.
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


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
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    request = RunNow(identity(), variables(env))

    async def work(cluster: "Cluster") -> int:
        found = await resolve.find(cluster, what, target.namespace, KINDS)
        before = await awaiting.version(cluster, found.ref) if wait else ""
        asked = await ask(cluster, found, request)
        output.say(f"{found.title} run asked for: {request.job(found.ref)}")
        if not wait:
            return 0
        progress = awaiting.RunProgress(found.ref, asked, request.annotation, request.job(found.ref))
        end = await awaiting.end(cluster, progress, before, timeout)
        output.say(str(end))
        for line in () if end.succeeded else await awaiting.failing_pods(cluster, found.ref.namespace, end.job):
            output.note(line)
        output.note(f"its output: penstock logs job/{end.job} -n {found.ref.namespace}")
        return 0 if end.succeeded else 1

    return api_connection.run(target, work)


@dataclass(frozen=True, slots=True)
class RunNow:
    """A request for one run. id: chosen by the client, which makes the request idempotent."""

    id: str
    env: dict[str, str]

    @property
    def annotation(self) -> str:
        return f"penstock.dev/run.{self.id}"

    def job(self, ref: Ref) -> str:
        """The name of the run's first Job."""
        from workers.controllers.batch.cronjob import names

        return names.of(ref.kind, ref.name).manual(self.id)


def identity() -> str:
    """Returns a short random id."""
    return secrets.choice(LETTERS) + "".join(secrets.choice(ALPHABET) for _ in range(7))


def variables(given: Iterable[str]) -> dict[str, str]:
    """Returns the variables of ``--env``; the last value of a name counts. Raises UserError for an invalid one."""
    env = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--env: {text}: NAME=VALUE is needed")
        if not VARIABLE.fullmatch(name):
            raise UserError(
                f"--env: {name!r} is no name of a variable: letters, digits, '-', '_' and '.', no digit first"
            )
        env[name] = value
    return env


async def ask(cluster: "Cluster", found: resolve.ResolvedSchedule, request: RunNow) -> Object:
    """Annotates the object with the request and returns the result. Raises UserError if it is being deleted."""
    if found.body["metadata"].get("deletionTimestamp"):
        raise UserError(f"{found.ref} is being deleted; nothing of it is run any more")
    value = json.dumps({"env": request.env}) if request.env else ""
    return await resolve.patch(cluster, found.ref, {"metadata": {"annotations": {request.annotation: value}}})
