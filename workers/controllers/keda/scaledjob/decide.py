"""The decision about one ScaledJob: KEDA 2.20's semantics, made exact.

`decide` answers deleted, malformed, claiming and paused objects itself. `_scale` decides on all others in stages:
observe, measure, propose, limit, settle, and the plan; each is a function of the values before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from workers.api import bool_annotations
from workers.api.keda import scaledjob as manifest
from workers.api.keda.scaledjob import ScaledJob
from workers.api.keda_compat import NONE, Quirks
from workers.api.kinds import JOB, POD, SCALE_POLICY, SCALED_JOB, Kind, Object
from workers.controllers.claims import binding, claim_outcomes
from workers.controllers.keda import authentication_users, finalizer
from workers.controllers.keda.scaledjob import (
    claiming,
    cleanup,
    cooldown,
    counting,
    demand,
    fallback,
    jobs,
    names,
    policy,
    scaling_strategies,
)
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand, JobBounds
from workers.controllers.keda.scaledjob.policy import SharedLimits
from workers.controllers.keda.scaledjob.status import (
    ScaledJobConditions,
    circuit_breaker_events,
    last_active,
    left_alone,
    write,
    write_around,
)
from workers.controllers.keda.status import (
    KedaStatus,
    activity_fields,
    polling_interval,
    spec_fields,
    with_trigger_problem,
)
from workers.decision.claims import ledger_of
from workers.decision.controller import Controller
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    Figure,
    Level,
    Plan,
    PollNow,
    RecordEvent,
    Step,
)
from workers.decision.snapshot import CachedObject, Reading, Snapshot
from workers.errors import UserError

#: Delay of a decision after the poll that it waits for.
LATE = timedelta(seconds=1)


def decide(snapshot: Snapshot, now: datetime, quirks: Quirks = NONE) -> Plan:
    """Returns the plan for a ScaledJob, its Jobs and its last reading. quirks: KEDA's behavior that is wanted."""
    return authentication_users.with_users(_decide(snapshot, now, quirks), snapshot, quirks)


def _decide(snapshot: Snapshot, now: datetime, quirks: Quirks) -> Plan:
    body = snapshot.body
    if body is None:
        return claim_outcomes.release_orphans(snapshot)
    if body["metadata"].get("deletionTimestamp"):
        return claiming.delete(snapshot, body, now, quirks) if ledger_of(body) else _delete(snapshot, body, quirks)
    before = ScaledJobConditions.observed(body)
    try:
        scaled = manifest.parse(body)
    except UserError as error:
        problems = with_trigger_problem((str(error),), snapshot)
        steps = write(KedaStatus(body.get("status") or {}, before.unmeasured(problems)), before)
        return Plan((*finalizer.add(snapshot, body), *steps), "the manifest is wrong")
    if scaled.spec.strategy.strategy == "claim" or ledger_of(body):
        return claiming.decide(snapshot, body, scaled, now)
    if bool_annotations.is_paused(body):
        status = KedaStatus(body.get("status") or {}, before.with_pause(), spec_fields(scaled.spec))
        return Plan((*finalizer.add(snapshot, body), *write(status, before)), "paused")
    return _scale(snapshot, body, scaled, now, quirks)


def _delete(snapshot: Snapshot, body: Object, quirks: Quirks) -> Plan:
    """Takes the finalizer off; the garbage collector deletes the Jobs."""
    if not finalizer.is_on(body):
        return NOTHING
    record = RecordEvent("Warning", "ScaledJobDeleted", "The ScaledJob was deleted")
    left = authentication_users.removed(snapshot, quirks)
    return Plan((*left, finalizer.remove(snapshot, body), record), "being deleted")


def _scale(snapshot: Snapshot, body: Object, scaled: ScaledJob, now: datetime, quirks: Quirks) -> Plan:
    """Decides on a valid ScaledJob that is neither paused nor being deleted and claims nothing."""
    seen = ObservedScaledJob.of(snapshot, body, scaled)
    measured = measure(seen)
    proposed = propose(seen, measured, quirks)
    alive = policy.unfinished(seen.jobs)
    wanted = alive + (proposed.number if measured and not measured.outlived else 0)
    limits = SharedLimits(policy.caps(snapshot, body), alive, wanted, snapshot.allowance)
    if reservation := limits.reservation():
        return Plan(reservation=reservation)
    number = limits.granted(proposed.number)
    poll = needs_reading(seen, measured, proposed, number, quirks)
    status = settle(seen, measured, limits, now, quirks)
    return Plan(
        tuple(_steps(seen, measured, proposed, limits, number, poll, status, now, quirks)),
        _why(measured, proposed, number, poll),
        tuple(_figures(seen, measured, proposed, limits)),
        levels=_levels(seen, measured),
    )


