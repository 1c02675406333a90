"""The decision about one JobFlow: Volcano's semantics, made to end, and what people wished for.

Jobs are made first, then the status says so: a Job that was made is known by its name, whatever the status says. An end
that was seen is written down once, and stands from then on whatever becomes of the Job.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice

from workers.api import times
from workers.api.kinds import COMMAND, JOB_FLOW, JOB_TEMPLATE, VC_JOB, Object, ref_of
from workers.controllers.volcano.jobflow import graph, jobs, phases, schedule, starting, status, tracks
from workers.controllers.volcano.jobflow.observed import ObservedFlow, relatives
from workers.controllers.volcano.jobflow.phases import FlowCounts
from workers.controllers.volcano.jobflow.starting import StartRound
from workers.controllers.volcano.jobflow.status import FlowReady
from workers.controllers.volcano.jobflow.tracks import Track
from workers.errors import UserError
from workers.flows.nodes import FlowNode
from workers.reconcile.controller import Controller
from workers.reconcile.plan import (
    NOTHING,
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Metric,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.reconcile.snapshot import Snapshot

#: What may come to be without waking the flow (a template, a name that becomes free) is looked for so often.
LOOK = timedelta(seconds=10)
#: By the phase of a flow, where its getting there is counted.
_COUNTED: Mapping[str, Metric] = {phases.SUCCEED: "jobflows_succeeded", phases.FAILED: "jobflows_failed"}
#: Phases of a Job that ends by itself.
_ENDING = frozenset({"Completing", "Terminating"})


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do about a JobFlow."""
    body = snapshot.body
    if body is None or body["metadata"].get("deletionTimestamp"):
        return NOTHING
    try:
        sight = ObservedFlow(snapshot, body, graph.of(body), now)
    except UserError as error:
        return _refused(body, str(error), now)
    return schedule.decide(sight) if sight.spec.schedule else _FlowDecision(sight).plan()


def _refused(body: Object, message: str, now: datetime) -> Plan:
    """A manifest that cannot be followed: nothing starts until it is changed."""
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


