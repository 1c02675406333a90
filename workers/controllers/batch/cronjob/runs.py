"""Runs: what became of every slot that was started and of every run that was asked for.

A run is one Job, or with retries several, one after the other. What is known of a ScheduledJob's runs stands in
`status.runs` while they are at work and in `status.outcomes` afterwards; the Jobs that are there tell the rest, and
all there is to know of a CronJob's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.api.scheduledjob import RunRetry
from workers.controllers.batch.cronjob import ending, jobs, names
from workers.controllers.batch.cronjob.dialect import SLOTS
from workers.reconcile.snapshot import CachedObject

RUNNING = "Running"
RETRYING = "Retrying"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
TIMED_OUT = "TimedOut"
DELETED = "Deleted"
REPLACED = "Replaced"

#: The Job's own deadline ends a run in time; a Job that it does not end (a suspended one) is deleted so much later.
GRACE = timedelta(seconds=30)
#: Times in objects have whole seconds.
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """One run. name: of its first Job. slot: None if somebody asked for it, under this id. attempts: Jobs made for it.

    again: when the next attempt is due, of a run that is `Retrying`. env: variables that a further attempt needs, too.
    job: the last attempt's Job while it is there.
    """

    name: str
    slot: datetime | None = None
    schedule: str = ""
    id: str = ""
    attempts: int = 0
    started: datetime | None = None
    outcome: str = RUNNING
    completed: datetime | None = None
    again: datetime | None = None
    reason: str = ""
    message: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    job: Object | None = field(default=None, compare=False)

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it. Between two attempts a run is at work."""
        return self.outcome not in (RUNNING, RETRYING)

    @property
    def live(self) -> Object | None:
        """The last attempt's Job, if it has not finished and nobody deletes it."""
        job = self.job
        if job is None or ending.finished(job) or job["metadata"].get("deletionTimestamp"):
            return None
        return job

    def ended(self, outcome: str, at: datetime, reason: str = "", message: str = "") -> "ObservedRun":
        """The run, once it ended like this."""
        return replace(self, outcome=outcome, completed=at, again=None, reason=reason, message=message)

    def render(self) -> Object:
        """The run as `status.runs` and `status.outcomes` have it."""
        fields = {
            "job": names.attempt(self.name, self.attempts),
            "trigger": "schedule" if self.slot else "manual",
            "schedule": self.schedule,
            "id": self.id,
            "scheduledTime": self.slot and times.render(self.slot),
            "startTime": self.started and times.render(self.started),
            "completionTime": self.completed and times.render(self.completed),
            "retryTime": self.again and times.render(self.again),
            "outcome": self.outcome,
            "attempts": self.attempts,
            "reason": self.reason,
            "message": self.message,
            "env": None if self.over else self.env,
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How long and how often a run may try."""

    retry: RunRetry | None
    time: timedelta | None

    def deadline(self, run: ObservedRun) -> datetime | None:
        """When the run has to be over, None for never."""
        return run.started + self.time if self.time and run.started else None

    def delay(self, failures: int) -> timedelta:
        """The wait after so many failed attempts."""
        assert self.retry is not None
        # The shift is bounded because nothing longer than the longest wait is asked for.
        doubled = self.retry.delay_seconds << min(failures - 1, 32)
        return timedelta(seconds=min(doubled, self.retry.max_delay_seconds))


@dataclass(frozen=True, slots=True)
class Children:
    """The Jobs of one object.

    by_run: by name of the run and number of the attempt. told: by name, what the Jobs say of their runs. others: Jobs
    that are no run of ours. gone: names of those that are remembered only as deleted.
    """

    by_run: Mapping[str, Mapping[int, Object]]
    told: Mapping[str, ObservedRun]
    others: tuple[Object, ...]
    gone: frozenset[str]

    @property
    def ours(self) -> tuple[Object, ...]:
        """The Jobs of all runs."""
        return tuple(job for attempts in self.by_run.values() for job in attempts.values())

    def had(self, run: str) -> bool:
        """Whether the run of this name has had a Job."""
        return run in self.by_run or run in self.gone


def remembered(status: Object) -> tuple[ObservedRun, ...]:
    """The runs that a status tells of; an entry that cannot be read is dropped."""
    entries = (*(status.get("outcomes") or ()), *(status.get("runs") or ()))
    return tuple(run for each in entries if (run := _read(each)))


def _read(entry: Object) -> ObservedRun | None:
    try:
        attempts = int(entry["attempts"])
        return ObservedRun(
            name=names.run_of(entry["job"], attempts),
            slot=_instant(entry, "scheduledTime"),
            schedule=entry.get("schedule") or "",
            id=entry.get("id") or "",
            attempts=attempts,
            started=_instant(entry, "startTime"),
            outcome=entry["outcome"],
            completed=_instant(entry, "completionTime"),
            again=_instant(entry, "retryTime"),
            reason=entry.get("reason") or "",
            message=entry.get("message") or "",
            env=entry.get("env") or {},
        )
    except (KeyError, TypeError, ValueError):
        return None


def _instant(body: Object, key: str) -> datetime | None:
    text = body.get(key)
    return times.parse(text) if text else None


def sort(entries: Iterable[CachedObject], naming: names.RunNames) -> Children:
    """Which of these Jobs belong to which run."""
    by_run: dict[str, dict[int, Object]] = {}
    told: dict[str, ObservedRun] = {}
    others: list[Object] = []
    gone: set[str] = set()
    for entry in entries:
        if entry.body is None:
            gone.add(entry.ref.name)
        elif purpose := _purpose(entry.body, naming):
            run, attempt = purpose
            by_run.setdefault(run.name, {})[attempt] = entry.body
            told[run.name] = run
        else:
            others.append(entry.body)
    return Children(by_run, told, tuple(others), frozenset(gone))


def _purpose(job: Object, naming: names.RunNames) -> tuple[ObservedRun, int] | None:
    """The run that a Job was made for, and the number of the attempt; None for a Job that we did not make."""
    name = job["metadata"]["name"]
    told = job["metadata"].get("annotations") or {}
    # What was made by hand may be called anything, even like the Job of a slot.
    by_hand = jobs.MANUAL in told or jobs.INSTANTIATE in told
    slot = _slot(next((told[key] for key in SLOTS if key in told), None)) or (None if by_hand else naming.slot_of(name))
    if slot is None and jobs.MANUAL not in told:
        return None
    number = told.get(jobs.ATTEMPT, "1")
    attempt = int(number) if number.isdecimal() and len(number) < 5 else 1
    return ObservedRun(
        names.run_of(name, attempt), slot, told.get(jobs.SCHEDULE, ""), told.get(jobs.MANUAL, "")
    ), attempt


def _slot(text: str | None) -> datetime | None:
    try:
        return times.parse(text) if text else None
    except ValueError:
        return None


def observe(
    known: Iterable[ObservedRun], children: Children, limits: RunLimits, now: datetime
) -> tuple[ObservedRun, ...]:
    """All runs as they are now, those that are remembered and those whose Jobs are there; the oldest first."""
    before = {run.name: run for run in known}
    found = [_now(run, children.by_run.get(name, {}), children.gone, limits, now) for name, run in before.items()]
    # What ended before anybody took note of it is not tried again: it may be years old.
    last = replace(limits, retry=None)
    found += [
        _now(run, children.by_run[name], children.gone, limits if _at_work(children.by_run[name]) else last, now)
        for name, run in sorted(children.told.items())
        if name not in before
    ]
    # What has ended and is not remembered was forgotten for newer ones: it stays before them, or it would come back.
    found.sort(key=lambda run: run.name in before or not run.over)
    return tuple(sorted(found, key=_age))


def _at_work(attempts: Mapping[int, Object]) -> bool:
    return any(ending.finished(job) is None for job in attempts.values())


def _age(run: ObservedRun) -> tuple[float, float]:
    """By start, then by slot. Runs by hand that started in one second stay in the order they are remembered in."""
    started = run.started or run.slot
    moment = started.timestamp() if started else 0.0
    return (moment, run.slot.timestamp() if run.slot else moment)


def _now(
    run: ObservedRun, attempts: Mapping[int, Object], gone: frozenset[str], limits: RunLimits, now: datetime
) -> ObservedRun:
    newest = max((run.attempts, *attempts))
    while names.attempt(run.name, newest + 1) in gone:
        newest += 1
    job = attempts.get(newest)
    if newest > run.attempts:
        started = run.started or min((_created(each) for each in attempts.values()), default=now)
        run = replace(run, attempts=newest, started=started, outcome=RUNNING, again=None, reason="", message="")
    run = replace(run, job=job)
    if job is None:
        return _without_job(run, limits, now)
    if (how := ending.finished(job)) is None:
        return _unfinished(run, job, limits, now)
    if run.over:
        return run
    return _succeeded(run, job) if how == "Complete" else _in_time(_failed(run, job, limits), limits, now)


def _without_job(run: ObservedRun, limits: RunLimits, now: datetime) -> ObservedRun:
    if run.outcome == RUNNING:
        return run.ended(DELETED, now, "JobDeleted", "The run's Job is not there any more")
    if run.outcome == RETRYING and limits.retry is None:
        return run.ended(FAILED, now, run.reason, run.message)
    return _in_time(run, limits, now)


def _unfinished(run: ObservedRun, job: Object, limits: RunLimits, now: datetime) -> ObservedRun:
    if run.over:
        # Said to be over, and it is not unless it is just going: its deletion was refused.
        if job["metadata"].get("deletionTimestamp"):
            return run
        run = replace(run, outcome=RUNNING, completed=None, reason="", message="")
    deadline = limits.deadline(run)
    if deadline and now >= deadline + GRACE:
        return run.ended(TIMED_OUT, now, "RunTimeLimitExceeded", "The run took longer than its limit")
    return run


def _succeeded(run: ObservedRun, job: Object) -> ObservedRun:
    completed = ending.completion(job)
    return run.ended(SUCCEEDED, times.parse(completed) if completed else _ended(job))


def _failed(run: ObservedRun, job: Object, limits: RunLimits) -> ObservedRun:
    """A failed attempt ends the run unless another may follow within the run's time."""
    reason, message = ending.why(job)
    at = _ended(job)
    deadline = limits.deadline(run)
    if deadline and at + _SECOND >= deadline and reason == "DeadlineExceeded":
        return run.ended(TIMED_OUT, at, "RunTimeLimitExceeded", message)
    if limits.retry is None or run.attempts > limits.retry.limit:
        return run.ended(FAILED, at, reason, message)
    again = at + limits.delay(run.attempts)
    if deadline and again >= deadline:
        return run.ended(FAILED, at, reason, message)
    return replace(run, outcome=RETRYING, again=again, reason=reason, message=message)


def _in_time(run: ObservedRun, limits: RunLimits, now: datetime) -> ObservedRun:
    """A run that waits for its next attempt must end in time, too."""
    deadline = limits.deadline(run)
    if run.outcome == RETRYING and deadline and now >= deadline:
        return run.ended(TIMED_OUT, now, "RunTimeLimitExceeded", run.message)
    return run


def _ended(job: Object) -> datetime:
    moment = ending.at(job)
    return times.parse(moment) if moment else _created(job)


def _created(job: Object) -> datetime:
    return times.parse(job["metadata"]["creationTimestamp"])