@dataclass(frozen=True, slots=True)
class ObservedScaledJob:
    """Stage 1: the ScaledJob as the decision sees it.

    before: the observed conditions. reading: the last one of this generation, None without one. resumed: the object was
    paused until now, so its reading is not to be acted on.
    """

    snapshot: Snapshot
    body: Object
    scaled: ScaledJob
    before: ScaledJobConditions
    jobs: tuple[CachedObject, ...]
    reading: Reading | None
    resumed: bool

    @classmethod
    def of(cls, snapshot: Snapshot, body: Object, scaled: ScaledJob) -> "ObservedScaledJob":
        before = ScaledJobConditions.observed(body)
        found = snapshot.children.get(JOB.id, ())
        reading, resumed = demand.reading_of(snapshot, scaled), before.paused.status == "True"
        return cls(snapshot, body, scaled, before, found, reading, resumed)

    @property
    def interval(self) -> float:
        """Returns the seconds between two polls."""
        return polling_interval(self.reading, self.scaled.spec.interval)


@dataclass(frozen=True, slots=True)
class JobMeasurement:
    """Stage 2: the reading against the Jobs that are there.

    demand: None if the reading has a problem instead of samples. fallback, cooldown: those in force. outlived: the
    reading is too old to make Jobs.
    """

    reading: Reading
    names: names.ScaledJobNames
    bounds: JobBounds
    counts: JobCounts
    demand: Demand | None
    fallback: fallback.FallbackDecision | None
    cooldown: cooldown.Cooldown | None
    outlived: bool

    @property
    def active(self) -> bool:
        """Returns True if a trigger or a fallback asks for Jobs."""
        return bool((self.demand and self.demand.active) or (self.fallback and self.fallback.floor))


def measure(seen: ObservedScaledJob) -> JobMeasurement | None:
    """Returns the measurement, None without a reading."""
    reading, scaled, spec = seen.reading, seen.scaled, seen.scaled.spec
    if reading is None:
        return None
    bounds, strategy, samples = demand.effective_bounds(spec), spec.strategy, reading.samples
    own = names.of(scaled.metadata.name, reading.id)
    pods = seen.snapshot.children.get(POD.id, ())
    asked = None
    if reading.problem is None:
        calculation = strategy.multiple_scalers_calculation or "max"
        asked = demand.of(samples, calculation, bounds, demand.weights(spec, samples), strategy.activation)
    at = seen.snapshot.at
    conditions = strategy.pending_pod_conditions or ()
    counts = counting.count(seen.jobs, pods, conditions, reading, scaled.metadata.name, seen.interval)
    if not cleanup.keeps_failed(spec, seen.interval, counts.failed):
        # Those that vanished may have failed.
        counts = replace(counts, failed=counts.late - counts.completed)
    return JobMeasurement(
        reading,
        own,
        bounds,
        counts,
        asked,
        fallback.in_force(spec, samples, bounds),
        cooldown.in_force(scaled, seen.jobs, reading),
        outlived=bool(at) and at - reading.started > demand.MAX_READING_AGE,
    )


@dataclass(frozen=True, slots=True)
class JobProposal:
    """Stage 3: the Jobs that the reading justifies.

    number: Jobs to create under no shared limit, were the reading young enough. figures: the arithmetic of the number,
    empty if nothing was measured. cooling: the cool-down, if it keeps Jobs from being created.
    """

    number: int = 0
    figures: tuple[Figure, ...] = ()
    cooling: cooldown.Cooldown | None = None


