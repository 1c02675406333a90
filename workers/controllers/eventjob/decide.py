"""The decision about one EventJob: every claimed event gets its Job, and every ended Job settles its event.

Polls route events into deliveries, and claim as many as the order of the last decision allows. The stages: observe the
claims, limit them, create Jobs, settle; then the status. The ledger exists as long as the object: the finalizer keeps
the object until polls have removed it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.api import conditions
from workers.api.kinds import EVENT_JOB, JOB, SCALED_JOB, Object, Ref
from workers.api.penstock_dev import eventjob as manifest
from workers.api.penstock_dev import taken_channels
from workers.api.penstock_dev.eventjob import EventJob
from workers.api.penstock_dev.scheduledjob import RunRetry
from workers.controllers.claims import binding, claim_outcomes
from workers.controllers.claims.claim_outcomes import ClaimRules, ObservedClaims
from workers.controllers.eventjob import jobs
from workers.controllers.eventjob.status import EventJobState, StatedCondition, write
from workers.decision.claims import DELIVERIES, ClaimedItem
from workers.decision.controller import Controller
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    Create,
    Figure,
    Patch,
    Plan,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot
from workers.errors import UserError
from workers.events import job_texts, routing
from workers.events.substitutions import SubstitutionFailed

#: Keeps a deleted EventJob until polls have removed its deliveries.
FINALIZER = "penstock.dev/eventjob"
#: Most Jobs that one plan creates, because a plan must end within its deadline. The next plan creates the rest at once.
MAX_CREATES = 500
#: Interval at which an EventJob whose channel is taken looks again.
_RETRY = timedelta(seconds=30)


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Returns the plan for an EventJob, its Jobs and its last reading."""
    body = snapshot.body
    if body is None:
        return claim_outcomes.release_orphans(snapshot)
    if body["metadata"].get("deletionTimestamp"):
        return _delete(snapshot, body, now)
    try:
        eventjob = manifest.parse(body)
    except UserError as error:
        return _refuse(snapshot, body, str(error), now)
    seen = ObservedEventJob.of(snapshot, body, eventjob)
    return Plan(tuple(_steps(seen, now)), _why(seen), tuple(_figures(seen)))


@dataclass(frozen=True, slots=True)
class ObservedEventJob:
    """Stage 1: a well-formed EventJob that is not being deleted, and its claims.

    problem: the reason that nothing is claimed, as reason and message of Ready; None without one. built: by claim, the
    Jobs of claims that have none. alive: number of unfinished Jobs.
    """

    snapshot: Snapshot
    body: Object
    eventjob: EventJob
    claims: ObservedClaims
    problem: tuple[str, str] | None
    built: Mapping[str, Object]
    alive: int

    @classmethod
    def of(cls, snapshot: Snapshot, body: Object, eventjob: EventJob) -> "ObservedEventJob":
        problem = _problem(snapshot, eventjob)
        retry = eventjob.spec.retry
        built: dict[str, Object] = {}

        def unfit(claim: ClaimedItem) -> str | None:
            # Without a usable template nothing is created, and that is no fault of the events.
            if problem:
                return None
            try:
                built[claim.id] = jobs.build(eventjob, claim)
            except SubstitutionFailed as error:
                return str(error)
            return None

        rules = ClaimRules(
            retries=retry.limit if retry else 0,
            delay=lambda attempt: retry_delay(retry, attempt),
            unfit=unfit,
            records=True,
        )
        claims = claim_outcomes.observe(
            _own(snapshot, body), DELIVERIES, lambda claim: jobs.name(body["metadata"], claim), rules
        )
        alive = sum(entry.body is not None and not conditions.finished(entry.body) for entry in claims.jobs)
        return cls(snapshot, body, eventjob, claims, problem, built, alive)

    @property
    def suspended(self) -> bool:
        """Returns True if the user wants no Jobs."""
        return bool(self.eventjob.spec.suspend)

    @property
    def limit(self) -> int:
        """Stage 2: returns the most events that may be claimed at once."""
        if self.suspended or self.problem:
            return 0
        return max(0, self.eventjob.spec.concurrency.total - self.claims.verdict.strays)

    @property
    def missing(self) -> Sequence[ClaimedItem]:
        """Stage 3: returns the claims that get their Job now, the oldest first.

        Polls may have claimed more under an earlier order that allowed more Jobs: those claims wait for room.
        """
        if self.suspended or self.problem:
            return ()
        room = max(0, self.eventjob.spec.concurrency.total - self.alive)
        return self.claims.verdict.missing[: min(room, MAX_CREATES)]

    @property
    def just_parked(self) -> int:
        """Returns the number of events that the last order has parked, if the reading shows it carried out."""
        order = self.snapshot.order
        if order is None or self.claims.ledger.order != order.id:
            return 0
        return sum(each.how == "parked" for each in order.settlements)

    @property
    def unfinished_work(self) -> bool:
        """Returns True if there is room for more Jobs than one plan creates."""
        room = self.eventjob.spec.concurrency.total - self.alive
        return bool(self.missing) and min(room, len(self.claims.verdict.missing)) > len(self.missing)


