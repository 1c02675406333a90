"""The decision about a batch/v1 Job: Kubernetes' semantics, as a pure function of the observed state.

The stages of an unfinished Job, each a value: observed pods, end, pods to count, work on pods, statuses, requeue. The
steps of the plan are ordered so that each may be the last: finished pods are counted first, because no refused write
may hold that up; then pods are created or deleted; the last status reports both.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api import conditions, times
from workers.api.kinds import JOB, POD, Object
from workers.controllers import adoption, pod_stages
from workers.controllers.batch.job import (
    accounting,
    cleanup,
    ending,
    observed,
    parallelism,
    pods,
    spec,
    status,
)
from workers.controllers.batch.job.accounting import PodSettlement
from workers.controllers.batch.job.ending import JobEnding
from workers.controllers.batch.job.observed import ObservedBatchJob
from workers.controllers.batch.job.parallelism import JobWork
from workers.controllers.batch.job.spec import BatchJobSpec, Jobs, managed
from workers.controllers.batch.job.status import NewCondition, PodCounts
from workers.decision.controller import Controller
from workers.decision.plan import ComeBack, Plan, RecordEvent, Step, Together
from workers.decision.snapshot import Snapshot

#: Pods that a Job with a selector of its own may adopt do not enqueue it: its key comes back this often.
_ADOPTION_INTERVAL = timedelta(seconds=5)


def controller(jobs: Jobs) -> Controller:
    """Returns the controller of batch/v1 Jobs. jobs: the Jobs that are managed."""
    return Controller(kind=JOB, decide=decide, children=(POD,), adopts=(POD,), accepts=managed(jobs))


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Returns the plan for a Job and its pods."""
    job, children = snapshot.body, pods.existing(snapshot.children.get(POD.id, ()))
    if job is None:
        return Plan(cleanup.release(children), "gone, its pods are let go")
    if end := conditions.finished(job):
        expiry = cleanup.expire(snapshot, job, spec.of(job), end, now)
        return Plan((*cleanup.clear(children), *expiry.steps), expiry.why)
    deleting = pods.is_deleting(job)
    if spec.has_unknown_mode(job):
        text = "Skipped Job sync because completion mode is unknown"
        warning = RecordEvent("Warning", "UnknownCompletionMode", text)
        return Plan(cleanup.release(children) if deleting else (warning,), warning.message)
    run = JobRun(snapshot, job, spec.of(job), deleting, now)
    if not deleting and (claims := adoption.claim(snapshot, POD, counted=True)):
        return Plan((*claims, ComeBack(now)), "pods are taken on or let go")
    return _unfinished(run, children)


@dataclass(frozen=True, slots=True)
class JobRun:
    """An unfinished Job at one moment. deleting: its deletion was requested; the garbage collector deletes its pods."""

    snapshot: Snapshot
    job: Object
    spec: BatchJobSpec
    deleting: bool
    now: datetime

    @property
    def status(self) -> Object:
        """The status as observed."""
        return self.job.get("status") or {}

    @property
    def start_time(self) -> datetime | None:
        """status.startTime as observed."""
        text = self.status.get("startTime")
        return times.parse(text) if text else None

    @property
    def continued_since(self) -> datetime | None:
        """The start of a Job that continues: now for a new or resumed one, None while suspended."""
        if self.spec.suspended:
            return None
        known = self.start_time
        return known if known and not conditions.holds(self.job, "Suspended") else self.now


@dataclass(frozen=True, slots=True)
class Statuses:
    """before: the status to write ahead of finalizers and pods, None if none is needed. after: the last status.

    finished: the Job finishes with `after`.
    """

    before: Object | None
    after: Object
    finished: bool


def _unfinished(run: JobRun, children: tuple[Object, ...]) -> Plan:
    """Runs the stages of an unfinished Job in order."""
    sorted_pods = pods.sort(children, run.spec)
    ledger = observed.read_ledger(run.job, run.spec, sorted_pods)
    known_end = ending.decided(run.job)
    view = ObservedBatchJob(run.spec, sorted_pods, ledger, ending=known_end is not None)
    end = find_end(run, view, known_end)
    counted = accounting.settle(view, end, deleting=run.deleting)
    work = work_on_pods(run, view, end)
    statuses = render_statuses(run, view, end, counted, work)
    steps = order_steps(run, view, counted, work, statuses)
    if requeue_at := find_requeue(run, end, counted, work, statuses.finished):
        steps.append(ComeBack(requeue_at))
    numbers = (f"{statuses.after.get(field, 0)} {field}" for field in ("active", "succeeded", "failed"))
    return Plan(tuple(steps), ", ".join(numbers))


