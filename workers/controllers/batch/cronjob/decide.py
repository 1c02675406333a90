"""The decision about one CronJob or ScheduledJob: Kubernetes' semantics, exact, with ScheduledJob's fields added.

The stages: clock, choice, runs, starts; then the steps. Steps that record what was observed come first (status, history
clean-up, warnings), new effects after them: Jobs are deleted, Jobs are created, the status reports them. Status and
Jobs are never one write, so every step may be the last: a created Job is known by its name before any status lists it.
Where a run starts, the status that reports it records what was observed as well, and clean-up follows it: the ends and
starts of one decision are one write.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.api import conditions, times
from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, VC_CRON_JOB, VC_JOB, Object, Ref
from workers.api.penstock_dev import scheduledjob as manifest
from workers.api.volcano import cronjob as volcano
from workers.controllers.batch.cronjob import dialect, due, history, starting, status
from workers.controllers.batch.cronjob.cursor import EDIT_LAG, MISSED, OBSERVED, Cursor, record_schedule
from workers.controllers.batch.cronjob.due import Due, Settled, Timing, TimingProblem
from workers.controllers.batch.cronjob.observed import ObservedSchedule
from workers.controllers.batch.cronjob.run_requests import RunRequest
from workers.controllers.batch.cronjob.runs import GRACE, REPLACED, RETRYING, RUNNING, ObservedRun, oldest_first
from workers.controllers.batch.cronjob.starting import Choice, Start
from workers.controllers.batch.cronjob.status import ScheduleReady
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, ComeBack, CountMetric, Patch, PatchStatus, Plan, RecordEvent, Step
from workers.decision.snapshot import Snapshot
from workers.errors import UserError

_MINUTE = timedelta(minutes=1)


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Returns the plan for a CronJob or ScheduledJob and its Jobs."""
    body = snapshot.body
    if body is None:
        return NOTHING
    try:
        spec = volcano.scheduled(body) if snapshot.ref.kind == VC_CRON_JOB else manifest.parse(body).spec
    except UserError as error:
        return _refuse(snapshot, body, str(error), now)
    view = ObservedSchedule(snapshot, body, spec, now)
    clock = read_clock(view)
    requests = pending_requests(view)
    choice = choose_runs(view, clock, requests)
    runs = end_replaced(view, choice)
    starts = start_jobs(view, clock, choice, runs)
    decision = Decision(view, clock, requests, choice, runs, starts, with_starts(runs, starts))
    return Plan(tuple(order_steps(decision)), _explain(decision))


def _refuse(snapshot: Snapshot, body: Object, message: str, now: datetime) -> Plan:
    """Returns the plan for a malformed manifest: an Event, and a ScheduledJob's Ready condition."""
    event = RecordEvent("Warning", "InvalidSpec", message)
    if not dialect.of(snapshot.ref.kind).scheduled:
        return Plan((event,), "the manifest is wrong")
    observed = body.get("status") or {}
    new = status.merged(observed, _conditions(body, ScheduleReady("False", "InvalidSpec", message), now))
    return Plan((PatchStatus(new), event) if new != observed else (), "the manifest is wrong")


def _conditions(body: Object, ready: ScheduleReady, now: datetime) -> Object:
    return {
        "conditions": ready.render(body.get("status") or {}, now),
        "observedGeneration": body["metadata"].get("generation"),
    }


# --- the stages


@dataclass(frozen=True, slots=True)
class ClockState:
    """The slots of an object at one moment.

    cursor: the slots handled so far. problem: the reason why no run starts by the clock. timing: None with a problem,
    and for an object that is being deleted. due: None without timing.
    """

    cursor: Cursor
    problem: TimingProblem | None
    timing: Timing | None
    due: Due | None

    @property
    def open(self) -> tuple[datetime, ...]:
        """The slots whose runs may start now."""
        return self.due.open if self.due else ()

    def settled(self, starting: tuple[datetime, ...]) -> Settled:
        """Returns the slots handled once these runs have started."""
        return self.due.settled(starting) if self.due else Settled()


