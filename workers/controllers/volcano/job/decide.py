"""The decision about one Volcano Job: requests and events, then the work of its phase, then the status.

Volcano reacts to one change at a time and loses the changes that are still queued when it is killed. Here every
decision starts from the observed pods and from the status, and what cannot be observed later is written before it is
done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from workers.admission.findings import joined
from workers.admission.volcano.job import faults
from workers.api import times
from workers.api.kinds import (
    COMMAND,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    VC_JOB,
    Object,
    Ref,
    ref_of,
)
from workers.api.volcano.job import parse
from workers.controllers.volcano.job import (
    actions,
    failures,
    killing,
    names,
    phases,
    plugins,
    podgroup,
    policies,
    status,
    sync,
    timers,
    transitions,
    volumes,
)
from workers.controllers.volcano.job.killing import Removal
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.observed import ATTACHED, ObservedJob, observe, queue_of
from workers.controllers.volcano.job.phases import PhaseOutcome, PhaseRule, TaskCounts
from workers.controllers.volcano.job.sync import TaskProblem
from workers.controllers.volcano.job.transitions import JobProgress
from workers.controllers.volcano.podgroup import topology
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, ComeBack, Delete, PatchStatus, Plan, RecordEvent, Step
from workers.decision.snapshot import Snapshot
from workers.errors import UserError

#: Failed reconciles in a row after which the status reports the error.
_REPORT_AFTER = 2


def decide(snapshot: Snapshot, now: datetime, site: Site) -> Plan:
    """Returns the plan for a Job and the objects it owns."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        # The garbage collector deletes what the job owns.
        return NOTHING
    unfit = joined(faults(body)) if _never_began(body) else ""
    try:
        view = _observed(snapshot, body, unfit)
        progress = actions.requested(view, now)
        draft = _Draft(view, site, now, view.status, unfit)
        if progress.phase not in phases.AT_WORK:
            end = _drain(draft, progress)
        elif unfit:
            return _held(draft, progress)
        elif progress.killing:
            end = _kill(draft, progress)
        else:
            end = _work(draft, progress)
        if view.phase == end.progress.phase == "Restarting" and not progress.is_full_kill:
            end = replace(end, draft=end.draft.add(*sync.shrunk(view)))
        return Plan((*end.draft.steps, *_come_back(end)), _why(end))
    except (UserError, ValueError) as error:
        return _refused(body, str(error), now)


def _never_began(body: Object) -> bool:
    """Returns True before anything is created for a job: the admission rules apply to it only until then.

    Such a job was never decided on, is refused, or was ended or aborted while it was refused or suspended.
    """
    status = body.get("status") or {}
    state, history = status.get("state") or {}, {one.get("status") for one in status.get("conditions") or ()}
    if not state.get("phase"):
        return True
    if history & phases.AT_WORK or status.get("taskStatusCount"):
        return False
    return state.get("reason") == "Invalid" if state["phase"] == "Pending" else state["phase"] in history


def _observed(snapshot: Snapshot, body: Object, unfit: str) -> ObservedJob:
    """Returns the view of a job. Of an unfit one whose spec cannot be read only `suspend` counts."""
    try:
        return observe(snapshot)
    except UserError:
        if not unfit:
            raise
        suspend = (body.get("spec") or {}).get("suspend") is True
        return observe(replace(snapshot, body={**body, "spec": {"tasks": [{}], "suspend": suspend}}))


def _refused(body: Object, why: str, now: datetime) -> Plan:
    """Returns the plan that reports an invalid job and leaves everything else until the job is edited."""
    known = body.get("status") or {}
    state = known.get("state") or {}
    wrong = _invalid(body, why, state.get("phase") or "Pending", now)
    if wrong["state"] == state:
        return Plan(why=why)
    return Plan((PatchStatus(wrong), RecordEvent("Warning", "Invalid", why)), why)


