"""The decision about one batch/v1 Job, in order: whose pods they are, their counts, the end, the work, the status.

The steps of a plan stand in an order that suits its being cut short: what has ended is counted first, as nothing
else may hold that up; then pods are made or removed; the last status says what came of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from workers.api import times
from workers.api.kinds import JOB, POD, Object
from workers.controllers import conditions
from workers.controllers.batch.job import (
    accounting,
    claiming,
    deadline,
    ending,
    ledger,
    leftovers,
    managing,
    measuring,
    pods,
    spec,
    status,
    ttl,
)
from workers.controllers.batch.job.accounting import PodSettlement
from workers.controllers.batch.job.ending import JobEnding
from workers.controllers.batch.job.findings import Findings
from workers.controllers.batch.job.managing import LOOK_AGAIN, JobWork
from workers.controllers.batch.job.ownership import Jobs, ours
from workers.controllers.batch.job.status import NewCondition, PodCounts
from workers.reconcile.controller import Controller
from workers.reconcile.plan import ComeBack, PatchStatus, Plan, RecordEvent, Step, Together
from workers.reconcile.snapshot import Snapshot

#: Nothing tells a Job with a selector of its own of pods that it may adopt: it looks for them this often.
_LOOK_FOR_PODS = timedelta(seconds=5)


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do about a Job and its pods."""
    job, children = snapshot.body, pods.existing(snapshot.children.get(POD.id, ()))
    if job is None:
        return Plan(leftovers.release(children), "gone, its pods are let go")
    if how := conditions.finished(job):
        after = ttl.decide(snapshot, job, spec.of(job), how, now)
        return Plan((*leftovers.clear(children), *after.steps), after.why)
    leaving = bool(job["metadata"].get("deletionTimestamp"))
    if mode := spec.unknown_mode(job):
        told = RecordEvent(
            "Warning", "UnknownCompletionMode", f"completion mode {mode!r} is not known; the Job is not run"
        )
        return Plan(leftovers.release(children) if leaving else (told,), told.message)
    if not leaving and (claims := claiming.claims(snapshot, job, spec.of(job))):
        return Plan((*claims, ComeBack(now)), "pods are taken on or let go")
    return _JobDecision(snapshot, job, leaving, now).plan()


def controller(jobs: Jobs) -> Controller:
    """The controller of batch/v1 Jobs. jobs: which are ours."""
    return Controller(kind=JOB, decide=decide, children=(POD,), adopts=(POD,), accepts=ours(jobs))