@dataclass(frozen=True, slots=True)
class Decision:
    """The values of all stages.

    runs: the runs before anything starts, replaced ones ended. runs_after: those once the new ones have started.
    """

    view: ObservedSchedule
    clock: ClockState
    requests: tuple[RunRequest, ...]
    choice: Choice
    runs: tuple[ObservedRun, ...]
    starts: tuple[Start, ...]
    runs_after: tuple[ObservedRun, ...]


def read_clock(view: ObservedSchedule) -> ClockState:
    """Finds the due slots. A cursor more than a day ahead is set back to now, or nothing would run for days.

    As in Kubernetes an edited schedule waits for its next slot: those before the edit were never due. An edit after the
    clock was set back moves no cursor back.
    """
    cursor, now = view.cursor, view.now
    if view.edited:
        moment = (now - EDIT_LAG).replace(microsecond=0)
        cursor = replace(cursor, edited=max(moment, cursor.edited or moment))
    if cursor.is_absurd(now):
        cursor = Cursor(cursor.created, scheduled=now)
    timing = due.read_timing(view, cursor)
    if isinstance(timing, TimingProblem):
        return ClockState(cursor, timing, None, None)
    if view.deleting:
        return ClockState(cursor, None, None, None)
    if timing.first > now:
        # The fast path of most reconciles: no slot is due, and none has to be searched.
        return ClockState(cursor, None, timing, Due())
    found = due.of(timing.table, view.spec, cursor.at, now, started=view.started, resumed=view.resumed)
    return ClockState(cursor, None, timing, found)


def pending_requests(view: ObservedSchedule) -> tuple[RunRequest, ...]:
    """Returns the requested runs that have not started."""
    if view.deleting:
        return ()
    return tuple(each for each in view.requests if not view.has_run(view.names.manual(each.id)))


def choose_runs(view: ObservedSchedule, clock: ClockState, requests: tuple[RunRequest, ...]) -> Choice:
    """Applies the concurrency policy to requested runs and open slots."""
    if view.deleting:
        return Choice()
    busy = any(not run.over for run in view.runs)
    return starting.choose(view.spec.concurrency_policy, busy=busy, requests=requests, slots=clock.open)


def end_replaced(view: ObservedSchedule, choice: Choice) -> tuple[ObservedRun, ...]:
    """Returns the observed runs; those that the choice replaces are ended."""
    if not choice.replaces:
        return view.runs
    return tuple(
        run if run.over else run.ended(REPLACED, view.now, "Replaced", "A newer run took its place")
        for run in view.runs
    )


def start_jobs(
    view: ObservedSchedule, clock: ClockState, choice: Choice, runs: Iterable[ObservedRun]
) -> tuple[Start, ...]:
    """Returns the Jobs to create: of the choice, and further attempts of failed runs."""
    table = clock.timing.table if clock.timing else None
    return (*starting.starts(view, choice, table), *starting.retries(view, runs))


def with_starts(runs: tuple[ObservedRun, ...], starts: tuple[Start, ...]) -> tuple[ObservedRun, ...]:
    """Returns the runs once the new ones have started, in the order of the status."""
    if not starts:
        return runs
    new = {start.run.name: start.run for start in starts}
    return oldest_first((*(run for run in runs if run.name not in new), *new.values()))


# --- the steps


