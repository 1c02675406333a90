"""The decision about one ScaledJob: KEDA 2.20's semantics, made exact."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial

from workers.api import bool_annotations
from workers.api.keda import scaledjob as manifest
from workers.api.keda.scaledjob import ScaledJob
from workers.api.keda_compat import NONE, Quirks
from workers.api.kinds import JOB, POD, SCALE_POLICY, SCALED_JOB, Kind, Object
from workers.controllers.keda.metadata import hold_on, is_held, let_go
from workers.controllers.keda.scaledjob import (
    binding,
    bounds,
    circuit_breakers,
    claiming,
    cooldown,
    counting,
    creation,
    demand,
    fallback,
    history,
    job_annotations,
    jobs,
    names,
    policy,
    rollout,
    strategy,
)
from workers.controllers.keda.scaledjob import (
    figures as explaining,
)
from workers.controllers.keda.scaledjob.status import ScaledJobConditions, last_active, warning, write
from workers.controllers.keda.status import KedaStatus, activity, described
from workers.controllers.keda.users import enlisting, unlisted
from workers.errors import UserError
from workers.handoff.claims import ledger_of
from workers.reconcile.controller import Controller
from workers.reconcile.limits import JobLimit, LimitReservation
from workers.reconcile.plan import (
    NOTHING,
    ComeBack,
    Figure,
    Level,
    Plan,
    PollNow,
    RecordEvent,
    Step,
)
from workers.reconcile.snapshot import CachedObject, Reading, Snapshot

#: A reading this old (microseconds) makes no more Jobs. The mirror remembers Jobs that are gone for ten minutes;
#: beyond that a reading could ask a second time for what it has had.
READING_LIFE = 5 * 60 * 1_000_000


def decide(snapshot: Snapshot, now: datetime, quirks: Quirks = NONE) -> Plan:
    """What to do about a ScaledJob, its Jobs and its last reading. quirks: KEDA's behaviour that is wanted."""
    return enlisting(_decide(snapshot, now, quirks), snapshot)


def _decide(snapshot: Snapshot, now: datetime, quirks: Quirks) -> Plan:
    body = snapshot.body
    if body is None:
        return claiming.forsaken(snapshot)
    if body["metadata"].get("deletionTimestamp"):
        return claiming.close(snapshot, body, now) if ledger_of(body) else _let_go(snapshot, body)
    before = ScaledJobConditions.observed(body)
    try:
        scaled = manifest.parse(body)
    except UserError as error:
        steps = write(KedaStatus(body.get("status") or {}, before.refused(str(error))), before)
        return Plan((*hold_on(snapshot, body), *steps), "the manifest is wrong")
    if scaled.spec.strategy.strategy == "claim" or ledger_of(body):
        return claiming.decide(snapshot, body, scaled, now)
    if bool_annotations.is_paused(body):
        status = KedaStatus(body.get("status") or {}, before.pausing(), described(scaled.spec))
        return Plan((*hold_on(snapshot, body), *write(status, before)), "paused")
    return _ScaledJobDecision(snapshot, body, scaled, now, quirks).plan()


def _let_go(snapshot: Snapshot, body: Object) -> Plan:
    """Take the finalizer off; the garbage collector deletes the Jobs."""
    if not is_held(body):
        return NOTHING
    record = RecordEvent("Warning", "ScaledJobDeleted", "The ScaledJob was deleted")
    return Plan((*unlisted(snapshot), let_go(snapshot, body), record), "being deleted")