def _invalid(body: Object, why: str, phase: str, now: datetime) -> Object:
    """Returns the status of an invalid job in this phase."""
    known = body.get("status") or {}
    state = known.get("state") or {}
    since = state if state.get("phase") == phase else {"phase": phase, "lastTransitionTime": times.render(now)}
    least = known.get("minAvailable", (body.get("spec") or {}).get("minAvailable") or 0)
    return {**known, "state": {**since, "reason": "Invalid", "message": why[: status.MESSAGE]}, "minAvailable": least}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A plan in the making.

    status: the job's status once `steps` are carried out. unfit: why nothing may be created for the job, and nothing
    was; empty for a job that may run.
    """

    view: ObservedJob
    site: Site
    now: datetime
    status: Object
    unfit: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def resources(self) -> Mapping[str, str]:
        """`controlledResources` of the observed status."""
        return self.view.memory.controlled_resources or {}

    def add(self, *steps: Step) -> "_Draft":
        return replace(self, steps=(*self.steps, *steps)) if steps else self

    def write(self, progress: JobProgress, tally: TaskCounts, resources: Mapping[str, str]) -> "_Draft":
        new = status.render(self.view, self.status, progress, tally, resources, self.now)
        return self if new == self.status else replace(self.add(PatchStatus(new)), status=new)

    def announce(self, progress: JobProgress) -> "_Draft":
        """Adds Events about actions and new failures, and deletes handled Commands; each once, after the status."""
        view = self.view
        known = view.memory.failures or ()
        failed = (one for one in failures.remembered(view) if one not in known)
        news: list[Step] = [
            *progress.records,
            *(RecordEvent("Warning", "PodFailed", failures.summary(one)) for one in failed),
            *(
                Delete(ref_of(COMMAND, command), command["metadata"]["uid"])
                for command in view.commands
                if command["metadata"]["uid"] in progress.handled
            ),
        ]
        return self.add(*(step for step in news if step not in self.steps))


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a plan: its draft, the job's progress after it, and the time of the next reconcile if one is due."""

    draft: _Draft
    progress: JobProgress
    back: datetime | None = None


def _tally(view: ObservedJob, progress: JobProgress, removal: Removal | None = None) -> TaskCounts:
    return phases.tally(view.pods, progress.version, victims=removal.uids if removal else frozenset())


# Stage: a job that cannot begin


def _held(draft: _Draft, progress: JobProgress) -> Plan:
    """Returns the plan that reports an unfit job; its Commands are consumed."""
    known, wrong = draft.status, _invalid(draft.view.body, draft.unfit, "Pending", draft.now)
    wrong.pop("handled", None)
    if progress.handled:
        wrong["handled"] = list(progress.handled)
    if wrong != known:
        draft = draft.add(PatchStatus(wrong))
    if wrong["state"] != known.get("state"):
        draft = draft.add(RecordEvent("Warning", "Invalid", draft.unfit))
    return Plan(draft.announce(progress).steps, draft.unfit)


# Stage: a job that ends or is aborted


def _drain(draft: _Draft, progress: JobProgress, resources: Mapping[str, str] | None = None) -> _End:
    """Deletes the job's remaining pods, and moves to the final phase once they are gone."""
    view, now = draft.view, draft.now
    removal = Removal((), ()) if draft.unfit else killing.removal(view, progress, draft.site)
    if draft.unfit and view.new:
        draft = draft.add(RecordEvent("Warning", "Invalid", draft.unfit))
    waits = phases.cell(progress.phase, "SyncJob").then is PhaseRule.DRAINING
    if waits and view.phase == progress.phase and not removal.victims:
        progress = replace(progress, phase=phases.draining(progress.phase, _tally(view, progress).counts).phase)
    if not removal.victims and status.expired(view, progress, now):
        # What else is left is deleted with the job, which owns it.
        draft = draft.announce(progress).add(Delete(view.ref, view.job.metadata.uid, "Foreground"))
        return _End(draft, progress)
    draft = _remove(draft, progress, removal, draft.resources if resources is None else resources)
    decided_on = view.memory.observed_generation
    if view.phase in phases.FINAL and decided_on and decided_on != view.body["metadata"].get("generation"):
        text = "never runs again: of its spec only ttlSecondsAfterFinished still has an effect"
        draft = draft.add(RecordEvent("Warning", "ChangeIgnored", f"the job is {view.phase} and {text}"))
    return _End(draft, progress, now if removal.victims or progress.phase != view.phase else None)