@dataclass(frozen=True)
class _JobDecision:
    """The decision about one unfinished Job. leaving: it is being deleted; its pods are the garbage collector's."""

    snapshot: Snapshot
    job: Object
    leaving: bool
    now: datetime

    def plan(self) -> Plan:
        """Count, work, tell."""
        observed, late = self.job.get("status") or {}, self._late
        steps: list[Step] = []
        if self._urgent and (early := self._early) != observed:
            steps += self._written(observed, early)
            observed = early
        if released := self._settlement.released:
            steps.append(Together(tuple(leftovers.unfinalize(pod) for pod in released)))
            steps += measuring.handled(self._findings, released)
        steps += self._work.steps
        # A Job on its way out may be gone as soon as nothing holds its pods: what is written down is counted later.
        if late != observed and not (self.leaving and released):
            steps += self._written(observed, late)
        if back := self._back:
            steps.append(ComeBack(back))
        return Plan(tuple(steps), _told(late))

    @cached_property
    def _spec(self) -> spec.BatchJobSpec:
        return spec.of(self.job)

    @cached_property
    def _findings(self) -> Findings:
        seen = pods.sort(pods.existing(self.snapshot.children.get(POD.id, ())), self._spec)
        known = ledger.observed(self.job, self._spec, seen)
        return Findings(self._spec, seen, known, ending=ending.decided(self.job) is not None)

    @cached_property
    def _over(self) -> JobEnding | None:
        """The end, decided earlier or now. A Job that is being deleted comes to no new one."""
        if (over := ending.decided(self.job)) or self.leaving:
            return over
        return ending.of(self._spec, self._findings, self._limit, self.now)

    @cached_property
    def _settlement(self) -> PodSettlement:
        return accounting.settle(self._findings, self._over, letting_go=self.leaving)

    @cached_property
    def _work(self) -> JobWork:
        if self.leaving:
            return JobWork((), PodCounts.of(self._findings.pods))
        if self._over:
            return managing.stop(self._findings, self.now)
        entries = (*self.snapshot.children.get(POD.id, ()), *self.snapshot.unowned.get(POD.id, ()))
        return managing.manage(self.job, self._findings, {entry.ref.name for entry in entries}, self.now)

    @property
    def _urgent(self) -> bool:
        """Whether a status must be written before anything else is done.

        Uids before finalizers go; the end before pods are deleted for it; and, where the last plan failed, all that
        does not depend on pods, such as the start that a deadline counts from: they may fail again.
        """
        return bool(self._settlement.released or (self._work.steps and (self._over or self.snapshot.failures)))

    @cached_property
    def _settings(self) -> tuple[NewCondition, ...]:
        if self._over:
            return (status.decided(self._over),)
        return () if self.leaving else status.suspension(self.job, self._spec.suspended)

    @property
    def _early(self) -> Object:
        tally = PodCounts.of(self._findings.pods)
        return status.render(self.job, self._settlement.before, tally, self._started, self._settings, self.now)

    @cached_property
    def _late(self) -> Object:
        settings = self._settings
        if self._over and self._finished:
            settings = (*settings, status.finished(self._over))
        return status.render(self.job, self._settlement.after, self._work.tally, self._started, settings, self.now)

    @property
    def _finished(self) -> bool:
        """No pod is left at work, and every one that ended is counted."""
        settlement = self._settlement
        return bool(self._over) and self._work.tally.quiet and settlement.after.settled and not settlement.more

    @cached_property
    def _started(self) -> datetime | None:
        """When the Job started; starting over, and its deadline with it, when it is resumed."""
        text = (self.job.get("status") or {}).get("startTime")
        known = times.parse(text) if text else None
        if self._over:
            # A finished Job must have started, unless it was suspended and had nothing to do.
            return known or (None if self._spec.suspended and self._spec.completions == 0 else self.now)
        return known if self.leaving else self._start(known)

    def _start(self, known: datetime | None) -> datetime | None:
        if self._spec.suspended:
            return None
        resumed = conditions.holds(self.job, "Suspended")
        return known if known and not resumed else self.now

    @cached_property
    def _limit(self) -> datetime | None:
        text = (self.job.get("status") or {}).get("startTime")
        return deadline.of(self._spec, self._start(times.parse(text) if text else None))

    @property
    def _back(self) -> datetime | None:
        """The first of all moments at which there is something to look at again."""
        moments = [self._work.back]
        if self._settlement.more:
            moments.append(self.now)
        if any(self.leaving or pods.is_leaving(pod) for pod in self._settlement.released):
            moments.append(self.now + LOOK_AGAIN)
        if self._finished:
            # What the plan itself writes is no news for this key: nothing else would bring it back.
            moments += [self.now + timedelta(seconds=self._spec.ttl)] if self._spec.ttl is not None else []
        elif not self.leaving:
            moments.append(None if self._over else self._limit)
            moments.append(self.now + _LOOK_FOR_PODS if self._spec.manual_selector else None)
        return min((moment for moment in moments if moment), default=None)

    def _written(self, before: Object, after: Object) -> Iterator[Step]:
        """Write a status, and tell and count what is new in it."""
        yield PatchStatus(after)
        yield from self._events(before, after)
        yield from measuring.written(self._spec, before, after)

    def _events(self, before: Object, after: Object) -> Iterator[RecordEvent]:
        """What to tell about conditions that this status changes."""
        for each in after.get("conditions") or ():
            if conditions.status_of({"status": before}, each["type"]) == each["status"]:
                continue
            match each["type"]:
                case "Suspended":
                    yield RecordEvent("Normal", each["reason"].removeprefix("Job"), each["message"])
                case "Failed":
                    yield RecordEvent("Warning", each["reason"], each["message"])
                case "Complete":
                    yield from self._completed(after.get("succeeded", 0))

    def _completed(self, succeeded: int) -> Iterator[RecordEvent]:
        wanted = self._spec.completions
        if wanted is not None and succeeded > wanted:
            yield RecordEvent("Warning", "TooManySucceededPods", f"{succeeded} of {wanted} succeeded")
        yield RecordEvent("Normal", "Completed", "Job completed")


def _told(new: Object) -> str:
    return ", ".join(f"{new.get(field, 0)} {field}" for field in ("active", "succeeded", "failed"))