def propose(seen: ObservedScaledJob, measured: JobMeasurement | None, quirks: Quirks) -> JobProposal:
    """Returns the proposal: the strategy's number, raised by a fallback, lowered by a cool-down."""
    if measured is None or measured.demand is None or seen.resumed:
        return JobProposal()
    counts, bounds = measured.counts, measured.bounds
    figures = scaling_strategies.figures(seen.scaled.spec.strategy, measured.demand, counts, bounds, quirks)
    if measured.fallback:
        figures += fallback.figures(measured.fallback, int(figures[-1].value), counts, bounds)
    asked = number = int(figures[-1].value)
    if measured.cooldown:
        figures += cooldown.figures(asked, bounds.minimum - counts.in_minimum)
        number = int(figures[-1].value)
    return JobProposal(number, figures, measured.cooldown if number < asked else None)


def needs_reading(
    seen: ObservedScaledJob, measured: JobMeasurement | None, proposed: JobProposal, number: int, quirks: Quirks
) -> bool:
    """Returns True if a fresh reading could justify Jobs that this one cannot. number: Jobs to create now."""
    if measured is None or seen.resumed or (measured.outlived and number):
        return True
    if measured.demand is None:
        return False
    if proposed.cooling:
        return proposed.cooling.over(seen.snapshot.at)
    if measured.counts.brief and demand.is_by_clock(measured.reading.samples):
        # A poll would ask for the same number again, and Jobs that end at once would come one after the other.
        return False
    strategy = seen.scaled.spec.strategy
    return scaling_strategies.needs_reading(strategy, measured.demand, measured.counts, measured.bounds, quirks)


def settle(
    seen: ObservedScaledJob, measured: JobMeasurement | None, limits: SharedLimits, now: datetime, quirks: Quirks
) -> KedaStatus[ScaledJobConditions]:
    """Stage 5: returns the status of an object for which all steps before it worked."""
    spec, observed = seen.scaled.spec, seen.body.get("status") or {}
    conditions, fields = seen.before.without_pause(), spec_fields(spec)
    if measured and measured.demand is None:
        conditions = conditions.unmeasured(measured.reading.problem or "")
    elif measured:
        samples = measured.reading.samples
        conditions = conditions.with_samples(samples, measured.active)
        conditions = conditions.with_fallback(spec.fallback is not None, measured.fallback)
        fields |= activity_fields(observed, samples) | left_alone(samples)
        if measured.active:
            fields |= last_active(observed, 0 if "last-active-time" in quirks else seen.interval, now)
    return KedaStatus(observed, replace(conditions, capped=limits.condition()), fields)


def _steps(
    seen: ObservedScaledJob,
    measured: JobMeasurement | None,
    proposed: JobProposal,
    limits: SharedLimits,
    number: int,
    poll: bool,
    status: KedaStatus[ScaledJobConditions],
    now: datetime,
    quirks: Quirks,
) -> Iterator[Step]:
    """Stage 6: yields new Jobs before all that can wait, and a fresh reading after all that it must see."""
    yield from finalizer.add(seen.snapshot, seen.body)
    rolled = cleanup.roll_out(seen.scaled, seen.jobs)
    yield from rolled
    others: list[Step] = [*binding.unbind(binding.ended(seen.jobs))]
    others += () if rolled else cleanup.trim_history(seen.scaled.spec, seen.jobs)
    others += (PollNow(),) if poll else ()
    creates = _creates(seen, measured, number, quirks)
    yield from write_around(creates, others, status, seen.before, seen.snapshot.last_error, seen.reading)
    yield from circuit_breaker_events(status.observed, status.fields)
    if rolled or number > jobs.MAX_CREATES:
        yield ComeBack(now)
    yield from limits.retry(now)
    at = seen.snapshot.at
    if proposed.cooling and not proposed.cooling.over(at):
        yield ComeBack(proposed.cooling.end(at, now))
    if measured and measured.counts.running < min(measured.bounds.minimum, measured.counts.in_minimum):
        # The poll that allows the minimum its Jobs again asks for no decision if nothing waits.
        yield ComeBack(now + timedelta(seconds=seen.interval) + LATE)


