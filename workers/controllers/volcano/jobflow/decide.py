"""The decision about one JobFlow: Volcano's semantics, with retries, branches and an end.

Jobs are created before the status lists them: a created Job is found by its deterministic name even if the status write
is lost. An observed end of a Job is written once and stays, even after the Job is deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from workers.api import times
from workers.api.kinds import COMMAND, JOB_FLOW, JOB_TEMPLATE, VC_JOB, Object, ref_of
from workers.controllers.volcano.jobflow import flow_schedule, graph, job_creation, jobs, phases, status
from workers.controllers.volcano.jobflow import node_progress as tracks
from workers.controllers.volcano.jobflow.job_creation import StartRound
from workers.controllers.volcano.jobflow.node_progress import Track
from workers.controllers.volcano.jobflow.observed import ObservedFlow, has_probes, relatives, templates_ahead
from workers.controllers.volcano.jobflow.phases import FlowCounts
from workers.controllers.volcano.jobflow.progress import Tracks
from workers.controllers.volcano.jobflow.status import FlowReady
from workers.decision.controller import Controller
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    CountMetric,
    Create,
    Delete,
    LaterSteps,
    Metric,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot
from workers.errors import UserError
from workers.flows.flow_nodes import FlowNode

#: Interval at which a flow looks for what no event announces: a new JobTemplate, or a Job name that becomes free.
RECHECK = timedelta(seconds=10)
#: Failed reconciles in a row after which the FlowReady condition reports the error.
FAILING = 3
#: Entries and Jobs that one message names at most.
NAMED = 3
#: Reasons of the condition True that the state repeats.
_WAITS = frozenset({"WaitsForProbe", "EntryGone"})
#: By final phase, the metric that counts it.
_COUNTED: Mapping[str, Metric] = {phases.SUCCEED: "jobflows_succeeded", phases.FAILED: "jobflows_failed"}
#: Phases of a Job that a Command does not end.
_LEFT_ALONE = frozenset({"Aborting", "Aborted", "Completing", "Terminating"})


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Returns the plan for a JobFlow."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        return NOTHING
    try:
        view = ObservedFlow(snapshot, body, graph.of(body), now)
    except UserError as error:
        return _refused(body, str(error), now)
    if view.spec.schedule:
        return flow_schedule.decide(view)
    advance = _advance(view)
    outcome = _outcome(view, advance)
    if view.phase == phases.SUCCEED and view.spec.job_retain_policy == "delete" and view.jobs:
        return _delete_jobs(view, advance, outcome)
    report = _report(view, advance, outcome)
    over = advance.tracks.over
    why = f"{outcome.phase}: {over} of {len(advance.tracks)} over, {len(advance.round.jobs)} to create"
    return Plan((*_steps(view, advance, outcome, report), *_later(view, advance, outcome, report)), why)


def _refused(body: Object, message: str, now: datetime) -> Plan:
    """Returns the plan that reports an invalid manifest: nothing starts until the manifest is edited."""
    observed, ready = body.get("status") or {}, FlowReady("False", "InvalidSpec", message)
    phase = (observed.get("state") or {}).get("phase") or phases.PENDING
    computed: Object = {
        "state": {"phase": phase, "reason": ready.reason, "message": message},
        "flowConditions": ready.render(observed, now),
        "observedGeneration": body["metadata"].get("generation"),
    }
    steps: list[Step] = []
    if (new := status.merged(observed, computed)) != observed:
        steps.append(PatchStatus(new))
    if ready.is_news(observed):
        steps.append(RecordEvent("Warning", ready.reason, message))
    return Plan(tuple(steps), "the manifest is wrong")


def _delete_jobs(view: ObservedFlow, advance: "_Advance", outcome: "_FlowOutcome") -> Plan:
    """Returns the plan that deletes the Jobs of a flow that succeeded (`jobRetainPolicy: delete`)."""
    doomed = [job for job in view.jobs.values() if not job["metadata"].get("deletionTimestamp")]
    deletions = tuple(Delete(ref_of(VC_JOB, job), job["metadata"]["uid"]) for job in doomed)
    together = (Together(deletions),) if deletions else ()
    return Plan((*together, *_expiry(view, advance, outcome)), f"{len(doomed)} Jobs to delete")


# Stage: the nodes


@dataclass(frozen=True, slots=True)
class _Deadlines:
    """The ends of the time of nodes with `timeoutSeconds`, whose Jobs run, by node id. limits: those seconds."""

    limits: Mapping[str, int]
    ends: Mapping[str, datetime]

    def timed(self, known: Tracks, now: datetime) -> Tracks:
        """Returns the tracks with the reason TimedOut on each node whose Job has passed its deadline."""
        late = [id for id, deadline in self.ends.items() if now >= deadline]
        if not late:
            return known
        found = Tracks(known)
        for id in late:
            if found[id].reason != tracks.TIMED_OUT:
                message = f"job {found[id].job} took longer than {self.limits[id]} seconds"
                found[id] = replace(found[id], reason=tracks.TIMED_OUT, message=message)
        return found


@dataclass(frozen=True, slots=True)
class _Advance:
    """The nodes after this decision, by node id."""

    round: StartRound
    tracks: Tracks
    deadlines: _Deadlines


def _advance(view: ObservedFlow) -> _Advance:
    started = job_creation.decided(view)
    limits, ends = view.graph.limits, {}
    for id, seconds in limits.items():
        if created := (view.live(started.tracks[id]) or {}).get("metadata", {}).get("creationTimestamp"):
            ends[id] = times.parse(created) + timedelta(seconds=seconds)
    deadlines = _Deadlines(limits, ends)
    return _Advance(started, deadlines.timed(started.tracks, view.now), deadlines)


# Stage: the phase, and its reason


@dataclass(frozen=True, slots=True)
class _FlowOutcome:
    """The flow's phase after this decision. left_over: Jobs at work whose entries were removed from the manifest."""

    phase: str
    counts: FlowCounts
    left_over: tuple[Object, ...]
    ready: FlowReady
    reason: str | None = None
    message: str | None = None