def order_steps(decision: Decision) -> Iterator[Step]:
    """Yields the steps in the order in which each may be the last."""
    view, runs = decision.view, decision.runs
    settled = decision.clock.settled(())
    # Unfinished Jobs whose runs are over: they exceeded their limit, or are replaced.
    obsolete = [job for run in runs if run.over and (job := run.live)]
    annotations = _annotations(decision, settled)
    # Ends are recorded before their Jobs are deleted, runs before their requests are removed; and after a creation that
    # was refused nothing waits for the next one.
    records_first = bool(not decision.starts or obsolete or annotations or view.snapshot.failures)
    if records_first:
        # A run that is replaced is at work until its Job is deleted, which may be refused.
        new = _status(decision, view.runs, settled, ending=True)
        if new != view.status:
            yield PatchStatus(new)
        if annotations:
            yield _patch(view, annotations)
        yield from _after_record(decision, settled)
    yield from status.report_unexpected(view.children.others, view.dialect.unexpected)
    yield from _warnings(decision)
    if obsolete:
        yield history.deletion(obsolete, vital=True)
        if not decision.starts:
            yield PatchStatus(_status(decision, runs, settled))
    if decision.starts:
        yield from _create(decision, settled)
    if not records_first:
        yield from _after_record(decision, settled)
    yield from _requeue(decision)


def _after_record(decision: Decision, settled: Settled) -> Iterator[Step]:
    """Yields what follows the status that records the observed ends.

    Its Events, so that a crash may lose one and repeats none; and history clean-up, for until then a Job may be the
    only record of its run.
    """
    view, clock = decision.view, decision.clock
    yield from status.changes(view.status, view.children.ours, view.dialect.missing)
    if clock.due:
        yield from status.missed(settled, clock.cursor.at)
    # Attempts of a run that continues are no history yet.
    unfinished = view.attempts_of(run for run in decision.runs if not run.over)
    finished = [job for job in view.finished if job["metadata"]["name"] not in unfinished]
    limits = view.spec.successful_jobs_history_limit, view.spec.failed_jobs_history_limit
    if cleaning := history.clean_up(finished, *limits):
        yield cleaning


def _annotations(decision: Decision, settled: Settled) -> Object:
    """Returns the changed annotations: handled requests are removed, and a CronJob's newest missed slot is kept."""
    view = decision.view
    started = [each.annotation for each in view.requests if view.has_run(view.names.manual(each.id))]
    changed: Object = dict.fromkeys([*started, *(each.annotation for each in view.refused)])
    if view.is_cron_job:
        before, after = view.cursor.missed, _advance(decision, settled).missed
        if before != after:
            changed[MISSED] = times.render(after) if after else None
        recorded = record_schedule(view.schedule, decision.clock.cursor.edited)
        if not view.deleting and recorded != (view.body["metadata"].get("annotations") or {}).get(OBSERVED):
            changed[OBSERVED] = recorded
    return changed


def _patch(view: ObservedSchedule, annotations: Object) -> Patch:
    return Patch(
        view.snapshot.ref, {"metadata": {"annotations": annotations}}, view.body["metadata"]["resourceVersion"]
    )


def _advance(decision: Decision, settled: Settled) -> Cursor:
    """Returns the cursor behind the settled slots."""
    view, cursor = decision.view, decision.clock.cursor
    if settled.scheduled:
        cursor = replace(cursor, scheduled=settled.scheduled)
    # A Job may be the only record of its slot: the plan that created it died, and since then the schedule was edited or
    # suspended. With catchUp All that is no proof that the slots before it are handled.
    newest = None if due.in_order(view.spec) else view.newest_slot
    if newest and newest > (cursor.scheduled or cursor.created):
        cursor = replace(cursor, scheduled=newest)
    if settled.through and settled.through != settled.scheduled:
        cursor = replace(cursor, missed=settled.through)
    return cursor