def _remove(draft: _Draft, progress: JobProgress, removal: Removal, known: Mapping[str, str]) -> _Draft:
    """Writes the status without the victims, then deletes them. known: `controlledResources` so far."""
    tally = _tally(draft.view, progress, removal)
    full = progress.phase not in phases.AT_WORK or progress.is_full_kill
    kept = {name: text for name, text in known.items() if not (full and killing.is_plugin(name))}
    # Secrets are not observed. The status lists them until their deletion has succeeded, so that a crash repeats it.
    before = {**known, **plugins.resources(draft.view.job)} if removal.blind else kept
    draft = draft.write(progress, tally, before).announce(progress).add(*removal.steps)
    return draft.write(progress, tally, kept) if removal.blind else draft


# Stage: a job that restarts


def _kill(draft: _Draft, progress: JobProgress) -> _End:
    """Deletes the pods that a restart targets; the restart goes on when none of them is left."""
    removal = killing.removal(draft.view, progress, draft.site)
    if removal.steps or progress.killing != draft.view.memory.killing:
        return _End(_remove(draft, progress, removal, killing.resources(draft.view)), progress, draft.now)
    return _restart(draft, replace(progress, killing=()))


def _restart(draft: _Draft, progress: JobProgress) -> _End:
    tally = _tally(draft.view, progress)
    return _settle(draft, progress, _followed(draft, progress, tally), tally, draft.resources)


# Stage: a job at work


def _work(draft: _Draft, progress: JobProgress) -> _End:
    """Creates what the pods need and the pods, deletes surplus pods, and moves to the phase that follows."""
    view = draft.view
    if progress.phase == "Restarting" and transitions.waits(progress, draft.now):
        return _restart(draft, progress)
    progress = replace(progress, admitted=sync.admitted(view))
    draft = _write_first(draft, progress)
    if view.new:
        draft = draft.add(
            *(RecordEvent("Warning", "PluginError", remark) for remark in plugins.remarks(view.job)),
            *policies.warnings(view.job.spec),
            *_unenforced(view, draft.site),
        )
    work = sync.work(view, progress, draft.site, draft.now)
    resources = draft.resources if work.resources is None else work.resources
    draft = draft.add(*work.first)
    if work.victims:
        # The status forgets the victims before they are deleted: a later decision would take them for evicted pods.
        draft = draft.write(progress, _tally(view, progress, Removal(work.victims, ())), resources)
    draft = draft.add(*work.making)
    victims = {pod.uid for pod in work.victims}
    tally = phases.tally(view.pods, progress.version, victims=victims, made=work.made, lost=work.lost)
    moved = _followed(draft, progress, tally, work.problem if work.lost else None)
    problem = work.problem
    if problem is None and progress.ignored:
        problem = TaskProblem("PolicyIgnored", "PolicyIgnored", progress.ignored)
    if moved.phase == progress.phase or (work.lost and moved.phase not in phases.FINAL):
        moved = _explained(moved, problem)
    end = _settle(draft, progress, moved, tally, resources)
    state = view.memory.state
    if problem and problem.event and not (state and problem.is_said(state.message)):
        end = replace(end, draft=end.draft.add(RecordEvent("Warning", problem.event, problem.message)))
    return replace(end, back=_first(end.back, work.back))


def _unenforced(view: ObservedJob, site: Site) -> Iterator[RecordEvent]:
    """Yields the Event about fields that are for Volcano's scheduler alone; the PodGroup has a condition about them."""
    if why := topology.unenforced(podgroup.wanted(view.job, {})["spec"], site.topology, of_a_job=True):
        yield RecordEvent("Warning", "NotEnforced", why)


def _write_first(draft: _Draft, progress: JobProgress) -> _Draft:
    """Writes a decided action before it is carried out, and the error of a reconcile that fails repeatedly."""
    view = draft.view
    decided = replace(progress, records=(), ignored=None, timers=timers.stored(progress.timers))
    known = transitions.remembered(view)
    if view.failures >= _REPORT_AFTER and view.error:
        progress = replace(progress, reason="Retrying", message=view.error)
    # The admission of a larger gang is written with the rest: nothing that this plan does depends on it.
    elif decided == (replace(known, admitted=None) if decided.admitted is None else known):
        return draft
    return draft.write(progress, _tally(view, progress), draft.resources).announce(progress)


def _explained(progress: JobProgress, problem: TaskProblem | None) -> JobProgress:
    """Returns the progress with the problem as its reason; in Restarting the cause of the restart stays the reason."""
    if progress.phase == "Restarting":
        return progress
    if problem is None:
        return progress if progress.reason == "TooFewPods" else progress.moved(progress.phase, None, None)
    return progress.moved(progress.phase, problem.reason, problem.message)