def find_end(run: JobRun, view: ObservedBatchJob, known: JobEnding | None) -> JobEnding | None:
    """Returns the end, decided earlier or now. A Job that is being deleted gets no new one."""
    if known or run.deleting:
        return known
    return ending.of(run.spec, view, run.spec.deadline(run.continued_since), run.now)


def work_on_pods(run: JobRun, view: ObservedBatchJob, end: JobEnding | None) -> JobWork:
    """Returns the creations and deletions of pods; none for a Job that is being deleted."""
    if run.deleting:
        return JobWork((), PodCounts.of(view.pods))
    if end:
        return parallelism.stop(view, run.now)
    entries = (*run.snapshot.children.get(POD.id, ()), *run.snapshot.unowned.get(POD.id, ()))
    return parallelism.manage(run.job, view, {entry.ref.name for entry in entries}, run.now)


def render_statuses(
    run: JobRun, view: ObservedBatchJob, end: JobEnding | None, counted: PodSettlement, work: JobWork
) -> Statuses:
    """Renders the statuses of the plan.

    `before` is needed for UIDs, which go before their finalizers; for an end, which goes before the deletion of pods;
    and after a failed plan, for all that does not depend on pods (the start that a deadline counts from): the same
    creations may be refused again.
    """
    changes: tuple[NewCondition, ...] = ()
    if end:
        changes = (NewCondition(end.target, "True", end.reason, end.message),)
    elif not run.deleting:
        changes = status.suspension(run.job, run.spec.suspended)
    started = _start_to_write(run, end)
    before = None
    if counted.released or (work.steps and (end or run.snapshot.failures)):
        before = status.render(run.job, counted.before, PodCounts.of(view.pods), started, changes, run.now)
    finished = bool(end) and work.counts.none_left and counted.after.settled and not counted.more
    if end and finished:
        changes = (*changes, NewCondition(end.final, "True", end.reason, end.message))
    after = status.render(run.job, counted.after, work.counts, started, changes, run.now)
    return Statuses(before, after, finished)


def _start_to_write(run: JobRun, end: JobEnding | None) -> datetime | None:
    """Returns the startTime to write; a resumed Job starts over, and its deadline with it."""
    if end:
        # The API server requires a start of finished Jobs, except of suspended ones that had nothing to do.
        return run.start_time or (None if run.spec.suspended and run.spec.completions == 0 else run.now)
    return run.start_time if run.deleting else run.continued_since


def order_steps(
    run: JobRun, view: ObservedBatchJob, counted: PodSettlement, work: JobWork, statuses: Statuses
) -> list[Step]:
    """Returns the steps in the order in which each may be the last: record, release, work, count."""
    steps: list[Step] = []
    written = run.status
    if statuses.before is not None and statuses.before != written:
        steps += status.write(run.spec, written, statuses.before)
        written = statuses.before
    if counted.released:
        steps.append(Together(tuple(cleanup.unfinalize(pod) for pod in counted.released)))
        steps += status.failures_handled(view, counted.released)
    steps += work.steps
    # A Job that is being deleted may disappear with the last finalizer: the next decision counts what is recorded.
    if statuses.after != written and not (run.deleting and counted.released):
        steps += status.write(run.spec, written, statuses.after)
    return steps


def find_requeue(
    run: JobRun, end: JobEnding | None, counted: PodSettlement, work: JobWork, finished: bool
) -> datetime | None:
    """Returns the first instant at which a decision may differ without a watch event."""
    instants = [work.requeue_at]
    if counted.more:
        instants.append(run.now)
    if any(run.deleting or pods.is_deleting(pod) for pod in counted.released):
        instants.append(run.now + pod_stages.RECHECK)
    if finished:
        # The plan's own writes do not enqueue the key, so only this starts the TTL.
        instants.append(run.now + timedelta(seconds=run.spec.ttl) if run.spec.ttl is not None else None)
    elif not run.deleting:
        instants.append(None if end else run.spec.deadline(run.continued_since))
        instants.append(run.now + _ADOPTION_INTERVAL if run.spec.manual_selector else None)
    return min((instant for instant in instants if instant), default=None)