def _creates(seen: ObservedScaledJob, measured: JobMeasurement | None, number: int, quirks: Quirks) -> tuple[Step, ...]:
    if not number or measured is None or measured.outlived or measured.demand is None:
        return ()
    scaled = jobs.annotated(seen.scaled, measured.reading, measured.demand)
    taken = {entry.ref.name for entry in seen.jobs}
    free = jobs.free_names(measured.names, taken, min(number, jobs.MAX_CREATES))
    stage = jobs.create(jobs.build(scaled, free))
    if "requested-jobs-event" not in quirks:
        return (stage,)
    # The Event comes first, because a refused Job ends the plan.
    return jobs.created_event(str(len(stage.steps))), replace(stage, then=None)


def _figures(
    seen: ObservedScaledJob, measured: JobMeasurement | None, proposed: JobProposal, limits: SharedLimits
) -> Iterator[Figure]:
    """Yields the arithmetic of the decision: what was measured, what is there, and what follows."""
    if measured is None or measured.demand is None:
        return
    spec, samples, asked = seen.scaled.spec, measured.reading.samples, measured.demand
    for sample in samples:
        if sample.error is not None:
            yield Figure(f"{sample.name} is not known: {sample.error}", 0)
        else:
            active = "" if sample.active else ", not active"
            yield Figure(f"{sample.name} waiting ({sample.target:g} per Job{active})", sample.value)
    yield Figure("minimum", measured.bounds.minimum)
    yield Figure("maximum beyond it", measured.bounds.maximum)
    calculation = spec.strategy.multiple_scalers_calculation or "max"
    weights = demand.weights(spec, samples)
    yield Figure("queue", asked.queue, demand.explanation(samples, calculation, weights, spec.strategy.activation))
    yield Figure("Jobs the queue asks for", asked.whole)
    yield Figure("of these within the maximum (maxScale)", asked.scale)
    yield Figure("Jobs not finished", measured.counts.running)
    yield Figure("of these pending", measured.counts.pending)
    yield Figure("ended since the reading began", measured.counts.late)
    yield Figure("of these failed or may have", measured.counts.failed)
    yield Figure("made by this reading", measured.counts.made)
    if measured.bounds.minimum:
        yield measured.counts.minimum_figure()
    if proposed.figures:
        yield from (*proposed.figures, *limits.figures(proposed.number))


def _levels(seen: ObservedScaledJob, measured: JobMeasurement | None) -> tuple[tuple[Level, float], ...]:
    """Returns the gauges for Prometheus; pending Jobs only for strategies whose pods are observed."""
    if measured is None:
        return ()
    running: tuple[Level, float] = ("scaledjob_running", measured.counts.running)
    if not scaling_strategies.needs_pods(seen.scaled.spec.strategy):
        return (running,)
    return (running, ("scaledjob_pending", measured.counts.pending))


def _why(measured: JobMeasurement | None, proposed: JobProposal, number: int, poll: bool) -> str:
    """Returns one line for people: the decision and its numbers."""
    if measured is None or measured.demand is None:
        return "nothing could be measured" if measured else "no reading of this spec yet"
    samples = measured.reading.samples
    unknown, triggers = sum(sample.error is not None for sample in samples), len(samples)
    note = f" ({unknown} of {triggers} {'trigger' if triggers == 1 else 'triggers'} unknown)" if unknown else ""
    return (
        f"{measured.demand.queue} waiting{note}, "
        f"{measured.counts.running} running, {measured.counts.late} ended since the reading: "
        f"{0 if measured.outlived else number} to create"
        f"{', waiting for the cool-down' if proposed.cooling else ''}"
        f"{', asking for a fresh reading' if poll else ''}"
    )


def _grandchildren(body: Object) -> tuple[Kind, ...]:
    """Returns Pod for strategies that count pending Jobs, because reading pods costs."""
    try:
        return (POD,) if scaling_strategies.needs_pods(manifest.parse(body).spec.strategy) else ()
    except UserError:
        return ()


CONTROLLER = Controller(kind=SCALED_JOB, decide=decide, children=(JOB,), grandchildren=_grandchildren, polled=True)


def controller(*, policies: bool = False, quirks: Quirks = NONE) -> Controller:
    """Returns the controller. policies: ScalePolicies are obeyed. quirks: KEDA's behavior that is wanted."""
    deciding = partial(decide, quirks=quirks) if quirks else decide
    return replace(CONTROLLER, decide=deciding, cluster_wide=(SCALE_POLICY,) if policies else ())
