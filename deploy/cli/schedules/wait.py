"""The wait for the end of a requested run.

The watches on its object and its Jobs start before the request, so that they miss nothing: neither a Job that is
deleted as soon as it has finished nor an outcome that the next run's replaces.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.cli.discovery import DiscoveredKind
from deploy.cli.objects import get
from deploy.cli.schedules import resolve
from deploy.object_rows import failure_reasons
from workers.api import conditions
from workers.api.kinds import JOB, POD, SCHEDULED_JOB, Kind, Object, Ref, controller_of
from workers.cancellation import cancelled
from workers.errors import ClusterError, NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: Seconds between two polls beside the watches, which may lose events. A run is lost if two polls in a row find neither
#: its request nor its Job.
POLL_INTERVAL = 3.0


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run: the outcome's word, its last Job, and the reason if there is one."""

    word: str
    job: str
    why: str = ""

    @property
    def succeeded(self) -> bool:
        return self.word in ("Succeeded", "Complete")

    def __str__(self) -> str:
        return f"job.batch/{self.job} {self.word}" + (f": {self.why}" if self.why else "")


@dataclass
class RunProgress:
    """The observed state of one run.

    body: the newest version of its object, at first the one with the request. annotation: the key of the request.
    first: the name of the first attempt's Job. jobs: the last version of every attempt's Job, by name; gone: the names
    of those that were deleted. failing: pods of the newest Job that failed or cannot start, with the reason.
    """

    ref: Ref
    body: Object
    annotation: str
    first: str
    jobs: dict[str, Object] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    attempts: int = 1
    failing: list[str] = field(default_factory=list)
    outcome: Object | None = None

    def update_object(self, body: Object) -> None:
        """Takes in a version of the object."""
        self.body = body
        for run in self._status("runs"):
            if self._attempt(run["job"]):
                self.attempts = max(self.attempts, self._attempt(run["job"]))
        self.outcome = next((each for each in self._status("outcomes") if self._attempt(each["job"])), self.outcome)

    def update_job(self, job: Object, *, gone: bool = False) -> None:
        """Takes in a version of a Job; ignores Jobs of other runs."""
        name = job["metadata"]["name"]
        number = self._attempt(name)
        if number and (controller_of(job) or {}).get("uid") == self.body["metadata"]["uid"]:
            self.attempts = max(self.attempts, number)
            self.jobs[name] = job
            (self.gone.add if gone else self.gone.discard)(name)

    @property
    def last(self) -> str:
        """The name of the newest observed attempt's Job."""
        from workers.controllers.batch.cronjob import names

        return names.attempt(self.first, self.attempts)

    @property
    def end(self) -> End | None:
        """The run's end, or None while there is no evidence of it.

        A ScheduledJob's status decides, because it knows of further attempts; for a CronJob, or if the status no longer
        holds the outcome, the last Job decides.
        """
        if self.outcome:
            return End(self.outcome["outcome"], self.outcome["job"], _why(self.outcome))
        job = self.jobs.get(self.last)
        if job is None or (self.ref.kind.id == SCHEDULED_JOB.id and not self.over):
            return None
        if word := conditions.finished(job):
            return End(word, self.last, _why(conditions.find(job, word) or {}) if word == "Failed" else "")
        return End("Deleted", self.last, "the Job was deleted before it had ended") if self.last in self.gone else None

    @property
    def over(self) -> bool:
        """True if the object neither requests this run nor lists it as active.

        The controller adds a run to a ScheduledJob's status before it removes the request, and keeps it until its end.
        """
        asked = self.annotation in (self.body["metadata"].get("annotations") or {})
        return not asked and not any(self._attempt(run["job"]) for run in self._status("runs"))

    @property
    def lost(self) -> bool:
        """True if no Job of the run was ever observed and none is requested any more."""
        return self.over and self.last not in self.jobs

    @property
    def state(self) -> str:
        """The text on an active run's progress."""
        for run in self._status("runs"):
            if self._attempt(run["job"]) and run.get("retryTime"):
                return f"job.batch/{run['job']} failed ({_why(run)}); the next attempt starts at {run['retryTime']}"
        if self.last in self.jobs:
            word = conditions.finished(self.jobs[self.last])
            return f"job.batch/{self.last} " + (f"is {word}" if word else "; ".join(("is at work", *self.failing)))
        active = [entry.get("name", "") for entry in self._status("active")]
        if self.last in active:
            # The watch of the Jobs may be behind that of the object.
            return f"job.batch/{self.last} is at work"
        if active and self.body["spec"].get("concurrencyPolicy") == "Forbid":
            return f"waiting for {', '.join(active)} to end (concurrencyPolicy: Forbid)"
        ready = conditions.find(self.body, "Ready") or {}
        refused = ready.get("message") if ready.get("reason") == "ReconcileFailing" else None
        return f"waiting for the Job: {refused}" if refused else "waiting for the Job"

    def _status(self, part: str) -> list[Object]:
        return (self.body.get("status") or {}).get(part) or []

    def _attempt(self, job: str) -> int:
        """Returns the number of the attempt whose Job has this name; 0 if the Job is not of this run."""
        if job == self.first:
            return 1
        number = job.removeprefix(f"{self.first}-r")
        return int(number) if number != job and number.isdecimal() else 0