def _outcome(view: ObservedFlow, advance: _Advance) -> _FlowOutcome:
    known, left_over = advance.tracks, tuple(view.left_over(advance.tracks))
    counts = _counts(view, known, len(left_over))
    phase = phases.following(phases.RUNNING if view.phase == phases.TERMINATING else view.phase, counts)
    if view.spec.cancel and view.phase not in phases.FINAL:
        live = known.live > known.number(("Aborted",))
        phase = phases.TERMINATING if live or left_over else phases.TERMINATED
    outcome = _FlowOutcome(phase, counts, left_over, flow_ready(view, advance.round, known, left_over, phase))
    if phase == phases.FAILED:
        bad = job_creation.fatal(view, known) or [
            node for node in job_creation.failed(view, known) if not node.entry.allow_failure
        ]
        return replace(outcome, reason="EntryFailed", message="; ".join(_failure(node, known) for node in bad[:NAMED]))
    if phase in (phases.TERMINATING, phases.TERMINATED):
        return replace(outcome, reason="Cancelled", message="the flow was cancelled")
    if says_why(outcome.ready):
        return replace(outcome, reason=outcome.ready.reason, message=outcome.ready.message)
    return outcome


def _counts(view: ObservedFlow, known: Tracks, left_over: int) -> FlowCounts:
    over = known.over
    unforgiven = [node for node in job_creation.failed(view, known) if not node.entry.allow_failure]
    # A failure that another entry waits for counts only at the end of the flow.
    counting = unforgiven if over == len(known) else job_creation.fatal(view, known)
    failed = sum(known[node.id].phase == tracks.FAILED for node in counting)
    return FlowCounts(
        total=len(known) + left_over,
        running=known.number(("Running",)),
        completed=over - len(unforgiven),
        failed=failed,
        terminated=len(counting) - failed,
    )


