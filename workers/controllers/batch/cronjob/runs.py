"""Runs and their outcomes: one for every started slot and every request.

A run is one Job, or with retries several, one after the other. A ScheduledJob records its runs in `status.runs` while
they are unfinished and in `status.outcomes` afterwards; the existing Jobs add to that, and are the only record of a
CronJob's runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.api.penstock_dev.scheduledjob import RunRetry
from workers.controllers.batch.cronjob import ending, jobs, names
from workers.controllers.batch.cronjob.dialect import SLOTS
from workers.decision.snapshot import CachedObject

RUNNING = "Running"
RETRYING = "Retrying"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
TIMED_OUT = "TimedOut"
DELETED = "Deleted"
REPLACED = "Replaced"

#: The Job's own deadline ends a run in time; a Job that it does not end (a suspended one) is deleted this much later.
GRACE = timedelta(seconds=30)
#: Times in objects have whole seconds.
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """One run. name: of its first Job. slot: None for a requested run, which has an id. attempts: Jobs created for it.

    again: when the next attempt of a `Retrying` run is due. env: variables for further attempts. job: the last
    attempt's Job while it exists.
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
        """True if the run has its outcome. Between two attempts it has none."""
        return self.outcome not in (RUNNING, RETRYING)

    @property
    def live(self) -> Object | None:
        """The last attempt's Job, if it is unfinished and not being deleted."""
        job = self.job
        if job is None or ending.finished(job) or job["metadata"].get("deletionTimestamp"):
            return None
        return job

    def ended(self, outcome: str, at: datetime, reason: str = "", message: str = "") -> "ObservedRun":
        """Returns the run with this outcome."""
        return replace(self, outcome=outcome, completed=at, again=None, reason=reason, message=message)

    def render(self) -> Object:
        """Returns the entry in `status.runs` or `status.outcomes`."""
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
    """Limits of a run: retries and time."""

    retry: RunRetry | None
    time: timedelta | None

    def deadline(self, run: ObservedRun) -> datetime | None:
        """Returns when the run must be over, None for no limit."""
        return times.after(run.started, self.time) if self.time and run.started else None

    def delay(self, failures: int) -> timedelta:
        """Returns the delay after this many failed attempts."""
        assert self.retry is not None
        # The bound keeps the shift small; the maximum applies anyway.
        doubled = self.retry.delay_seconds << min(failures - 1, 32)
        return timedelta(seconds=min(doubled, self.retry.max_delay_seconds))


@dataclass(frozen=True, slots=True)
class Children:
    """The Jobs of one object.

    by_run: by name of the run and number of the attempt. described: the runs as their Jobs describe them, by name.
    others: Jobs of other creators. gone: names of deleted Jobs whose tombstones are left.
    """

    by_run: Mapping[str, Mapping[int, Object]]
    described: Mapping[str, ObservedRun]
    others: tuple[Object, ...]
    gone: frozenset[str]

    @property
    def ours(self) -> tuple[Object, ...]:
        """The Jobs of all runs."""
        return tuple(job for attempts in self.by_run.values() for job in attempts.values())

    def had_job(self, run: str) -> bool:
        """True if the run of this name has, or had, a Job."""
        return run in self.by_run or run in self.gone


def remembered(status: Object) -> tuple[ObservedRun, ...]:
    """Reads the runs recorded in a status; a malformed entry is dropped."""
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
    """Assigns the Jobs to their runs."""
    by_run: dict[str, dict[int, Object]] = {}
    described: dict[str, ObservedRun] = {}
    others: list[Object] = []
    gone: set[str] = set()
    for entry in entries:
        if entry.body is None:
            gone.add(entry.ref.name)
        elif purpose := _purpose(entry.body, naming):
            run, attempt = purpose
            by_run.setdefault(run.name, {})[attempt] = entry.body
            described[run.name] = run
        else:
            others.append(entry.body)
    return Children(by_run, described, tuple(others), frozenset(gone))


def _purpose(job: Object, naming: names.RunNames) -> tuple[ObservedRun, int] | None:
    """Returns the run of a Job and the number of the attempt; None for a Job of another creator."""
    name = job["metadata"]["name"]
    annotations = job["metadata"].get("annotations") or {}
    # A Job created by hand may have any name, even that of a slot's Job.
    by_hand = jobs.MANUAL in annotations or jobs.INSTANTIATE in annotations
    slot = times.instant(next((annotations[key] for key in SLOTS if key in annotations), None)) or (
        None if by_hand else naming.slot_of(name)
    )
    if slot is None and jobs.MANUAL not in annotations:
        return None
    number = annotations.get(jobs.ATTEMPT, "1")
    attempt = int(number) if number.isdecimal() and len(number) < 5 else 1
    return ObservedRun(
        names.run_of(name, attempt), slot, annotations.get(jobs.SCHEDULE, ""), annotations.get(jobs.MANUAL, "")
    ), attempt