def _own(snapshot: Snapshot, body: Object) -> Snapshot:
    """Returns the snapshot without a reading of a namesake that was deleted."""
    reading = snapshot.reading
    if reading is None or reading.uid == body["metadata"]["uid"]:
        return snapshot
    return replace(snapshot, reading=None)


def _problem(snapshot: Snapshot, eventjob: EventJob) -> tuple[str, str] | None:
    scaled_jobs = (*snapshot.relatives.values(), *(entry.body for entry in snapshot.peers))
    if taken := taken_channels.taker(scaled_jobs, snapshot.ref.namespace, eventjob.channel):
        return "ChannelTaken", taken
    found = [*routing.problems(eventjob.spec), *job_texts.problems(eventjob.spec.job_template)]
    if found:
        return "InvalidSpec", "; ".join(f"{field}: {text}" for field, text in found[:10])
    return None


def _steps(seen: ObservedEventJob, now: datetime) -> Iterator[Step]:
    """Yields settlements first, then new Jobs, then what people see of it."""
    snapshot = seen.snapshot
    yield from _add_finalizer(snapshot, seen.body)
    if seen.claims.reading is None:
        yield PollNow()
    # The next readings must not take what is parked then for the work of an order that was carried out before.
    yield from seen.claims.order(seen.limit, snapshot.at, renewed=seen.just_parked > 0)
    yield from seen.claims.release()
    state = _state(seen)
    creates = _creates(seen)
    if creates and snapshot.last_error:
        failing = StatedCondition("False", "JobCreateFailed", f"the last attempt failed: {snapshot.last_error}")
        yield from write(seen.body, EventJobState(failing, state.suspended), now)
    yield from creates
    yield from _parked(seen)
    yield from write(seen.body, state, now)
    if seen.unfinished_work:
        yield ComeBack(now)
    if seen.problem and seen.problem[0] == "ChannelTaken":
        yield ComeBack(now + _RETRY)


def _creates(seen: ObservedEventJob) -> tuple[Step, ...]:
    if not seen.missing:
        return ()
    creates = tuple(Create(JOB, seen.built[claim.id]) for claim in seen.missing)
    created = RecordEvent("Normal", "JobsCreated", "Created {done} Jobs")
    failed = RecordEvent("Warning", "JobCreateFailed", "Creating a Job failed: {error}")
    return (Together(creates, then=created, otherwise=failed),)


