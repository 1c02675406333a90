"""``penstock run``: one run of a ScheduledJob or CronJob now."""

import asyncio
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from deploy.cli import connection, output, schedules
from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, Object, Ref, controller_of
from workers.controllers import conditions
from workers.errors import NotFound, UserError

if TYPE_CHECKING:
    from workers.cluster import Cluster

KINDS = (SCHEDULED_JOB, CRON_JOB)
#: No vowels, so no words; no digit in front, so that an id is never a slot's number.
LETTERS = "bcdfghjklmnpqrstvwxz"
ALPHABET = LETTERS + "2456789"
#: What Kubernetes takes for the name of a variable.
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
#: Seconds between two looks at a run that is waited for.
LOOK = 0.25
#: Looks without Job and request after which the run is lost; a finished Job may be gone a moment before its outcome
#: is told.
PATIENCE = 20


@click.command("run")
@click.argument("what", metavar="NAME | KIND/NAME")
@click.option("-e", "--env", "env", multiple=True, metavar="NAME=VALUE", help="A variable for every container.")
@click.option("--wait", is_flag=True, help="Return when the run has ended: 0 if it succeeded, else 1.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Longest wait; without it none.")
@connection.cluster_options
def command(what: str, env: tuple[str, ...], wait: bool, timeout: float | None, target: connection.Target) -> int:
    """Run a ScheduledJob or CronJob now.

    The run is under the object's concurrency policy (with Forbid it waits until the running one is done) and needs no
    slot: it starts also while the object is suspended. A bare name is a ScheduledJob, else a CronJob.

    A CronJob is run by Penstock only where Penstock runs CronJobs: on the embedded cluster, or with --cronjobs.

    \b
    Examples:
      penstock run nightly-import
      penstock run nightly-import --env DAY=2026-03-01 --env FULL=yes --wait
      penstock run cronjob/backup -n ops
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    request = Request(identity(), variables(env))

    async def work(cluster: "Cluster") -> int:
        found = await schedules.find(cluster, what, target.namespace, KINDS)
        await ask(cluster, found, request)
        output.say(f"{found.title} run asked for: {request.job(found.ref)}")
        return await waited(cluster, found, request, timeout) if wait else 0

    return connection.run(target, work)


@dataclass(frozen=True, slots=True)
class Request:
    """One run that is asked for. id: chosen here, so that asking twice in one breath is asking once."""

    id: str
    env: dict[str, str]

    @property
    def annotation(self) -> str:
        return f"penstock.dev/run.{self.id}"

    def job(self, ref: Ref) -> str:
        """The name of the run's first Job."""
        from workers.controllers.cronjob import names

        return names.of(ref.kind, ref.name).manual(self.id)

    def made(self, ref: Ref, job: str) -> bool:
        """Whether a Job of this name is of this run: the first, or a further attempt."""
        first = self.job(ref)
        return job == first or job.startswith(f"{first}-")


def identity() -> str:
    """A short random name."""
    return secrets.choice(LETTERS) + "".join(secrets.choice(ALPHABET) for _ in range(7))


def variables(given: Iterable[str]) -> dict[str, str]:
    """The variables that ``--env`` names; the last of one name counts. Raises UserError naming a wrong one."""
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


async def ask(cluster: "Cluster", found: schedules.Found, request: Request) -> None:
    """Put the request on the object. Raises UserError when the object is about to go."""
    if found.body["metadata"].get("deletionTimestamp"):
        raise UserError(f"{found.ref} is being deleted; nothing of it is run any more")
    value = json.dumps({"env": request.env}) if request.env else ""
    await schedules.patch(cluster, found.ref, {"metadata": {"annotations": {request.annotation: value}}})


# --- waiting


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: the outcome's word, its last Job, and why, if anybody said so."""

    word: str
    job: str
    why: str = ""

    @property
    def succeeded(self) -> bool:
        return self.word in ("Succeeded", "Complete")

    def __str__(self) -> str:
        return f"job.batch/{self.job} {self.word}" + (f": {self.why}" if self.why else "")


async def waited(cluster: "Cluster", found: schedules.Found, request: Request, timeout: float | None) -> int:
    """Wait for the run's end and tell of it; the exit code. Raises UserError when it does not come."""
    end = await _end(cluster, found, request, timeout)
    output.say(str(end))
    output.note(f"its output: penstock logs job/{end.job} -n {found.ref.namespace}")
    return 0 if end.succeeded else 1


async def _end(cluster: "Cluster", found: schedules.Found, request: Request, timeout: float | None) -> End:
    told = ""
    lost = 0
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    while True:
        body: Object = await cluster.request("GET", found.ref.kind.path(found.ref.namespace, found.ref.name))
        job = await _job(cluster, found, request)
        if end := ended(found.ref, body, job, request):
            return end
        if (state := progress(found.ref, body, job, request)) != told:
            output.note(f"penstock: {state}")
            told = state
        lost = 0 if job or request.annotation in annotations(body) else lost + 1
        if lost > PATIENCE:
            raise UserError(
                f"{found.ref} has no Job {request.job(found.ref)} and is no longer asked for it: the run was refused, "
                f"or the Job was deleted; `penstock describe {found.title}` shows why"
            )
        if deadline is not None and loop.time() >= deadline:
            raise UserError(f"{found.ref}: run {request.job(found.ref)} has not ended after {timeout:g} s; {state}")
        await asyncio.sleep(LOOK)


async def _job(cluster: "Cluster", found: schedules.Found, request: Request) -> Object | None:
    """The run's first Job, if it is there and the object's own."""
    try:
        job: Object = await cluster.request("GET", JOB.path(found.ref.namespace, request.job(found.ref)))
    except NotFound:
        return None
    return job if (controller_of(job) or {}).get("uid") == found.body["metadata"]["uid"] else None


def annotations(body: Object) -> Object:
    """The object's annotations."""
    return body["metadata"].get("annotations") or {}


def ended(ref: Ref, body: Object, job: Object | None, request: Request) -> End | None:
    """How the run ended, or None while it has not.

    A ScheduledJob's status tells, which knows of further attempts; a CronJob has only the Job to tell.
    """
    for outcome in (body.get("status") or {}).get("outcomes") or ():
        if request.made(ref, outcome["job"]):
            return End(outcome["outcome"], outcome["job"], _why(outcome))
    if job is None or (ref.kind.id == SCHEDULED_JOB.id and body["spec"].get("outcomesLimit", 1)):
        return None
    word = conditions.finished(job)
    if word is None:
        return None
    return End(word, job["metadata"]["name"], _why(conditions.find(job, word) or {}) if word == "Failed" else "")


def _why(told: Object) -> str:
    return ": ".join(filter(None, (told.get("reason"), told.get("message"))))


def progress(ref: Ref, body: Object, job: Object | None, request: Request) -> str:
    """What a run that has not ended waits for."""
    status = body.get("status") or {}
    for run in status.get("runs") or ():
        if request.made(ref, run["job"]) and run.get("retryTime"):
            return f"job.batch/{run['job']} failed ({_why(run)}); the next attempt starts at {run['retryTime']}"
    if job:
        return f"job.batch/{job['metadata']['name']} is at work"
    active = [entry.get("name", "") for entry in status.get("active") or ()]
    if active and body["spec"].get("concurrencyPolicy") == "Forbid":
        return f"waiting for {', '.join(active)} to end (concurrencyPolicy: Forbid)"
    ready = conditions.find(body, "Ready") or {}
    refused = ready.get("message") if ready.get("reason") == "ReconcileFailing" else None
    return f"waiting for the Job: {refused}" if refused else "waiting for the Job"