def _why(entry: Object) -> str:
    return ": ".join(filter(None, (entry.get("reason"), entry.get("message"))))


async def version(cluster: "Cluster", ref: Ref) -> str:
    """Returns the resourceVersion of the namespace's Jobs: a watch from there sees every later change."""
    answer = await cluster.request("GET", JOB.path(ref.namespace), query={"limit": "1"})
    return str(answer["metadata"]["resourceVersion"])


async def end(cluster: "Cluster", progress: RunProgress, before: str, timeout: float | None) -> End:
    """Waits for the run's end. before: the resourceVersion of the Jobs before the request. timeout: seconds.

    Raises UserError if the run was refused or has not ended in time.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    noted = ""
    poll_at, lost = loop.time() + POLL_INTERVAL, False
    async with _watch_events(cluster, progress, before) as events:
        while (found := progress.end) is None:
            if progress.state != noted:
                noted = progress.state
                output.note(f"penstock: {noted}")
            if deadline is not None and loop.time() >= deadline:
                raise UserError(f"{progress.ref}: run {progress.first} has not ended after {timeout:g} s; {noted}")
            with suppress(TimeoutError):
                async with asyncio.timeout_at(poll_at if deadline is None else min(poll_at, deadline)):
                    _take(progress, await events.get())
            if loop.time() >= poll_at:
                await _poll(cluster, progress)
                if lost and progress.lost:
                    raise UserError(_lost(progress))
                poll_at, lost = loop.time() + POLL_INTERVAL, progress.lost
    return found


def _lost(progress: RunProgress) -> str:
    title = f"{resolve.NAMES[progress.ref.kind.id]}/{progress.ref.name}"
    return (
        f"{progress.ref} has no Job {progress.first} and is no longer asked for it: the run was refused; "
        f"`penstock describe {title}` shows why"
    )


#: A watch event and its kind, or the error that ended the watch.
_WatchEvent = tuple[Kind, Object] | Exception


@asynccontextmanager
async def _watch_events(
    cluster: "Cluster", progress: RunProgress, before: str
) -> AsyncIterator["asyncio.Queue[_WatchEvent]"]:
    """Yields a queue of the watch events of the object and of the namespace's Jobs."""
    events: asyncio.Queue[_WatchEvent] = asyncio.Queue()

    async def follow(kind: Kind, name: str, since: str) -> None:
        query = get.Query(DiscoveredKind(kind), progress.ref.namespace, name)
        try:
            async for event in get.changes(cluster, query, since):
                events.put_nowait((kind, event))
        except Exception as error:
            events.put_nowait(error)

    of_object = follow(progress.ref.kind, progress.ref.name, progress.body["metadata"]["resourceVersion"])
    tasks = [asyncio.create_task(each) for each in (follow(JOB, "", before), of_object)]
    try:
        yield events
    finally:
        await cancelled(*tasks)


def _take(progress: RunProgress, found: _WatchEvent) -> None:
    if isinstance(found, Exception):
        raise found
    kind, event = found
    if kind is JOB:
        progress.update_job(event["object"], gone=event["type"] == "DELETED")
    elif event["type"] == "DELETED":
        raise UserError(f'{kind.plural} "{progress.ref.name}" not found: it was deleted')
    else:
        progress.update_object(event["object"])


async def _poll(cluster: "Cluster", progress: RunProgress) -> None:
    """Reads the object, the newest Job and its pods."""
    progress.update_object(
        await cluster.request("GET", progress.ref.kind.path(progress.ref.namespace, progress.ref.name))
    )
    try:
        progress.update_job(await cluster.request("GET", JOB.path(progress.ref.namespace, progress.last)))
    except NotFound:
        if progress.last in progress.jobs:
            progress.gone.add(progress.last)
    progress.failing = await failing_pods(cluster, progress.ref.namespace, progress.last)


async def failing_pods(cluster: "Cluster", namespace: str, job: str) -> list[str]:
    """Returns a line for each pod of a Job that failed or cannot start; none if its pods cannot be listed."""
    try:
        answer = await cluster.request("GET", POD.path(namespace), query={"labelSelector": f"job-name={job}"})
    except ClusterError:
        return []
    reasons = ((pod["metadata"]["name"], failure_reasons.of(POD, pod)) for pod in answer["items"])
    return [f"pod {name}: {reason}" for name, reason in sorted(reasons) if reason]
