"""Waiting for the end of a run that was asked for.

Its object and its Jobs are watched from before it was asked for, so that nothing is too quick to be seen: a Job that is
deleted as soon as it has finished, an outcome that the next run's takes the place of.
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
from workers.api import conditions
from workers.api.kinds import JOB, SCHEDULED_JOB, Kind, Object, Ref, controller_of
from workers.errors import NotFound, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster

#: Seconds between two looks beside the watches, which may lose something. A run that two looks in a row know nothing of
#: is lost.
LOOK = 3.0


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


@dataclass
class RunProgress:
    """One run, as far as it was seen.

    body: its object, as it was when the run had been asked for, and then its newest version. annotation: what asks for
    it. first: the name of its first Job. jobs: by name, what was seen last of every attempt's Job; gone: of those that
    are not there any more.
    """

    ref: Ref
    body: Object
    annotation: str
    first: str
    jobs: dict[str, Object] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    attempts: int = 1
    outcome: Object | None = None

    def told(self, body: Object) -> None:
        """A version of the object."""
        self.body = body
        for run in self._status("runs"):
            if self._attempt(run["job"]):
                self.attempts = max(self.attempts, self._attempt(run["job"]))
        self.outcome = next((each for each in self._status("outcomes") if self._attempt(each["job"])), self.outcome)

    def saw(self, job: Object, *, gone: bool = False) -> None:
        """A version of a Job, of whatever it may be."""
        name = job["metadata"]["name"]
        number = self._attempt(name)
        if number and (controller_of(job) or {}).get("uid") == self.body["metadata"]["uid"]:
            self.attempts = max(self.attempts, number)
            self.jobs[name] = job
            (self.gone.add if gone else self.gone.discard)(name)

    @property
    def last(self) -> str:
        """The name of the newest attempt's Job, as far as is known."""
        from workers.controllers.batch.cronjob import names

        return names.attempt(self.first, self.attempts)

    @property
    def end(self) -> End | None:
        """How the run ended, or None while nothing says that it has.

        A ScheduledJob's status tells, which knows whether there will be another attempt; a CronJob has only the Job to
        tell. Where the status keeps no outcome of this run, its last Job says how it ended.
        """
        if self.outcome:
            return End(self.outcome["outcome"], self.outcome["job"], _why(self.outcome))
        job = self.jobs.get(self.last)
        if job is None or (self._is_scheduled and not self.over):
            return None
        if word := conditions.finished(job):
            return End(word, self.last, _why(conditions.find(job, word) or {}) if word == "Failed" else "")
        return End("Deleted", self.last, "the Job was deleted before it had ended") if self.last in self.gone else None

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it as far as its object knows.

        A run stands in a ScheduledJob's status before its request is taken off, and until it has ended.
        """
        asked = self.annotation in (self.body["metadata"].get("annotations") or {})
        return not asked and not any(self._attempt(run["job"]) for run in self._status("runs"))

    @property
    def lost(self) -> bool:
        """Whether nobody has ever seen a Job of it, or is asked for one."""
        return self.over and self.last not in self.jobs

    @property
    def state(self) -> str:
        """What a run that has not ended waits for."""
        for run in self._status("runs"):
            if self._attempt(run["job"]) and run.get("retryTime"):
                return f"job.batch/{run['job']} failed ({_why(run)}); the next attempt starts at {run['retryTime']}"
        if self.last in self.jobs:
            word = conditions.finished(self.jobs[self.last])
            return f"job.batch/{self.last} {f'is {word}' if word else 'is at work'}"
        active = [entry.get("name", "") for entry in self._status("active")]
        if active and self.body["spec"].get("concurrencyPolicy") == "Forbid":
            return f"waiting for {', '.join(active)} to end (concurrencyPolicy: Forbid)"
        ready = conditions.find(self.body, "Ready") or {}
        refused = ready.get("message") if ready.get("reason") == "ReconcileFailing" else None
        return f"waiting for the Job: {refused}" if refused else "waiting for the Job"

    @property
    def _is_scheduled(self) -> bool:
        return self.ref.kind.id == SCHEDULED_JOB.id

    def _status(self, part: str) -> list[Object]:
        return (self.body.get("status") or {}).get(part) or []

    def _attempt(self, job: str) -> int:
        """Which attempt of this run a Job of this name is; 0 for none."""
        if job == self.first:
            return 1
        number = job.removeprefix(f"{self.first}-r")
        return int(number) if number != job and number.isdecimal() else 0


def _why(told: Object) -> str:
    return ": ".join(filter(None, (told.get("reason"), told.get("message"))))


async def version(cluster: "Cluster", ref: Ref) -> str:
    """The version of the namespace's Jobs now: a watch from there sees every one that is made later."""
    answer = await cluster.request("GET", JOB.path(ref.namespace), query={"limit": "1"})
    return str(answer["metadata"]["resourceVersion"])