def _parked(seen: ObservedEventJob) -> Iterator[RecordEvent]:
    """Yields one Event of the events that this decision parks, with the first reason, and one of those that polls did.

    Polls park what cannot be routed. They are told by the number: what is parked beyond the status and the last order.
    """
    # Polls may not have carried the last order out yet.
    order = seen.snapshot.order
    told = {each.id for each in order.settlements} if order else set()
    parked = [each for each in seen.claims.verdict.settlements if each.how == "parked" and each.id not in told]
    if parked:
        more = f", and {len(parked) - 1} more" if len(parked) > 1 else ""
        yield RecordEvent("Warning", "EventParked", f"An event was parked: {parked[0].reason}{more}")
    known = (seen.body.get("status") or {}).get("events") or {}
    counts = seen.claims.ledger.counts or {}
    unrouted = counts.get("parked", 0) - known.get("parked", 0) - seen.just_parked
    if unrouted > 0:
        who = "An event was" if unrouted == 1 else f"{unrouted} events were"
        text = f"{who} parked before a Job could be made: see {_parked_list(seen.body)}"
        yield RecordEvent("Warning", "EventParked", text)


def _state(seen: ObservedEventJob) -> EventJobState:
    """Stage 4: returns the status of an object for which all steps before it worked."""
    ledger, spec = seen.claims.ledger, seen.eventjob.spec
    counts = ledger.counts if seen.claims.reading else None
    suspended = StatedCondition("False", "NotSuspended", "Jobs are created")
    if seen.suspended:
        suspended = StatedCondition("True", "SuspendedByUser", "events are taken in, and no Job is created")
    # Of the Jobs that exist and those that this plan creates; names of one attempt sort by age.
    made = [jobs.name(seen.body["metadata"], claim) for claim in seen.missing]
    return EventJobState(
        ready=_ready(seen),
        suspended=suspended,
        parked=None
        if counts is None
        else _parked_condition(counts.get("parked", 0), spec.dead_letter.limit, _parked_list(seen.body)),
        channel=seen.eventjob.channel,
        counts=counts,
        last_arrival=ledger.last_arrival,
        active=seen.alive + len(made),
        last_job=made[-1] if made else None,
    )


def _ready(seen: ObservedEventJob) -> StatedCondition:
    if seen.problem:
        return StatedCondition("False", *seen.problem)
    if seen.claims.problem:
        return StatedCondition("False", "ChannelUnreadable", seen.claims.problem)
    if seen.claims.reading is None:
        return StatedCondition("Unknown", "NotRead", "the channel was not read yet")
    return StatedCondition("True", "EventJobReady", f"takes the events of channel {seen.eventjob.channel}")


def _parked_list(body: Object) -> str:
    """Returns the command that lists the parked events."""
    return f"penstock events list {body['metadata']['name']} --state parked"


def _parked_condition(number: int, limit: int, listing: str) -> StatedCondition:
    if number >= limit:
        message = (
            f"{number} events are parked, and deadLetter.limit is {limit}: replay or drop some, nothing runs before"
        )
        return StatedCondition("True", "DeadLetterFull", message)
    if number:
        return StatedCondition("True", "EventsParked", f"events are parked: see {listing}")
    return StatedCondition("False", "NothingParked", "no event is parked")


def _refuse(snapshot: Snapshot, body: Object, message: str, now: datetime) -> Plan:
    """Returns the plan for a malformed manifest; its Jobs go on, and are settled once it is mended."""
    state = EventJobState(
        StatedCondition("False", "InvalidSpec", message),
        StatedCondition("Unknown", "InvalidSpec", "the manifest is wrong"),
    )
    return Plan((*_add_finalizer(snapshot, body), *write(body, state, now)), "the manifest is wrong")


# --- deletion


