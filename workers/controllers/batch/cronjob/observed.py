"""What one reconcile sees of a CronJob or ScheduledJob: its runs, its Jobs and how far its slots are handled."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from workers.api.kinds import Kind, Object
from workers.api.scheduledjob import ScheduledJobSpec
from workers.controllers.batch.cronjob import cursor, dialect, ending, manual, names, runs
from workers.controllers.batch.cronjob.cursor import Cursor
from workers.controllers.batch.cronjob.dialect import Dialect
from workers.controllers.batch.cronjob.jobs import Owner
from workers.controllers.batch.cronjob.manual import RefusedRun, RunRequest
from workers.controllers.batch.cronjob.runs import Children, ObservedRun, RunLimits
from workers.reconcile.snapshot import Snapshot

#: So many reconciles have to fail in a row before the Ready condition says so.
FAILING = 3


@dataclass(frozen=True)
class ObservedSchedule:
    """An object that exists and whose manifest is right, at one moment."""

    snapshot: Snapshot
    body: Object
    spec: ScheduledJobSpec
    now: datetime

    @property
    def kind(self) -> Kind:
        """CronJob or ScheduledJob."""
        return self.snapshot.ref.kind

    @property
    def dialect(self) -> Dialect:
        """What the kind calls things."""
        return dialect.of(self.kind)

    @property
    def is_cron_job(self) -> bool:
        """A CronJob's status has three fields; what a ScheduledJob remembers beyond them a CronJob does not."""
        return not self.dialect.scheduled

    @property
    def leaving(self) -> bool:
        """Whether the object is being deleted."""
        return bool(self.body["metadata"].get("deletionTimestamp"))

    @property
    def failing(self) -> str | None:
        """Why reconciles of a ScheduledJob keep failing; a single failure is nothing to speak of."""
        return self.snapshot.last_error if self.snapshot.failures >= FAILING and not self.is_cron_job else None

    @property
    def status(self) -> Object:
        """The status as it was written last."""
        return self.body.get("status") or {}

    @cached_property
    def owner(self) -> Owner:
        """Whose Jobs they are."""
        metadata = self.body["metadata"]
        return Owner(self.kind, self.snapshot.ref.namespace, self.snapshot.ref.name, metadata["uid"])

    @cached_property
    def names(self) -> names.RunNames:
        """How the Jobs are named."""
        return names.of(self.kind, self.snapshot.ref.name)

    @cached_property
    def cursor(self) -> Cursor:
        """How far slots are handled, as it was written last."""
        return cursor.observed(self.body, annotated=self.is_cron_job)

    @cached_property
    def children(self) -> Children:
        """The Jobs, by what they are for."""
        return runs.sort(self.snapshot.children.get(self.dialect.child.id, ()), self.names)

    @cached_property
    def jobs(self) -> tuple[Object, ...]:
        """All Jobs that are there."""
        return tuple(
            entry.body for entry in self.snapshot.children.get(self.dialect.child.id, ()) if entry.body is not None
        )

    @cached_property
    def finished(self) -> tuple[Object, ...]:
        """The Jobs that are over."""
        return tuple(job for job in self.jobs if ending.finished(job))

    def attempts_of(self, runs: Iterable[ObservedRun]) -> set[str]:
        """The names of all Jobs of these runs."""
        attempts = (self.children.by_run.get(run.name, {}) for run in runs)
        return {job["metadata"]["name"] for each in attempts for job in each.values()}

    @cached_property
    def limits(self) -> RunLimits:
        """How long and how often runs may try."""
        seconds = self.spec.run_time_limit_seconds
        return RunLimits(self.spec.retry, timedelta(seconds=seconds) if seconds else None)

    @cached_property
    def runs(self) -> tuple[ObservedRun, ...]:
        """All runs that are known, as they are now."""
        return runs.observe(runs.remembered(self.status), self.children, self.limits, self.now)

    @property
    def newest(self) -> datetime | None:
        """The newest slot that one of the Jobs is for; a slot that is still to come is somebody's mistake."""
        slots = (run.slot for run in self.children.told.values())
        return max((slot for slot in slots if slot and slot <= self.now), default=None)

    @cached_property
    def asked(self) -> tuple[tuple[RunRequest, ...], tuple[RefusedRun, ...]]:
        """What annotations ask for."""
        return manual.read(self.body)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(run.name for run in self.runs)

    def had(self, run: str) -> bool:
        """Whether the run of this name was started."""
        return run in self._known or self.children.had(run)

    def started(self, slot: datetime) -> bool:
        """Whether the run of a slot was started."""
        return self.had(self.names.slot(slot))

    @cached_property
    def resumed(self) -> bool:
        """Whether the spec was another when the status was written last: it was suspended, or its schedule edited."""
        return bool(self.status.get("observedGeneration") != self.body["metadata"].get("generation"))
