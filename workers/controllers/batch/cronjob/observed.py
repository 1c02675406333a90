"""The observed view of one CronJob or ScheduledJob: its runs, its Jobs, its requests and its cursor."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from workers.api import times
from workers.api.kinds import Kind, Object
from workers.api.penstock_dev.scheduledjob import ScheduledJobSpec
from workers.controllers.batch.cronjob import cursor, dialect, ending, names, run_requests, runs, timetable
from workers.controllers.batch.cronjob.cursor import Cursor
from workers.controllers.batch.cronjob.dialect import Dialect
from workers.controllers.batch.cronjob.run_requests import RefusedRun, RunRequest
from workers.controllers.batch.cronjob.runs import Children, ObservedRun, RunLimits
from workers.decision.snapshot import Snapshot

#: Failed reconciles in a row before the Ready condition turns False.
FAILING = 3


@dataclass(frozen=True)
class ObservedSchedule:
    """An existing object with a valid manifest, at one moment."""

    snapshot: Snapshot
    body: Object
    spec: ScheduledJobSpec
    now: datetime

    @property
    def kind(self) -> Kind:
        """CronJob or ScheduledJob."""
        return self.snapshot.ref.kind

    @cached_property
    def dialect(self) -> Dialect:
        """The annotations and Events of the kind."""
        return dialect.of(self.kind)

    @cached_property
    def is_cron_job(self) -> bool:
        """True for CronJobs of both groups: their status has three fields and records no outcomes."""
        return not self.dialect.scheduled

    @property
    def deleting(self) -> bool:
        """True if the deletion of the object was requested."""
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @property
    def failing(self) -> str | None:
        """The last error of a ScheduledJob whose reconciles keep failing, else None."""
        return self.snapshot.last_error if self.snapshot.failures >= FAILING and not self.is_cron_job else None

    @property
    def status(self) -> Object:
        """The status as observed."""
        return self.body.get("status") or {}

    @cached_property
    def names(self) -> names.RunNames:
        """The names of the Jobs."""
        return names.of(self.kind, self.snapshot.ref.name)

    @cached_property
    def cursor(self) -> Cursor:
        """The cursor as observed."""
        return cursor.observed(self.body, annotated=self.is_cron_job)

    @cached_property
    def schedule(self) -> str:
        """All schedules of the spec, with their zones, as one text that changes with any of them."""
        wanted = timetable.schedules(self.spec)
        return "; ".join(f"{text} ({zone})" if zone else text for text, zone in wanted)

    @cached_property
    def edited(self) -> bool:
        """True if the schedule was edited since the last decision."""
        before, _ = cursor.recorded_schedule(self.body, annotated=self.is_cron_job)
        return before is not None and before != self.schedule

    def next_attempt(self, run: ObservedRun) -> datetime | None:
        """Returns when the next attempt of this run starts; None if none does, or while no end of a suspension is set.

        Whether a slot follows does not matter for that.
        """
        if run.outcome != runs.RETRYING or run.again is None or self.deleting or self.spec.suspend:
            return None
        until = self.spec.suspend_until
        return max(run.again, times.parse(until)) if until else run.again

    @cached_property
    def children(self) -> Children:
        """The Jobs by run."""
        return runs.sort(self.snapshot.children.get(self.dialect.child.id, ()), self.names)

    @cached_property
    def jobs(self) -> tuple[Object, ...]:
        """All Jobs that exist."""
        return tuple(
            entry.body for entry in self.snapshot.children.get(self.dialect.child.id, ()) if entry.body is not None
        )

    @cached_property
    def finished(self) -> tuple[Object, ...]:
        """The finished Jobs."""
        return tuple(job for job in self.jobs if ending.finished(job))

    def attempts_of(self, runs: Iterable[ObservedRun]) -> set[str]:
        """Returns the names of all Jobs of these runs."""
        attempts = (self.children.by_run.get(run.name, {}) for run in runs)
        return {job["metadata"]["name"] for each in attempts for job in each.values()}

    @cached_property
    def limits(self) -> RunLimits:
        """The limits of retries and time of every run."""
        seconds = self.spec.run_time_limit_seconds
        return RunLimits(self.spec.retry, timedelta(seconds=seconds) if seconds else None)

    @cached_property
    def runs(self) -> tuple[ObservedRun, ...]:
        """All recorded and existing runs, in their present state."""
        return runs.observe(runs.remembered(self.status), self.children, self.limits, self.now)

    @cached_property
    def newest_slot(self) -> datetime | None:
        """The newest slot of an existing Job; a slot in the future is a mistake and does not count."""
        slots = [run.slot for run in self.children.described.values() if run.slot and run.slot <= self.now]
        return max(slots, default=None)

    @property
    def requests(self) -> tuple[RunRequest, ...]:
        """The runs that annotations request."""
        return self._annotated[0]

    @property
    def refused(self) -> tuple[RefusedRun, ...]:
        """The malformed requests."""
        return self._annotated[1]

    @cached_property
    def _annotated(self) -> tuple[tuple[RunRequest, ...], tuple[RefusedRun, ...]]:
        return run_requests.read(self.body, retries=not self.is_cron_job)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(run.name for run in self.runs)

    def has_run(self, run: str) -> bool:
        """True if the run of this name was started."""
        return run in self._known or self.children.had_job(run)

    def started(self, slot: datetime) -> bool:
        """True if the run of a slot was started."""
        return self.has_run(self.names.slot(slot))

    @cached_property
    def resumed(self) -> bool:
        """True if the spec was edited since the status was written: resumed, or given another schedule."""
        return bool(self.status.get("observedGeneration") != self.body["metadata"].get("generation"))