def _delete(snapshot: Snapshot, body: Object, now: datetime) -> Plan:
    """Deletes the unfinished Jobs, gives their events up with the ledger, and takes the finalizer off last."""
    if FINALIZER not in _finalizers(body):
        return NOTHING
    claims = claim_outcomes.observe(
        _own(snapshot, body),
        DELIVERIES,
        lambda claim: jobs.name(body["metadata"], claim),
        ClaimRules(records=True),
        closing=True,
    )
    deletes = claims.deletes()
    stage = (Together(deletes),) if deletes else ()
    # The poll that finds the ledger empty removes it; a reading of the spec before the deletion proves nothing.
    fresh = claims.reading is not None and claims.reading.generation == body["metadata"].get("generation", 0)
    if claims.is_closed and not deletes and fresh:
        rest = binding.unbind(binding.bound(claims.jobs))
        others = [each for each in _finalizers(body) if each != FINALIZER]
        gone = Patch(snapshot.ref, {"metadata": {"finalizers": others}}, body["metadata"]["resourceVersion"])
        return Plan((*claims.release(), *rest, gone), "being deleted, nothing is claimed any more")
    steps: list[Step] = [*claims.order(0, snapshot.at)]
    steps += () if steps or (fresh and not claims.problem) else (PollNow(),)
    steps += (*stage, *claims.release())
    if claims.problem:
        waiting = f"the events cannot be removed from the broker, and deletion waits for that: {claims.problem}"
        state = EventJobState(
            StatedCondition("False", "DeletionWaits", waiting),
            StatedCondition("Unknown", "Deleted", "being deleted"),
        )
        steps += write(body, state, now)
    if deletes:
        steps.append(ComeBack(now))
    return Plan(tuple(steps), f"being deleted, {len(claims.claims)} claims are left")


def _add_finalizer(snapshot: Snapshot, body: Object) -> tuple[Patch, ...]:
    if FINALIZER in _finalizers(body):
        return ()
    finalizers = [*_finalizers(body), FINALIZER]
    return (Patch(snapshot.ref, {"metadata": {"finalizers": finalizers}}, body["metadata"]["resourceVersion"]),)


def _finalizers(body: Object) -> list[str]:
    return body["metadata"].get("finalizers") or []


# --- what people see of a decision


def _figures(seen: ObservedEventJob) -> Iterator[Figure]:
    if not seen.claims.is_known:
        return
    counts = seen.claims.ledger.counts or {}
    for name in ("waiting", "delayed", "retrying", "parked"):
        if name in counts:
            yield Figure(f"{name} events", counts[name])
    total = seen.eventjob.spec.concurrency.total
    yield Figure("events with a claim", len(seen.claims.claims))
    yield Figure("most Jobs (concurrency.total)", total)
    yield Figure("Jobs not finished", seen.alive)
    yield Figure("claims without a Job", len(seen.claims.verdict.missing))
    yield Figure("to create", len(seen.missing), f"min({len(seen.claims.verdict.missing)}, {total} - {seen.alive})")


def _why(seen: ObservedEventJob) -> str:
    """Returns one line for people: the decision and its numbers."""
    if seen.problem:
        return seen.problem[1]
    if not seen.claims.is_known:
        return "the channel could not be read" if seen.claims.reading else "no reading of the channel yet"
    settlements = len(seen.claims.verdict.settlements)
    suspended = ", suspended" if seen.suspended else ""
    return f"{len(seen.claims.claims)} claimed, {settlements} to settle, {len(seen.missing)} to create{suspended}"


def _scaled_job_of(body: Object) -> tuple[Ref, ...]:
    """Returns the ScaledJob that would have the same channel."""
    spec = body.get("spec")
    channel = (spec.get("channel") if isinstance(spec, dict) else None) or body["metadata"]["name"]
    return (taken_channels.by_name(body["metadata"]["namespace"], channel),) if isinstance(channel, str) else ()


CONTROLLER = Controller(
    kind=EVENT_JOB,
    decide=decide,
    children=(JOB,),
    peers=(SCALED_JOB,),
    optional_relatives=_scaled_job_of,
    polled=True,
)


def retry_delay(retry: RunRetry | None, attempt: int) -> int:
    """Returns the milliseconds before the attempt of this number, the first retry being 1; doubles with every one."""
    if retry is None:
        return 0
    # Beyond 2^31 the longest wait holds anyway, and the power stays small.
    return 1000 * min(retry.delay_seconds << min(attempt - 1, 31), retry.max_delay_seconds)