def _status(decision: Decision, runs: tuple[ObservedRun, ...], settled: Settled, *, ending: bool = False) -> Object:
    """Returns the whole status. runs: those to list. ending: Jobs whose runs are over still work if they exist."""
    view, cursor = decision.view, _advance(decision, settled)
    active = [job for run in runs if (ending or not run.over) and (job := run.live)]
    computed = status.common(view.status, active, cursor, view.jobs)
    if not view.is_cron_job:
        following = _next_slot(decision.clock, cursor)
        missed = (view.status.get("missedRuns") or 0) + settled.missed
        computed |= {
            "lastMissedTime": times.render(cursor.missed) if cursor.missed else None,
            "nextScheduleTime": times.render(following) if following else None,
            "missedRuns": missed or None,
            "observedSchedule": view.schedule,
            "scheduleEditTime": times.render(cursor.edited) if cursor.edited else None,
            **status.runs(runs, view.spec.outcomes_limit),
        }
        if not view.deleting:
            computed |= _conditions(view.body, _ready(decision), view.now)
    return status.merged(view.status, computed)


def _next_slot(clock: ClockState, cursor: Cursor) -> datetime | None:
    """Returns the first slot behind the cursor."""
    if clock.timing is None or cursor.at == clock.cursor.at:
        return clock.timing.first if clock.timing else None
    return clock.timing.table.next(cursor.at)


def _ready(decision: Decision) -> ScheduleReady:
    if problem := decision.clock.problem:
        return ScheduleReady("False", problem.reason, problem.message)
    if error := decision.view.failing:
        return ScheduleReady("False", "ReconcileFailing", f"the last attempt failed: {error}")
    message = "runs start when they are due"
    if (until := decision.view.spec.suspend_until) and times.parse(until) > decision.view.now:
        # No decision is made when it passes, unless a run is due: the sentence is true after it, too.
        message += f", none before {until} (spec.suspendUntil)"
    return ScheduleReady("True", "Scheduled", message)


def _warnings(decision: Decision) -> Iterator[RecordEvent]:
    """Yields the Events of refused requests, timing problems and the concurrency policy."""
    view, clock, choice = decision.view, decision.clock, decision.choice
    if view.deleting:
        return
    for refused in view.refused:
        yield RecordEvent("Warning", "InvalidRunRequest", f"annotation {refused.annotation}: {refused.why}")
    if clock.problem and clock.problem.event and _is_new(view, clock.problem):
        yield RecordEvent("Warning", clock.problem.event, clock.problem.message)
    if view.cursor.is_ahead(view.now):
        message = f"The last handled schedule time {times.render(view.cursor.at)} is in the future"
        absurd = view.cursor.is_absurd(view.now)
        effect = "; it was set back to now" if absurd else ": nothing is run twice, so nothing is due until then"
        yield RecordEvent("Warning", "ScheduleTimeInFuture", message + effect)
    if choice.waits:
        yield RecordEvent(*view.dialect.waits, _WAITS)
    if choice.replaces and view.dialect.replaces:
        yield RecordEvent("Warning", view.dialect.replaces, _REPLACES)
    if clock.due and choice.slots:
        if clock.due.many:
            yield RecordEvent("Warning", "TooManyMissedTimes", _TOO_MANY)
        if "TZ" in (view.spec.schedule or ""):
            yield RecordEvent("Warning", "UnsupportedSchedule", _ZONE_IN_TEXT.format(schedule=view.spec.schedule))
        if _shares_its_name(decision, choice.slots[-1]):
            yield RecordEvent("Warning", "UnsupportedSchedule", _SEVERAL_A_MINUTE)


def _shares_its_name(decision: Decision, slot: datetime) -> bool:
    """True if the Job of the next slot has the name of this slot's Job."""
    after = decision.clock.timing.table.next(slot) if decision.clock.timing else None
    if after is None or after - slot >= _MINUTE:
        return False
    names = decision.view.names
    return names.slot(after) == names.slot(slot)


def _is_new(view: ObservedSchedule, problem: TimingProblem) -> bool:
    """True unless a ScheduledJob's condition shows that the Event of this problem was recorded."""
    before = conditions.find(view.body, "Ready") or {}
    return view.is_cron_job or (before.get("reason"), before.get("message")) != (problem.reason, problem.message)