async def end(cluster: "Cluster", course: RunProgress, before: str, timeout: float | None) -> End:
    """Wait for the run's end. before: the version of the Jobs before it was asked for.

    Raises UserError when it will not come, and when it has not come after so many seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    told = ""
    look, lost = loop.time() + LOOK, False
    async with _news(cluster, course, before) as news:
        while (found := course.end) is None:
            if course.state != told:
                told = course.state
                output.note(f"penstock: {told}")
            if deadline is not None and loop.time() >= deadline:
                raise UserError(f"{course.ref}: run {course.first} has not ended after {timeout:g} s; {told}")
            with suppress(TimeoutError):
                async with asyncio.timeout_at(look if deadline is None else min(look, deadline)):
                    _take(course, await news.get())
            if loop.time() >= look:
                await _look(cluster, course)
                if lost and course.lost:
                    raise UserError(_lost(course))
                look, lost = loop.time() + LOOK, course.lost
    return found


def _lost(course: RunProgress) -> str:
    title = f"{resolve.NAMES[course.ref.kind.id]}/{course.ref.name}"
    return (
        f"{course.ref} has no Job {course.first} and is no longer asked for it: the run was refused; "
        f"`penstock describe {title}` shows why"
    )


#: An event of a watch and the kind it is of, or why there are no more.
_News = tuple[Kind, Object] | Exception


@asynccontextmanager
async def _news(cluster: "Cluster", course: RunProgress, before: str) -> AsyncIterator["asyncio.Queue[_News]"]:
    """What happens to the object and to the namespace's Jobs."""
    news: asyncio.Queue[_News] = asyncio.Queue()

    async def follow(kind: Kind, name: str, since: str) -> None:
        query = get.Query(DiscoveredKind(kind), course.ref.namespace, name)
        try:
            async for event in get.changes(cluster, query, since):
                news.put_nowait((kind, event))
        except Exception as error:
            news.put_nowait(error)

    of_object = follow(course.ref.kind, course.ref.name, course.body["metadata"]["resourceVersion"])
    tasks = [asyncio.create_task(each) for each in (follow(JOB, "", before), of_object)]
    try:
        yield news
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _take(course: RunProgress, news: _News) -> None:
    if isinstance(news, Exception):
        raise news
    kind, event = news
    if kind is JOB:
        course.saw(event["object"], gone=event["type"] == "DELETED")
    elif event["type"] == "DELETED":
        raise UserError(f'{kind.plural} "{course.ref.name}" not found: it was deleted')
    else:
        course.told(event["object"])


async def _look(cluster: "Cluster", course: RunProgress) -> None:
    """See the object and the newest Job as they are."""
    course.told(await cluster.request("GET", course.ref.kind.path(course.ref.namespace, course.ref.name)))
    try:
        course.saw(await cluster.request("GET", JOB.path(course.ref.namespace, course.last)))
    except NotFound:
        if course.last in course.jobs:
            course.gone.add(course.last)
