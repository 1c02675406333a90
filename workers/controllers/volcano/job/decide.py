"""The decision about one Volcano Job: what was asked for and has happened, then the work of its phase, then the status.

Volcano reacts to changes, one request at a time, and loses those that nobody had served when it is killed. Here every
decision starts from the pods as they are and from what the status remembers, and whatever cannot be seen afterwards is
written down before it is done.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from workers.admission.findings import told as told_findings
from workers.admission.volcano.job import faults
from workers.api import times
from workers.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    SERVICE,
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
    policies,
    status,
    sync,
    volumes,
)
from workers.controllers.volcano.job import timers as delayed
from workers.controllers.volcano.job import transitions as courses
from workers.controllers.volcano.job.killing import Removal
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.observed import ObservedJob, observe, queue_of
from workers.controllers.volcano.job.phases import PhaseOutcome, PhaseRule, TaskCounts
from workers.controllers.volcano.job.sync import TaskProblem
from workers.controllers.volcano.job.transitions import JobTransitions
from workers.errors import UserError
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, ComeBack, Delete, PatchStatus, Plan, RecordEvent, Step
from workers.reconcile.snapshot import Snapshot

#: Failures in a row after which the status says why the job does not get on.
_TOLD_AFTER = 2


def decide(snapshot: Snapshot, now: datetime, site: Site) -> Plan:
    """What to do about a Job and everything that is its own."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        # What it made goes by its owner references.
        return NOTHING
    if _never_began(body) and (wrong := faults(body)):
        return _refused(body, f"{told_findings(wrong)}", now)
    try:
        return _VolcanoJobDecision(observe(snapshot), site, now).plan()
    except (UserError, ValueError) as error:
        return _refused(body, str(error), now)


def _never_began(body: Object) -> bool:
    """Whether no pod was ever made: only then is a job held to what its admission would have refused."""
    seen = body.get("status") or {}
    phase = (seen.get("state") or {}).get("phase")
    return not phase or (phase == "Pending" and (seen.get("state") or {}).get("reason") == "Invalid")


def _refused(body: Object, why: str, now: datetime) -> Plan:
    """A job that cannot be run says so, and is left as it is until somebody changes it."""
    seen = body.get("status") or {}
    state = seen.get("state") or {"phase": "Pending", "lastTransitionTime": times.render(now)}
    if (state.get("reason"), state.get("message")) == ("Invalid", why[:1024]):
        return Plan(why=why)
    wrong = {**seen, "state": {**state, "reason": "Invalid", "message": why[:1024]}}
    wrong.setdefault("minAvailable", (body.get("spec") or {}).get("minAvailable") or 0)
    return Plan((PatchStatus(wrong), RecordEvent("Warning", "Invalid", why)), why)


@dataclass
class _JobDraft:
    """The steps so far. written: the status as it will be after them. told: what the Events were about."""

    written: Object
    steps: list[Step] = field(default_factory=list)

    def add(self, steps: Iterable[Step]) -> None:
        self.steps += steps

    def write(self, new: Object) -> None:
        if new != self.written:
            self.steps.append(PatchStatus(new))
            self.written = new