def _failure(node: FlowNode, known: Mapping[str, Track]) -> str:
    track = known[node.id]
    why = ": ".join(part for part in (track.reason, track.message) if part)
    return f"entry {node.id} ended {track.phase}" + (f" ({why})" if why else "")


def flow_ready(
    view: ObservedFlow, made: StartRound, known: Tracks, left_over: Sequence[Object], phase: str
) -> FlowReady:
    """Returns the FlowReady condition.

    made: the starts of this decision. known, phase: tracks and phase after it. left_over: see `_FlowOutcome`.
    """
    # The phase before it would leave the condition of a flow at work: nothing asks for a decision on one that is over.
    if phase in phases.FINAL:
        return FlowReady("True", "Finished", "the flow is over")
    if made.missing:
        named = ", ".join(f"{name} (entry {entry})" for name, entry in sorted(made.missing.items()))
        return FlowReady("False", "MissingTemplate", f"there is no JobTemplate {named}")
    # In the order of the manifest; no stored track has this mark.
    if taken := sorted((id for id in known.changed if known[id].taken), key=view.graph.places.__getitem__):
        return FlowReady("False", "NameTaken", f"job {known[taken[0]].job} exists and belongs to somebody else")
    if view.snapshot.failures >= FAILING:
        return FlowReady("False", "ReconcileFailing", f"the last attempt failed: {view.snapshot.last_error}")
    if view.spec.suspend:
        return FlowReady("False", "Suspended", "nothing new starts while the flow is suspended")
    if waiting := list(islice(job_creation.unanswered(view, known), NAMED)):
        return FlowReady("True", "WaitsForProbe", "; ".join(waiting))
    if left_over:
        running = ", ".join(job["metadata"]["name"] for job in left_over[:NAMED])
        return FlowReady("True", "EntryGone", f"job {running} still runs, and its entry is no longer there")
    return FlowReady("True", "AsSpecified", "entries start when what they depend on has happened")


def says_why(ready: FlowReady) -> bool:
    """Returns True if the condition is worth an Event and a place in the flow's state."""
    return ready.status == "False" or ready.reason in _WAITS


# Stage: the status


@dataclass(frozen=True, slots=True)
class _Report:
    """The status after this decision, rendered where it is written. held_back: the write may wait until then."""

    view: ObservedFlow
    advance: _Advance
    outcome: _FlowOutcome
    held_back: datetime | None

    def status(self) -> Object:
        """Returns the status with all of this plan."""
        return self._whole(self.advance.tracks)

    def interim(self) -> Object:
        """Returns it without the Jobs of this plan; nodes that end without a Job have ended all the same."""
        names = {job["metadata"]["name"] for job in self.advance.round.jobs}
        before, known = self.advance.deadlines.timed(self.view.tracks, self.view.now), Tracks(self.advance.tracks)
        for id in self.advance.tracks.changed:
            if known[id].job in names:
                known[id] = before[id]
        return self._whole(known)

    def _whole(self, known: Tracks) -> Object:
        computed = {
            **status.lists(self.view.graph.nodes, known, self.view.jobs),
            # In both forms of the tracks after this plan: the order of the Jobs.
            **status.job_lists(self.view, self.advance.tracks),
            **_summary(self.view, known, self.outcome),
            "entries": {id: written for id, track in known.items() if (written := _entry(self.view, id, track))},
        }
        return status.merged(self.view.status, computed)


def _report(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome) -> _Report:
    summary = _summary(view, advance.tracks, outcome)
    return _Report(view, advance, outcome, status.held_back_until(view, advance.round, advance.tracks, summary))