@dataclass(frozen=True)
class _ScaledJobDecision:
    """The decision about one valid ScaledJob that is neither paused nor being deleted."""

    snapshot: Snapshot
    body: Object
    scaled: ScaledJob
    now: datetime
    quirks: Quirks

    def plan(self) -> Plan:
        """All steps. New Jobs come before everything that can wait, a fresh reading after everything it must see."""
        if self._caps and self.snapshot.allowance is None:
            return Plan(reservation=LimitReservation(self._caps, self._alive, self._wanted))
        rolled = rollout.roll_out(self.scaled, self._jobs)
        creates = self._creates()
        steps: list[Step] = [*hold_on(self.snapshot, self.body), *rolled]
        # What failed last time may fail again and end the plan there: say so first.
        settled = self._settled()
        warned = warning(settled, self.snapshot.last_error) if creates else None
        steps += [*(write(warned, self._before) if warned else ()), *creates]
        steps += binding.unbind(binding.ended(self._jobs))
        if not rolled and (cleaning := history.clean_up(self.scaled.spec, self._jobs)):
            steps.append(cleaning)
        if self._wants_a_reading:
            steps.append(PollNow())
        told = replace(self._before, active=warned.conditions.active) if warned else self._before
        steps += write(settled, told, reading=self._reading, anyway=bool(warned))
        steps += circuit_breakers.events(settled.observed, settled.fields)
        if rolled or self._number > jobs.HELPING:
            steps.append(ComeBack(self.now))
        if self._held_back:
            steps.append(policy.ask_again(self.now))
        if self._cooling and not self._cooling.over(self.snapshot.at):
            steps.append(ComeBack(self._cooling.end(self.snapshot.at, self.now)))
        return Plan(tuple(steps), self._why(), self._figures(), levels=self._levels())

    @cached_property
    def _jobs(self) -> tuple[CachedObject, ...]:
        return self.snapshot.children.get(JOB.id, ())

    @cached_property
    def _before(self) -> ScaledJobConditions:
        return ScaledJobConditions.observed(self.body)

    @cached_property
    def _resumed(self) -> bool:
        """Paused until now: what was measured before tells nothing."""
        return self._before.paused.status == "True"

    @cached_property
    def _reading(self) -> Reading | None:
        """The last reading, if it is one of this spec's triggers."""
        reading = self.snapshot.reading
        if reading is None or reading.ledger is not None:
            return None
        return reading if reading.generation == self.scaled.metadata.generation else None

    @cached_property
    def _bounds(self) -> bounds.JobBounds:
        return bounds.effective(self.scaled.spec)

    @cached_property
    def _names(self) -> names.ScaledJobNames:
        return names.of(self.scaled.metadata.name, self._reading.id if self._reading else 0)

    @cached_property
    def _demand(self) -> demand.Demand | None:
        """What the reading asks for; None when there is none, or it says that nothing could be measured."""
        if self._reading is None or self._reading.problem is not None:
            return None
        asked, samples = self.scaled.spec.strategy, self._reading.samples
        calculation = asked.multiple_scalers_calculation or "max"
        weights = demand.weights(self.scaled.spec, samples)
        return demand.of(samples, calculation, self._bounds, weights, asked.activation)

    @cached_property
    def _counts(self) -> counting.JobCounts | None:
        if self._reading is None:
            return None
        conditions = self.scaled.spec.strategy.pending_pod_conditions or ()
        pods = self.snapshot.children.get(POD.id, ())
        return counting.count(self._jobs, pods, conditions, self._reading, self._names)

    @cached_property
    def _worked_out(self) -> tuple[Figure, ...]:
        """The way to the number of Jobs that the reading justifies."""
        if self._demand is None or self._counts is None or self._resumed:
            return ()
        asked = self.scaled.spec.strategy
        figures = creation.worked_out(asked, self._demand, self._counts, self._bounds, self.quirks)
        if self._fallback:
            figures += fallback.worked_out(self._fallback, int(figures[-1].value), self._counts, self._bounds)
        if self._cooldown:
            missing = self._bounds.minimum - self._counts.running
            figures += cooldown.worked_out(int(figures[-1].value), missing)
        return figures

    @cached_property
    def _caps(self) -> tuple[JobLimit, ...]:
        return policy.caps(self.snapshot, self.body)

    @cached_property
    def _alive(self) -> int:
        """Jobs that are not finished."""
        return policy.unfinished(self._jobs)

    @cached_property
    def _wanted(self) -> int:
        """Unfinished Jobs that the object would have were it under no limit."""
        makes = 0 if self._outlived or not self._worked_out else int(self._worked_out[-1].value)
        return self._alive + makes

    @property
    def _held_back(self) -> bool:
        """Whether limits shared with others keep Jobs from being created."""
        return self.snapshot.allowance is not None and self.snapshot.allowance < self._wanted

    @cached_property
    def _cooldown(self) -> cooldown.Cooldown | None:
        return cooldown.in_force(self.scaled, self._jobs, self._reading) if self._reading else None

    @cached_property
    def _cooling(self) -> cooldown.Cooldown | None:
        """The cool-down, if it keeps Jobs from being created."""
        before = self._worked_out[-2:-1] if self._cooldown else ()
        return self._cooldown if before and before[0].value > self._worked_out[-1].value else None

    @cached_property
    def _fallback(self) -> fallback.FallbackDecision | None:
        return fallback.in_force(self.scaled.spec, self._reading.samples, self._bounds) if self._reading else None

    @cached_property
    def _active(self) -> bool:
        """Whether there is anything to do, for a fallback's sake too."""
        return bool((self._demand and self._demand.active) or (self._fallback and self._fallback.floor))

    @cached_property
    def _number(self) -> int:
        """How many Jobs the reading justifies, were it young enough."""
        if not self._worked_out:
            return 0
        number, allowance = int(self._worked_out[-1].value), self.snapshot.allowance
        return number if allowance is None else max(0, min(number, allowance - self._alive))

    @cached_property
    def _outlived(self) -> bool:
        """Whether the reading is too old to make Jobs."""
        if self._reading is None or not self.snapshot.at:
            return False
        return self.snapshot.at - self._reading.started > READING_LIFE

    @cached_property
    def _wants_a_reading(self) -> bool:
        if self._reading is None or self._resumed or (self._outlived and self._number):
            return True
        if self._demand is None or self._counts is None:
            return False
        if self._cooling:
            return self._cooling.over(self.snapshot.at)
        return creation.held_back(self.scaled.spec.strategy, self._demand, self._counts, self._bounds, self.quirks)

    def _creates(self) -> tuple[Step, ...]:
        if not self._number or self._outlived or self._reading is None or self._demand is None:
            return ()
        scaled = job_annotations.told(self.scaled, self._reading, self._demand)
        taken = {entry.ref.name for entry in self._jobs}
        free = jobs.free_names(self._names, taken, min(self._number, jobs.HELPING))
        return (jobs.create(jobs.build(scaled, free)),)

    def _settled(self) -> KedaStatus[ScaledJobConditions]:
        """The status once all steps before it have worked."""
        conditions = self._before.resumed()
        if self._reading is None:
            return self._status(conditions)
        if self._demand is None:
            return self._status(conditions.refused(self._reading.problem or ""))
        conditions = conditions.judged(self._reading.samples, self._active)
        status = self._status(conditions.falling_back(self.scaled.spec.fallback is not None, self._fallback))
        fields = {**status.fields, **activity(status.observed, self._reading.samples)}
        fields |= circuit_breakers.left_alone(self._reading.samples)
        if self._active:
            interval = 0 if "last-active-time" in self.quirks else self.scaled.spec.interval
            fields |= last_active(status.observed, interval, self.now)
        return KedaStatus(status.observed, status.conditions, fields)

    def _status(self, known: ScaledJobConditions) -> KedaStatus[ScaledJobConditions]:
        allowed = self._wanted if self.snapshot.allowance is None else self.snapshot.allowance
        limited = policy.condition(self._caps, wanted=self._wanted, allowed=allowed)
        return KedaStatus(self.body.get("status") or {}, known.limited(limited), described(self.scaled.spec))

    @property
    def _combined(self) -> str:
        """How the queues of several triggers became one."""
        spec, samples = self.scaled.spec, self._reading.samples if self._reading else ()
        calculation = spec.strategy.multiple_scalers_calculation or "max"
        return demand.worked_out(samples, calculation, demand.weights(spec, samples), spec.strategy.activation)

    def _figures(self) -> tuple[Figure, ...]:
        """The arithmetic of this decision, for people."""
        limit = self.snapshot.allowance if self._worked_out else None
        if self._reading is None or self._demand is None or self._counts is None:
            return ()
        return (
            *explaining.asked(self._reading, self._demand, self._bounds, self._combined),
            *explaining.counted(self._counts),
            *self._worked_out,
            *(() if limit is None else policy.worked_out(int(self._worked_out[-1].value), limit, self._alive)),
        )

    def _levels(self) -> tuple[tuple[Level, float], ...]:
        """What Prometheus is shown; pending Jobs only where their pods are seen."""
        if self._counts is None:
            return ()
        pending = self._counts.pending if strategy.needs_pods(self.scaled.spec.strategy) else None
        running: tuple[Level, float] = ("scaledjob_running", self._counts.running)
        return (running,) if pending is None else (running, ("scaledjob_pending", pending))

    @property
    def _unknown(self) -> str:
        """How many triggers the queue leaves out because nobody knows theirs."""
        samples = self._reading.samples if self._reading else ()
        number = sum(sample.error is not None for sample in samples)
        return (
            f" ({number} of {len(samples)} {'trigger' if len(samples) == 1 else 'triggers'} unknown)" if number else ""
        )

    def _why(self) -> str:
        """One line for people: what was decided and from which numbers."""
        if self._demand is None or self._counts is None:
            return "nothing could be measured" if self._reading else "no reading of this spec yet"
        counts = self._counts
        return (
            f"{self._demand.queue} waiting{self._unknown}, "
            f"{counts.running} running, {counts.late} ended since the reading: "
            f"{0 if self._outlived else self._number} to create"
            f"{', waiting for the cool-down' if self._cooling else ''}"
            f"{', asking for a fresh reading' if self._wants_a_reading else ''}"
        )


def _grandchildren(body: Object) -> tuple[Kind, ...]:
    """Pods are read only for strategies that ask which Jobs are pending."""
    try:
        return (POD,) if strategy.needs_pods(manifest.parse(body).spec.strategy) else ()
    except UserError:
        return ()


CONTROLLER = Controller(kind=SCALED_JOB, decide=decide, children=(JOB,), grandchildren=_grandchildren, polled=True)


def controller(*, policies: bool = False, quirks: Quirks = NONE) -> Controller:
    """The controller. policies: whether ScalePolicies are obeyed. quirks: KEDA's behaviour that is wanted."""
    deciding = partial(decide, quirks=quirks) if quirks else decide
    return replace(CONTROLLER, decide=deciding, cluster_wide=(SCALE_POLICY,) if policies else ())