@dataclass(frozen=True)
class _VolcanoJobDecision:
    """The decision about one job that can be run."""

    sight: ObservedJob
    site: Site
    now: datetime

    def plan(self) -> Plan:
        """Answer, work, tell."""
        course = actions.requested(self.sight, self.now)
        draft = _JobDraft(self.sight.status)
        if course.phase not in phases.AT_WORK:
            last = self._drain(draft, course)
        elif course.killing:
            last = self._kill(draft, course)
        else:
            last = self._work(draft, course)
        if back := self._back(last):
            draft.steps.append(ComeBack(back))
        return Plan(tuple(draft.steps), _why(last, draft.written))

    # A job whose end has come, or that is aborted

    def _drain(self, draft: _JobDraft, course: JobTransitions, extra: Mapping[str, str] | None = None) -> "_Last":
        """Take away what is left of the job, and come to the phase that it leads to once that is gone."""
        sight, now = self.sight, self.now
        removal = killing.removal(sight, course, self.site)
        waits = phases.cell(course.phase, "SyncJob").then is PhaseRule.DRAINING
        if waits and sight.phase == course.phase and not removal.victims:
            course = replace(course, phase=phases.draining(course.phase, self._tally(course).counts).phase)
        if not removal.steps and status.expired(sight, course, now):
            self._told(draft, course)
            draft.add((Delete(sight.ref, sight.job.metadata.uid, "Foreground"),))
            return _Last(course)
        self._remove(draft, course, removal, extra)
        draft.add(self._ignored_change())
        return _Last(course, now if removal.victims or course.phase != sight.phase else None)

    def _ignored_change(self) -> Iterator[RecordEvent]:
        """Somebody changed a job that has finished, and it has not been said what becomes of that."""
        sight = self.sight
        seen = sight.memory.observed_generation
        if sight.phase in phases.FINAL and seen and seen != sight.body["metadata"].get("generation"):
            kept = "of its spec only ttlSecondsAfterFinished still has an effect"
            yield RecordEvent("Warning", "ChangeIgnored", f"the job is {sight.phase} and never runs again: {kept}")

    def _remove(
        self, draft: _JobDraft, course: JobTransitions, removal: Removal, extra: Mapping[str, str] | None = None
    ) -> None:
        """Say what is going to go, and let it go."""
        tally = self._tally(course, removal)
        full = course.phase not in phases.AT_WORK or course.is_full_kill
        known = extra if extra is not None else self.sight.memory.controlled_resources or {}
        kept = {name: text for name, text in known.items() if not (full and killing.is_plugin(name))}
        # What nobody sees go is remembered until it has gone.
        before = {**known, **plugins.resources(self.sight.job)} if removal.blind else kept
        draft.write(self._render(draft, course, tally, before))
        self._told(draft, course)
        draft.add(removal.steps)
        if removal.blind:
            draft.write(self._render(draft, course, tally, kept))

    # A job that starts again

    def _kill(self, draft: _JobDraft, course: JobTransitions) -> "_Last":
        """Take away the pods that are to go; once none is left that would stay, the next phase may come."""
        removal = killing.removal(self.sight, course, self.site)
        if removal.steps or course.killing != self.sight.memory.killing:
            self._remove(draft, course, removal)
            return _Last(course, self.now)
        course = replace(course, killing=())
        tally = self._tally(course)
        return self._restarted(draft, course, tally, self.sight.memory.controlled_resources or {})

    def _restarted(
        self, draft: _JobDraft, course: JobTransitions, tally: TaskCounts, resources: Mapping[str, str]
    ) -> "_Last":
        """Rule X, once the job has waited for as long as it must."""
        outcome = self._outcome(course, tally)
        moved = self._moved(course, outcome)
        return self._finish(draft, course, moved, tally, resources)

    # A job at work

    def _work(self, draft: _JobDraft, course: JobTransitions) -> "_Last":
        sight = self.sight
        if course.phase == "Restarting" and courses.waits(course, self.now):
            return self._restarted(draft, course, self._tally(course), sight.memory.controlled_resources or {})
        self._early(draft, course)
        if sight.new:
            draft.add(RecordEvent("Warning", "PluginError", remark) for remark in plugins.remarks(sight.job))
            draft.add(policies.warnings(sight.job.spec))
        work = sync.work(sight, course, self.site, self.now)
        resources = work.resources if work.resources is not None else sight.memory.controlled_resources or {}
        victims = {pod.uid for pod in work.victims}
        tally = phases.tally(sight.pods, course.version, victims=victims, made=work.made, lost=work.lost)
        draft.add(work.first)
        if work.victims:
            # The status forgets them before they go, so that nobody takes them for evicted.
            draft.write(self._render(draft, course, self._tally(course, Removal(work.victims, ())), resources))
        draft.add(work.making)
        moved = self._moved(course, self._outcome(course, tally), work.problem if work.lost else None)
        problem = work.problem or _ignored(course)
        if moved.phase == course.phase or (work.lost and moved.phase not in phases.FINAL):
            moved = self._explained(moved, problem)
        last = self._finish(draft, course, moved, tally, resources)
        self._told_problem(draft, problem)
        return replace(last, back=_first(last.back, work.back))

    def _early(self, draft: _JobDraft, course: JobTransitions) -> None:
        """What was decided is written before anything is done; so is why the job does not get on."""
        sight = self.sight
        before = courses.remembered(sight)
        if sight.failures >= _TOLD_AFTER and sight.error:
            course = replace(course, reason="Retrying", message=sight.error)
        elif replace(course, records=(), ignored=None, timers=delayed.stored(course.timers)) == before:
            return
        draft.write(self._render(draft, course, self._tally(course), sight.memory.controlled_resources or {}))
        self._told(draft, course)

    def _finish(
        self,
        draft: _JobDraft,
        course: JobTransitions,
        moved: JobTransitions,
        tally: TaskCounts,
        resources: Mapping[str, str],
    ) -> "_Last":
        """Write where the job stands now. A job that has come to its end is cleared away at once."""
        if moved.phase in phases.FINAL:
            return self._drain(draft, courses.ended(moved), resources)
        draft.write(self._render(draft, moved, tally, resources))
        self._told(draft, course)
        return _Last(moved, self.now if moved.phase != self.sight.phase else None)

    def _outcome(self, course: JobTransitions, tally: TaskCounts) -> PhaseOutcome:
        spec, counts = self.sight.job.spec, tally.counts
        match phases.cell(course.phase, "SyncJob").then:
            case PhaseRule.PENDING:
                return phases.pending(spec, counts)
            case PhaseRule.RUNNING:
                return phases.running(spec, counts)
            case _:
                least = self.sight.memory.min_available
                outcome = phases.restarting(
                    spec, counts, retries=course.retries, min_available=spec.gang if least is None else least
                )
                waits = outcome.phase == "Pending" and courses.waits(course, self.now)
                return PhaseOutcome("Restarting") if waits else outcome

    def _moved(
        self, course: JobTransitions, outcome: PhaseOutcome, problem: TaskProblem | None = None
    ) -> JobTransitions:
        """The course in the phase that follows. What made a job fail is told together with the rule it failed by.

        problem: what else there is to say of it.
        """
        if outcome.phase == course.phase:
            return course
        message = outcome.message
        if outcome.phase == "Failed":
            known = failures.remembered(self.sight)
            last = course.message if course.phase == "Restarting" else None
            cause = last or (failures.told(known[-1]) if known else None)
            message = "; ".join(part for part in (message, cause, problem.message if problem else None) if part)
        moved = course.moved(outcome.phase, outcome.reason, message)
        started = course.started or (self.now if outcome.phase == "Running" else None)
        return replace(moved, ready_at=None, started=started)

    def _explained(self, course: JobTransitions, problem: TaskProblem | None) -> JobTransitions:
        """Why the job is not getting on, or nothing; in Restarting the cause of the restart stands there."""
        if course.phase == "Restarting":
            return course
        if problem is None:
            return course if course.reason == "TooFewPods" else course.moved(course.phase, None, None)
        return course.moved(course.phase, problem.reason, problem.message)

    # What all have in common

    def _tally(self, course: JobTransitions, removal: Removal | None = None) -> TaskCounts:
        return phases.tally(self.sight.pods, course.version, victims=removal.uids if removal else frozenset())

    def _render(
        self, draft: _JobDraft, course: JobTransitions, tally: TaskCounts, resources: Mapping[str, str]
    ) -> Object:
        return status.render(self.sight, draft.written, course, tally, resources, self.now)

    def _told(self, draft: _JobDraft, course: JobTransitions) -> None:
        """Events about what was decided and has failed, and the end of Commands; once, after the status says so."""
        news = [*course.records, *self._failed()]
        draft.add(record for record in news if record not in draft.steps)
        done = [command for command in self.sight.commands if command["metadata"]["uid"] in course.handled]
        ends = [Delete(ref_of(COMMAND, command), command["metadata"]["uid"]) for command in done]
        draft.add(step for step in ends if step not in draft.steps)

    def _failed(self) -> list[RecordEvent]:
        """One Event for each pod that was not known to have failed."""
        known = self.sight.memory.failures or ()
        news = failures.remembered(self.sight)
        return [RecordEvent("Warning", "PodFailed", failures.told(one)) for one in news if one not in known]

    def _told_problem(self, draft: _JobDraft, problem: TaskProblem | None) -> None:
        state = self.sight.memory.state
        if problem and problem.event and (state is None or state.message != problem.message):
            draft.steps.append(RecordEvent("Warning", problem.event, problem.message))

    def _back(self, last: "_Last") -> datetime | None:
        course = last.course
        moments = [last.back, delayed.next_due(course.timers), actions.deadline(self.sight, course)]
        if courses.waits(course, self.now):
            moments.append(course.ready_at)
        moments.append(status.expiry(self.sight, course, self.now))
        return _first(*moments)