def _summary(view: ObservedFlow, known: Tracks, outcome: _FlowOutcome) -> Object:
    """Returns what the status says about the flow as a whole. known: the tracks that it describes."""
    before, final = view.status, outcome.phase in phases.FINAL
    state = {"phase": outcome.phase, "reason": outcome.reason, "message": outcome.message}
    ended = None if view.tries_again else before.get("completionTime")
    started = before.get("startTime")
    if not started and any(track.attempts for track in known.values()):
        started = times.render(view.now)
    return {
        "state": {name: text for name, text in state.items() if text},
        "flowConditions": outcome.ready.render(before, view.now),
        "startTime": started,
        "completionTime": (ended or times.render(view.now)) if final else None,
        # A cancelled flow handles a retry request only after the cancellation is taken back.
        "retried": (None if view.spec.cancel else view.token) or before.get("retried"),
        "observedGeneration": view.body["metadata"].get("generation"),
    }


def _entry(view: ObservedFlow, id: str, track: Track) -> Object | None:
    # Identity, not equality: an unchanged track keeps its written form, and long flows render only what changed.
    return view.written.get(id) if track is view.remembered[id] else track.render()


# Stage: the steps


def _steps(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome, report: _Report) -> Iterator[Step]:
    """Yields the steps in an order in which each may be the last."""
    jobs_to_make = advance.round.jobs
    ends = tuple(_ends(view, advance, outcome))
    fails = bool(jobs_to_make) and view.snapshot.failures >= FAILING
    if jobs_to_make:
        # The status without the Jobs of this plan: the next decision observes which of them were created.
        interim = LaterSteps(lambda: (*_announced(view, outcome, report.interim()), *ends))
        if fails:
            # Creating Jobs has failed repeatedly: the reason is written, and Jobs are ended, before the next attempt.
            yield from interim
        yield Together(
            tuple(Create(VC_JOB, job, taken=_taken(job)) for job in jobs_to_make),
            otherwise=RecordEvent("Warning", "FailedCreate", "Error creating job: {error}"),
            meanwhile=() if fails else interim,
        )
    if not report.held_back:
        yield from _write(view, report.status()) if fails else _announced(view, outcome, report.status())
    yield from ends


def _announced(view: ObservedFlow, outcome: _FlowOutcome, new: Object) -> Iterator[Step]:
    """Writes the status, and records Events for what it says for the first time."""
    yield from _write(view, new)
    yield from _created(view)
    observed, ready = view.status, outcome.ready
    if says_why(ready) and ready.reason != "Suspended" and ready.is_news(observed):
        yield RecordEvent("Warning" if ready.status == "False" else "Normal", ready.reason, ready.message)
    if outcome.phase in phases.FINAL and outcome.phase != (observed.get("state") or {}).get("phase"):
        well = outcome.phase == phases.SUCCEED
        text = outcome.message or "the flow is over"
        yield RecordEvent("Normal" if well else "Warning", f"Flow{outcome.phase}", text)
        if metric := _COUNTED.get(outcome.phase):
            yield CountMetric(metric, labels=(view.snapshot.ref.namespace,))


def _write(view: ObservedFlow, new: Object) -> Iterator[Step]:
    if new != view.status:
        yield PatchStatus(new)


def _created(view: ObservedFlow) -> Iterator[RecordEvent]:
    """Yields an Event for each Job observed for the first time: not every requested Job may have been created."""
    for id in sorted(view.differing, key=view.graph.places.__getitem__):
        track = view.tracks[id]
        if track is view.remembered[id]:
            continue
        before = view.written.get(id) or {}
        known = before.get("startTime") and (before.get("attempts") or 0) >= track.attempts
        if track.started and not known:
            yield RecordEvent("Normal", "Created", f"create a job named {track.job}!")


def _ends(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome) -> Iterator[Step]:
    """Yields a Command for each Job that took too long, or whose flow is cancelled; the status is written before."""
    for id in advance.tracks if view.spec.cancel else advance.deadlines.limits:
        track = advance.tracks[id]
        job = view.live(track)
        if job is None or not _is_endable(job):
            continue
        if view.spec.cancel:
            yield Create(COMMAND, jobs.end(view.body, job, "the flow is cancelled"))
        elif track.reason == tracks.TIMED_OUT:
            yield Create(COMMAND, jobs.end(view.body, job, track.message or tracks.TIMED_OUT))
    for job in filter(_is_endable, outcome.left_over) if view.spec.cancel else ():
        yield Create(COMMAND, jobs.end(view.body, job, "the flow is cancelled"))