# Stage: the phase that follows


def _followed(
    draft: _Draft, progress: JobProgress, tally: TaskCounts, problem: TaskProblem | None = None
) -> JobProgress:
    """Returns the progress in the phase that follows from the counts.

    A failure's message names the rule, the cause of the last restart or the newest failed pod, and the problem.
    """
    outcome = _outcome(draft, progress, tally)
    if outcome.phase == progress.phase:
        return progress
    message = outcome.message
    if outcome.phase == "Failed":
        known = failures.remembered(draft.view)
        restarted = progress.message if progress.phase == "Restarting" else None
        cause = restarted or (failures.summary(known[-1]) if known else None)
        message = "; ".join(part for part in (message, cause, problem.message if problem else None) if part)
    moved = progress.moved(outcome.phase, outcome.reason, message)
    started = progress.started or (draft.now if outcome.phase == "Running" else None)
    return replace(moved, ready_at=None, started=started)


def _outcome(draft: _Draft, progress: JobProgress, tally: TaskCounts) -> PhaseOutcome:
    spec, counts = draft.view.job.spec, tally.counts
    match phases.cell(progress.phase, "SyncJob").then:
        case PhaseRule.PENDING:
            return phases.pending(spec, counts)
        case PhaseRule.RUNNING:
            outcome = phases.running(spec, counts)
            # Pods that are to be restarted may still succeed.
            waits = outcome.phase == "Failed" and timers.awaits_restart(progress.timers)
            return PhaseOutcome("Running") if waits else outcome
        case _:
            least = draft.view.memory.min_available
            outcome = phases.restarting(
                spec, counts, retries=progress.retries, min_available=spec.gang if least is None else least
            )
            waits = outcome.phase == "Pending" and transitions.waits(progress, draft.now)
            return PhaseOutcome("Restarting") if waits else outcome


# Stage: the status and the next reconcile


def _settle(
    draft: _Draft, progress: JobProgress, moved: JobProgress, tally: TaskCounts, resources: Mapping[str, str]
) -> _End:
    """Writes the phase that follows. A job in a final phase is drained in the same plan."""
    if moved.phase in phases.FINAL:
        return _drain(draft, transitions.ended(moved), resources)
    draft = draft.write(moved, tally, resources).announce(progress)
    return _End(draft, moved, draft.now if moved.phase != draft.view.phase else None)


def _come_back(end: _End) -> Iterator[ComeBack]:
    view, now, progress = end.draft.view, end.draft.now, end.progress
    restart = progress.ready_at if transitions.waits(progress, now) else None
    deadline, expiry = actions.deadline(view, progress), status.expiry(view, progress, now)
    if back := _first(end.back, timers.next_due(progress.timers), deadline, restart, expiry):
        yield ComeBack(back)


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment), default=None)


def _why(end: _End) -> str:
    written = end.draft.status
    names = ("pending", "running", "succeeded", "failed", "terminating")
    counts = ", ".join(f"{written[name]} {name}" for name in names if name in written)
    return f"{end.progress.phase}: {counts or 'no pods'}"


# The controller


def controller(site: Site) -> Controller:
    """Returns the controller of Volcano's Jobs. site: the cluster that pods are created for."""
    return Controller(
        kind=VC_JOB,
        decide=partial(decide, site=site),
        children=(POD, POD_GROUP, *ATTACHED),
        referrers=(COMMAND,),
        relatives=relatives,
        optional_relatives=glances,
        follows=(QUEUE, PRIORITY_CLASS, PERSISTENT_VOLUME_CLAIM),
        labelled={kind.id: names.JOB_NAME for kind in ATTACHED},
    )


def relatives(body: Object) -> tuple[Ref, ...]:
    """Returns the queue, the existing claims and the PriorityClasses of a job; of a malformed one, the queue."""
    try:
        job = parse(body)
    except UserError:
        return (queue_of(body),)
    others = (ref for ref in volumes.wanted(job) if ref not in volumes.own(job))
    return (queue_of(body), *others, *sync.priority_classes(body["spec"]["tasks"]))


def glances(body: Object) -> tuple[Ref, ...]:
    """Returns the claims that are created for a job."""
    try:
        return volumes.own(parse(body))
    except UserError:
        return ()