@dataclass(frozen=True)
class _FlowDecision:
    """The decision about one flow that runs its own Jobs."""

    sight: ObservedFlow

    def plan(self) -> Plan:
        """All steps, in the order in which each may be the last."""
        sight, phase = self.sight, self.sight.phase
        if phase == phases.SUCCEED and sight.spec.job_retain_policy == "delete" and sight.jobs:
            doomed = [job for job in sight.jobs.values() if not job["metadata"].get("deletionTimestamp")]
            deletions = tuple(Delete(ref_of(VC_JOB, job), job["metadata"]["uid"]) for job in doomed)
            together = (Together(deletions),) if deletions else ()
            return Plan((*together, *self._expiry()), f"{len(doomed)} Jobs to delete")
        return Plan((*self._early(), *self._made(), *self._written(), *self._ended(), *self._later()), self._why())

    # What happens now

    @cached_property
    def _round(self) -> StartRound:
        return starting.decided(self.sight)

    @cached_property
    def _tracks(self) -> Mapping[str, Track]:
        """How far each node is when this decision is carried out."""
        return self._all_timed(self._round.tracks)

    def _all_timed(self, known: Mapping[str, Track]) -> Mapping[str, Track]:
        if not self._deadlines:
            return known
        return {id: self._timed(id, track) for id, track in known.items()}

    def _timed(self, id: str, track: Track) -> Track:
        """The track with what it is told for: a Job that takes too long is ended."""
        deadline = self._deadlines.get(id)
        if deadline is None or self.sight.now < deadline or track.reason == tracks.TIMED_OUT:
            return track
        return replace(
            track, reason=tracks.TIMED_OUT, message=f"job {track.job} took longer than {self._limits[id]} seconds"
        )

    @cached_property
    def _limits(self) -> dict[str, int]:
        """Seconds that a Job of a node may take."""
        return {node.id: node.entry.timeout_seconds for node in self.sight.nodes if node.entry.timeout_seconds}

    @cached_property
    def _deadlines(self) -> dict[str, datetime]:
        """When Jobs that are at work have taken too long."""
        found = {}
        for id, seconds in self._limits.items():
            job = self.sight.live(self._round.tracks[id])
            created = (job or {}).get("metadata", {}).get("creationTimestamp")
            if created:
                found[id] = times.parse(created) + timedelta(seconds=seconds)
        return found

    def _early(self) -> Iterator[Step]:
        """While making Jobs fails, what comes after it comes before it: nobody would see why, and no Job be ended."""
        if self._fails:
            yield from (*self._told(self._status(made=False)), *self._ended())

    @property
    def _fails(self) -> bool:
        """Whether making Jobs failed again and again."""
        return bool(self._round.jobs) and self.sight.snapshot.failures >= FAILING

    def _made(self) -> Iterator[Step]:
        """Make the Jobs."""
        if not self._round.jobs:
            return
        yield Together(
            tuple(Create(VC_JOB, job, taken=_taken(job)) for job in self._round.jobs),
            otherwise=RecordEvent("Warning", "FailedCreate", "Error creating job: {error}"),
            # Without those of this plan: which of them were made the next decision sees.
            meanwhile=() if self._fails else (*self._told(self._status(made=False)), *self._ended()),
        )

    def _created(self) -> Iterator[RecordEvent]:
        """Tell of Jobs that are there for the first time: not all that were asked for may have come to be."""
        written = self.sight.written
        for id, track in self.sight.tracks.items():
            if track is self.sight.remembered[id]:
                continue
            before = written.get(id) or {}
            known = before.get("startTime") and (before.get("attempts") or 0) >= track.attempts
            if track.started and not known:
                yield RecordEvent("Normal", "Created", f"create a job named {track.job}!")

    @cached_property
    def _new(self) -> Object:
        """The status once all of this is done."""
        return self._status()

    @cached_property
    def _held_back(self) -> datetime | None:
        """Until when the status need not be written."""
        return status.held_back_until(self.sight, self._tracks, self._new)

    def _written(self) -> Iterator[Step]:
        if self._held_back:
            return
        # What else there is to tell was told before the Jobs were made.
        yield from self._write(self._new) if self._fails else self._told(self._new)

    def _told(self, new: Object) -> Iterator[Step]:
        """Write the status, and tell of what it says for the first time."""
        yield from self._write(new)
        yield from self._created()
        observed, ready = self.sight.status, self._ready
        if says_why(ready) and ready.reason != "Suspended" and ready.is_news(observed):
            yield RecordEvent("Warning" if ready.status == "False" else "Normal", ready.reason, ready.message)
        if self._phase in phases.FINAL and self._phase != (observed.get("state") or {}).get("phase"):
            well = self._phase == phases.SUCCEED
            yield RecordEvent(
                "Normal" if well else "Warning", f"Flow{self._phase}", self._state[1] or "the flow is over"
            )
            if metric := _COUNTED.get(self._phase):
                yield CountMetric(metric, labels=(self.sight.snapshot.ref.namespace,))

    def _write(self, new: Object) -> Iterator[Step]:
        if new != self.sight.status:
            yield PatchStatus(new)

    def _ended(self) -> Iterator[Step]:
        """End Jobs that take too long, and those of a flow that is cancelled. That they are is written down by then."""
        for node in self.sight.nodes:
            track = self._tracks[node.id]
            job = self.sight.live(track)
            if job is None or track.phase in _ENDING:
                continue
            if self.sight.spec.cancel and track.phase != "Aborted":
                yield Create(COMMAND, jobs.end(self.sight.body, job, "the flow is cancelled"))
            elif track.reason == tracks.TIMED_OUT and track.phase != "Aborted":
                yield Create(COMMAND, jobs.end(self.sight.body, job, track.message or tracks.TIMED_OUT))
        for job in self._left_over if self.sight.spec.cancel else ():
            yield Create(COMMAND, jobs.end(self.sight.body, job, "the flow is cancelled"))

    # What is written

    @cached_property
    def _counts(self) -> FlowCounts:
        """Nodes by how they stand."""
        known = self._tracks
        over = sum(track.over for track in known.values())
        bad = starting.failed(self.sight, known)
        unforgiven = [node for node in bad if not node.entry.allow_failure]
        counting = unforgiven if over == len(known) else starting.fatal(self.sight, known)
        failed = sum(known[node.id].phase == tracks.FAILED for node in counting)
        return FlowCounts(
            total=len(known) + len(self._left_over),
            running=sum(track.phase == "Running" for track in known.values()),
            completed=over - len(unforgiven),
            failed=failed,
            terminated=len(counting) - failed,
        )

    @cached_property
    def _left_over(self) -> list[Object]:
        """Jobs at work whose entries are no longer there."""
        return self.sight.left_over(self._tracks)

    @cached_property
    def _phase(self) -> str:
        current = self.sight.phase
        if self.sight.spec.cancel and current not in phases.FINAL:
            live = any(track.live and track.phase != "Aborted" for track in self._tracks.values())
            at_work = live or bool(self._left_over)
            return phases.TERMINATING if at_work else phases.TERMINATED
        return phases.following(phases.RUNNING if current == phases.TERMINATING else current, self._counts)

    @cached_property
    def _state(self) -> tuple[str | None, str | None]:
        """Why the flow stands where it does."""
        if self._phase == phases.FAILED:
            bad = starting.fatal(self.sight, self._tracks) or [
                node for node in starting.failed(self.sight, self._tracks) if not node.entry.allow_failure
            ]
            return "EntryFailed", "; ".join(self._failure(node) for node in bad[:NAMED])
        if self._phase in (phases.TERMINATING, phases.TERMINATED):
            return "Cancelled", "the flow was cancelled"
        if says_why(self._ready):
            return self._ready.reason, self._ready.message
        return None, None

    def _failure(self, node: FlowNode) -> str:
        track = self._tracks[node.id]
        why = ": ".join(part for part in (track.reason, track.message) if part)
        return f"entry {node.id} ended {track.phase}" + (f" ({why})" if why else "")

    @cached_property
    def _ready(self) -> FlowReady:
        return flow_ready(self.sight, self._round, self._tracks)

    def _status(self, *, made: bool = True) -> Object:
        """The whole status. made: the Jobs of this plan are there."""
        sight = self.sight
        known = self._tracks if made else self._unmade
        before, final = sight.status, self._phase in phases.FINAL
        why = zip(("phase", "reason", "message"), (self._phase, *self._state), strict=True)
        begun = any(track.attempts for track in known.values())
        started = before.get("startTime") or (times.render(sight.now) if begun else None)
        computed: Object = {
            **status.lists(sight.nodes, known, sight.jobs),
            **self._of_jobs,
            "state": {name: text for name, text in why if text},
            "entries": {id: written for id, track in known.items() if (written := self._rendered(id, track))},
            "flowConditions": self._ready.render(before, sight.now),
            "startTime": started,
            "completionTime": (self._kept_end or times.render(sight.now)) if final else None,
            # Of a cancelled flow nothing runs again before that is taken back.
            "retried": (None if sight.spec.cancel else sight.token) or before.get("retried"),
            "observedGeneration": sight.body["metadata"].get("generation"),
        }
        return status.merged(before, computed)

    @property
    def _unmade(self) -> Mapping[str, Track]:
        """The nodes without the Jobs of this plan: what ends without one, or never starts, has ended all the same."""
        names, before = {job["metadata"]["name"] for job in self._round.jobs}, self._all_timed(self.sight.tracks)
        return {id: before[id] if track.job in names else track for id, track in self._tracks.items()}

    def _rendered(self, id: str, track: Track) -> Object | None:
        """The track as it is written down; one that stands as it stood is not written anew."""
        return self.sight.written.get(id) if track is self.sight.remembered[id] else track.render()

    @cached_property
    def _of_jobs(self) -> Object:
        return status.job_lists(self.sight, self._tracks)

    @property
    def _kept_end(self) -> str | None:
        """The end that is written down already, of a flow that does not try again."""
        return None if self.sight.tries_again else self.sight.status.get("completionTime")

    # When to look again

    def _later(self) -> Iterator[Step]:
        if self._asks:
            yield PollNow()
        moments = [*self._moments()]
        if moments:
            yield ComeBack(min(moments))
        yield from self._expiry()

    def _moments(self) -> Iterator[datetime]:
        sight, now = self.sight, self.sight.now
        if self._held_back:
            yield self._held_back
        if sight.snapshot.failures >= FAILING:
            # What failed is known to work again then.
            yield now
        if self._round.more or phases.following(self._phase, self._counts) != self._phase:
            yield now
        if self._phase == phases.SUCCEED and sight.spec.job_retain_policy == "delete":
            yield now
        if self._phase in phases.FINAL:
            return
        if self._round.jobs and (self._limits or sight.graph.probing):
            # Only when the Jobs are there it is known when they have taken too long, and what to ask of them.
            yield now
        if self._round.missing or self._round.jobs:
            # Of Jobs that could not be made because somebody has their names nobody else would tell.
            yield now + LOOK
        if not starting.halted(sight, self._tracks) and not sight.spec.suspend:
            yield from (
                again
                for track in self._tracks.values()
                if track.phase == tracks.RETRYING and (again := track.again) and again > now
            )
        yield from (deadline for id, deadline in self._deadlines.items() if self._tracks[id].live and deadline > now)
        if any(track.lost for track in self._tracks.values()):
            yield now + LOOK

    @property
    def _asks(self) -> bool:
        """Whether somebody has to ask pods: an entry waits for an answer that there is no reading of."""
        if self._phase in phases.FINAL or self.sight.spec.cancel:
            return False
        reading = self.sight.snapshot.reading
        known = {sample.name for sample in reading.samples} if reading else set()
        return any(name not in known for name in starting.questions(self.sight, self._tracks))

    def _expiry(self) -> Iterator[Step]:
        """Delete the flow when it is over for long enough; its Jobs go with it."""
        sight, ttl = self.sight, self.sight.spec.ttl_seconds_after_finished
        ended = sight.status.get("completionTime") if sight.phase in phases.FINAL else None
        if ttl is None or self._phase not in phases.FINAL:
            return
        expires = (times.parse(ended) if ended else sight.now) + timedelta(seconds=ttl)
        if any(track.live for track in self._tracks.values()):
            return
        if ended and expires <= sight.now:
            yield Delete(sight.snapshot.ref, sight.body["metadata"]["uid"])
        else:
            yield ComeBack(expires)

    def _why(self) -> str:
        over = sum(track.over for track in self._tracks.values())
        return f"{self._phase}: {over} of {len(self._tracks)} over, {len(self._round.jobs)} to create"