def _is_endable(job: Object) -> bool:
    """Returns True if a Command ends the Job in its phase.

    In Restarting it does so only during a backoff. A Command that the Job loses changes its status, which wakes the
    flow: Commands would follow each other without a pause. So does the phase after Restarting, where one suffices.
    """
    known = job.get("status") or {}
    phase = (known.get("state") or {}).get("phase")
    return phase not in _LEFT_ALONE and (phase != "Restarting" or bool(known.get("restartTime")))


def _taken(job: Object) -> RecordEvent:
    return RecordEvent("Warning", "NameTaken", f"job {job['metadata']['name']} exists and belongs to somebody else")


# Stage: the next reconcile


def _later(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome, report: _Report) -> Iterator[Step]:
    if _polls(view, advance, outcome):
        yield PollNow()
    if moments := [*_moments(view, advance, outcome, report)]:
        yield ComeBack(min(moments))
    yield from _expiry(view, advance, outcome)


def _moments(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome, report: _Report) -> Iterator[datetime]:
    now, started, known = view.now, advance.round, advance.tracks
    if report.held_back:
        yield report.held_back
    if view.snapshot.failures >= FAILING:
        # A reconcile without an error clears the condition.
        yield now
    if started.more or phases.following(outcome.phase, outcome.counts) != outcome.phase:
        yield now
    if outcome.phase == phases.SUCCEED and view.spec.job_retain_policy == "delete" and view.jobs:
        yield now
    if outcome.phase in phases.FINAL:
        return
    taken = {known[id].job for id in known.changed if known[id].taken}
    made = any(job["metadata"]["name"] not in taken for job in started.jobs)
    if made and (advance.deadlines.limits or view.graph.probing):
        # Deadlines and probe targets follow from the created Jobs.
        yield now
    if started.missing or started.jobs:
        # No event reports that the name of a Job, held by another owner, becomes free.
        yield now + RECHECK
    if not job_creation.halted(view, known) and not view.spec.suspend:
        retries = (known[id].retry_at for id in known.among(tracks.RETRYING))
        yield from (moment for moment in retries if moment and moment > now)
    yield from (deadline for id, deadline in advance.deadlines.ends.items() if known[id].live and deadline > now)
    if any(known[id].lost for id in known.changed):
        yield now + RECHECK


def _polls(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome) -> bool:
    """Returns True if an entry waits for a probe that the reading has no sample of."""
    if outcome.phase in phases.FINAL or view.spec.cancel:
        return False
    reading = view.snapshot.reading
    known = {sample.name for sample in reading.samples} if reading and view.graph.probing else set()
    return any(name not in known for name in job_creation.questions(view, advance.tracks))


def _expiry(view: ObservedFlow, advance: _Advance, outcome: _FlowOutcome) -> Iterator[Step]:
    """Deletes the flow `ttlSecondsAfterFinished` after its end; the garbage collector deletes its Jobs."""
    ttl = view.spec.ttl_seconds_after_finished
    ended = view.status.get("completionTime") if view.phase in phases.FINAL else None
    if ttl is None or outcome.phase not in phases.FINAL or advance.tracks.live:
        return
    expires = (times.parse(ended) if ended else view.now) + timedelta(seconds=ttl)
    if ended and expires <= view.now:
        yield Delete(view.snapshot.ref, view.body["metadata"]["uid"])
    else:
        yield ComeBack(expires)


CONTROLLER = Controller(
    kind=JOB_FLOW,
    decide=decide,
    children=(VC_JOB, JOB_FLOW),
    relatives=relatives,
    optional_relatives=templates_ahead,
    follows=(JOB_TEMPLATE,),
    polled=True,
    needs_reading=has_probes,
)