def observe(
    known: Iterable[ObservedRun], children: Children, limits: RunLimits, now: datetime
) -> tuple[ObservedRun, ...]:
    """Returns all runs, recorded ones and those of existing Jobs, in their present state; the oldest first."""
    before = {run.name: run for run in known}
    found = [_now(run, children.by_run.get(name, {}), children.gone, limits, now) for name, run in before.items()]
    # A run that ended without a record is not retried: it may be years old.
    no_retry = replace(limits, retry=None)
    found += [
        _now(
            run,
            children.by_run[name],
            children.gone,
            limits if _unfinished_any(children.by_run[name]) else no_retry,
            now,
        )
        for name, run in sorted(children.described.items())
        if name not in before
    ]
    # A finished run without a record was dropped from outcomes for newer ones: it must sort before them, not return.
    found.sort(key=lambda run: run.name in before or not run.over)
    return oldest_first(found)


def oldest_first(found: Iterable[ObservedRun]) -> tuple[ObservedRun, ...]:
    """Returns the runs by their start, as the status lists them."""
    return tuple(sorted(found, key=_age))


def _unfinished_any(attempts: Mapping[int, Object]) -> bool:
    return any(ending.finished(job) is None for job in attempts.values())


def _age(run: ObservedRun) -> tuple[float, float]:
    """Sorts by start, then by slot. Requested runs that started in one second keep their recorded order."""
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
    if (end := ending.finished(job)) is None:
        return _unfinished(run, job, limits, now)
    if run.over:
        return run
    return _succeeded(run, job) if end == "Complete" else _in_time(_failed(run, job, limits), limits, now)


def _without_job(run: ObservedRun, limits: RunLimits, now: datetime) -> ObservedRun:
    if run.outcome == RUNNING:
        return run.ended(DELETED, now, "JobDeleted", "The run's Job is not there any more")
    if run.outcome == RETRYING and limits.retry is None:
        return run.ended(FAILED, now, run.reason, run.message)
    return _in_time(run, limits, now)


def _unfinished(run: ObservedRun, job: Object, limits: RunLimits, now: datetime) -> ObservedRun:
    if run.over:
        # Recorded as over, yet the Job runs: its deletion was refused.
        if job["metadata"].get("deletionTimestamp"):
            return run
        run = replace(run, outcome=RUNNING, completed=None, reason="", message="")
    deadline = limits.deadline(run)
    if deadline and now >= times.after(deadline, GRACE):
        return run.ended(TIMED_OUT, now, "RunTimeLimitExceeded", "The run took longer than its limit")
    return run


def _succeeded(run: ObservedRun, job: Object) -> ObservedRun:
    completed = ending.completion(job)
    return run.ended(SUCCEEDED, times.parse(completed) if completed else _ended(job))


def _failed(run: ObservedRun, job: Object, limits: RunLimits) -> ObservedRun:
    """Ends the run of a failed attempt unless another attempt fits into the run's time."""
    reason, message = ending.why(job)
    at = _ended(job)
    deadline = limits.deadline(run)
    if deadline and times.after(at, _SECOND) >= deadline and reason == "DeadlineExceeded":
        return run.ended(TIMED_OUT, at, "RunTimeLimitExceeded", message)
    if limits.retry is None or run.attempts > limits.retry.limit:
        return run.ended(FAILED, at, reason, message)
    again = times.after(at, limits.delay(run.attempts))
    if deadline and again >= deadline:
        return run.ended(FAILED, at, reason, message)
    return replace(run, outcome=RETRYING, again=again, reason=reason, message=message)


def _in_time(run: ObservedRun, limits: RunLimits, now: datetime) -> ObservedRun:
    """Ends a run whose time is over while it waits for its next attempt."""
    deadline = limits.deadline(run)
    if run.outcome == RETRYING and deadline and now >= deadline:
        return run.ended(TIMED_OUT, now, "RunTimeLimitExceeded", run.message)
    return run


def _ended(job: Object) -> datetime:
    moment = ending.at(job)
    return times.parse(moment) if moment else _created(job)


def _created(job: Object) -> datetime:
    return times.parse(job["metadata"]["creationTimestamp"])