@dataclass(frozen=True, slots=True)
class _Last:
    """Where the job stands after the plan, and when there is something to look at again."""

    course: JobTransitions
    back: datetime | None = None


def _ignored(course: JobTransitions) -> TaskProblem | None:
    return TaskProblem("PolicyIgnored", "PolicyIgnored", course.ignored) if course.ignored else None


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment), default=None)


def _why(last: _Last, written: Object) -> str:
    counts = ", ".join(
        f"{written[name]} {name}"
        for name in ("pending", "running", "succeeded", "failed", "terminating")
        if name in written
    )
    return f"{last.course.phase}: {counts or 'no pods'}"


#: What plugins make. Every object of theirs has the label, so that no others need be looked at.
_MADE = (CONFIG_MAP, SERVICE, NETWORK_POLICY)


def controller(site: Site) -> Controller:
    """The controller of Volcano's Jobs. site: what kind of cluster pods are made for."""

    def decided(snapshot: Snapshot, now: datetime) -> Plan:
        return decide(snapshot, now, site)

    return Controller(
        kind=VC_JOB,
        decide=decided,
        children=(POD, POD_GROUP, *_MADE),
        tied=(COMMAND,),
        relatives=relatives,
        glances=glances,
        follows=(QUEUE, PRIORITY_CLASS, PERSISTENT_VOLUME_CLAIM),
        labelled={kind.id: names.JOB_NAME for kind in _MADE},
    )


def relatives(body: Object) -> tuple[Ref, ...]:
    """The queue, others' claims, and the PriorityClasses that a job names. Of a job that cannot be read, the queue."""
    try:
        job = parse(body)
    except UserError:
        return (queue_of(body),)
    others = (ref for ref in volumes.wanted(job) if ref not in volumes.own(job))
    return (queue_of(body), *others, *sync.priority_classes(body["spec"]["tasks"]))


def glances(body: Object) -> tuple[Ref, ...]:
    """The claims that are made for a job."""
    try:
        return volumes.own(parse(body))
    except UserError:
        return ()