def _create(decision: Decision, observed: Settled) -> Iterator[Step]:
    """Creates the Jobs, then writes the status: a slot whose name is taken counts as handled and is not tried again.

    observed: the slots handled without these starts.
    """
    view, clock, choice, starts = decision.view, decision.clock, decision.choice, decision.starts
    yield starting.creation(view, starts)
    # The delay of each created Job behind its slot, in seconds.
    yield from (CountMetric("job_creation_skew", (view.now - slot).total_seconds()) for slot in choice.slots)
    settled = clock.settled(choice.slots)
    made = tuple(Ref(view.dialect.child, view.snapshot.ref.namespace, start.order.name) for start in starts)
    yield PatchStatus(_status(decision, decision.runs_after, settled), made)
    if choice.requests:
        yield _patch(view, {request.annotation: None for request in choice.requests})
    if clock.due:
        yield from status.missed(replace(settled, missed=settled.missed - observed.missed), clock.cursor.at)


def _requeue(decision: Decision) -> Iterator[ComeBack]:
    """Comes back at once for the rest of the work, else at the first instant at which a decision may differ."""
    if decision.view.failing or (decision.starts and _leaves_work(decision)):
        # After a failure this clears the Ready condition.
        yield ComeBack(decision.view.now)
    elif instants := list(_instants(decision)):
        yield ComeBack(min(instants))


def _leaves_work(decision: Decision) -> bool:
    """True if a run could start that this plan does not start."""
    view, choice = decision.view, decision.choice
    retrying = any((at := view.next_attempt(run)) and at <= view.now for run in decision.runs_after)
    waiting = len(decision.requests) + len(decision.clock.open)
    return retrying or waiting > len(choice.requests) + len(choice.slots)


def _instants(decision: Decision) -> Iterator[datetime]:
    """Yields the instants at which something becomes due without a watch event."""
    view, clock = decision.view, decision.clock
    if view.deleting:
        return
    for run in decision.runs_after:
        deadline = view.limits.deadline(run)
        if run.outcome == RUNNING and deadline:
            yield times.after(deadline, GRACE)
        elif run.outcome == RETRYING:
            yield from (each for each in (deadline, view.next_attempt(run)) if each)
    if clock.timing is None or clock.due is None:
        return
    table = clock.timing.table
    waiting = [slot for slot in clock.due.open if slot not in decision.choice.slots]
    limits = (due.expiry(table, view.spec, slot) for slot in waiting)
    yield from (limit for limit in limits if limit)
    following = table.next(clock.due.slots[-1]) if clock.due.slots else clock.timing.first
    if following and (at := table.fires(following)) > view.now:
        yield at
    elif following := table.next(view.now):
        # The search for due slots gave up among windows that exclude all of them.
        yield table.fires(following)
    elif not waiting and not view.is_cron_job:
        # The last slot is handled: the next decision finds that none follows, and says so.
        yield view.now


def _explain(decision: Decision) -> str:
    """Returns the plan's reason: one line with the numbers behind it."""
    busy = sum(not run.over for run in decision.runs)
    reason = f" ({decision.clock.problem.reason})" if decision.clock.problem else ""
    return f"{busy} at work, {len(decision.clock.open)} due: {len(decision.starts)} to create{reason}"


_WAITS = "Not starting job because prior execution is running and concurrency policy is Forbid"
_REPLACES = "Jobs that are still running give way to the next one: the concurrency policy is Replace"
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_ZONE_IN_TEXT = (
    'CRON_TZ or TZ used in schedule "{schedule}" is not officially supported, see '
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)
_SEVERAL_A_MINUTE = "the schedule has several times in one minute, and Jobs are named by the minute: one of them runs"

CRON_JOBS = Controller(kind=CRON_JOB, decide=decide, children=(JOB,))
SCHEDULED_JOBS = Controller(kind=SCHEDULED_JOB, decide=decide, children=(JOB,))
VOLCANO_CRON_JOBS = Controller(kind=VC_CRON_JOB, decide=decide, children=(VC_JOB,))