def _taken(job: Object) -> RecordEvent:
    return RecordEvent("Warning", "NameTaken", f"job {job['metadata']['name']} exists and belongs to somebody else")


CONTROLLER = Controller(
    kind=JOB_FLOW,
    decide=decide,
    children=(VC_JOB, JOB_FLOW),
    relatives=relatives,
    follows=(JOB_TEMPLATE,),
    polled=True,
)


#: Reconciles in a row that must have failed before it is worth a condition.
FAILING = 3
#: Entries that a message names at most.
NAMED = 3
#: Reasons of a flow that goes on as it should and says what for.
_WAITS = frozenset({"WaitsForProbe", "EntryGone"})


def flow_ready(sight: ObservedFlow, made: StartRound, known: Mapping[str, Track]) -> FlowReady:
    """The Ready condition. made: what becomes of the nodes in this decision. known: how far each is afterwards."""
    if sight.phase in phases.FINAL:
        return FlowReady("True", "Finished", "the flow is over")
    if made.missing:
        named = ", ".join(f"{name} (entry {entry})" for name, entry in sorted(made.missing.items()))
        return FlowReady("False", "MissingTemplate", f"there is no JobTemplate {named}")
    if taken := [node for node in sight.nodes if known[node.id].taken]:
        return FlowReady("False", "NameTaken", f"job {known[taken[0].id].job} exists and belongs to somebody else")
    if sight.snapshot.failures >= FAILING:
        return FlowReady("False", "ReconcileFailing", f"the last attempt failed: {sight.snapshot.last_error}")
    if sight.spec.suspend:
        return FlowReady("False", "Suspended", "nothing new starts while the flow is suspended")
    if waiting := list(islice(starting.unanswered(sight, known), NAMED)):
        return FlowReady("True", "WaitsForProbe", "; ".join(waiting))
    if left := sight.left_over(known):
        running = ", ".join(job["metadata"]["name"] for job in left[:NAMED])
        return FlowReady("True", "EntryGone", f"job {running} still runs, and its entry is no longer there")
    return FlowReady("True", "AsSpecified", "entries start when what they depend on has happened")


def says_why(ready: FlowReady) -> bool:
    """Whether it is worth a word in the flow's state, and an Event."""
    return ready.status == "False" or ready.reason in _WAITS
