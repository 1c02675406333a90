"""Strategy claim: exactly one Job per item, by a ledger that outlives every process of ours.

A ledger is opened by an annotation, and closed before that annotation goes: when the spec asks for another one or
none, and when the object is deleted.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

import orjson

from workers.api import bool_annotations
from workers.api.keda.scaledjob import ScaledJob, ScaledJobSpec
from workers.api.kinds import JOB, Object
from workers.controllers import rounding
from workers.controllers.keda.metadata import change, hold_on, let_go
from workers.controllers.keda.scaledjob import binding, bounds, history, job_annotations, jobs, policy, rollout
from workers.controllers.keda.scaledjob.claims import ClaimVerdict
from workers.controllers.keda.scaledjob.demand import Demand
from workers.controllers.keda.scaledjob.observed import ObservedClaims
from workers.controllers.keda.scaledjob.status import ScaledJobConditions, last_active, warning, write
from workers.controllers.keda.status import KedaStatus, activity, described
from workers.controllers.keda.users import unlisted
from workers.handoff.claims import LEDGER, ClaimedItem, ledger_of
from workers.reconcile.limits import JobLimit, LimitReservation
from workers.reconcile.plan import (
    NOTHING,
    ComeBack,
    Delete,
    Plan,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.reconcile.snapshot import CachedObject, Reading, Snapshot


def decide(snapshot: Snapshot, body: Object, scaled: ScaledJob, now: datetime) -> Plan:
    """What to do about a ScaledJob that claims, or that still has a ledger from when it did."""
    return _Claiming(snapshot, body, scaled, now).plan()


def close(snapshot: Snapshot, body: Object, now: datetime) -> Plan:
    """What to do about a ScaledJob that is being deleted and has a ledger: its items go back first."""
    ledger = ObservedClaims(snapshot, body, closing=True)
    deletes = tuple(Delete(entry.ref, entry.body["metadata"]["uid"]) for entry in ledger.running if entry.body)
    steps: list[Step] = [*ledger.ask(0), *((Together(deletes),) if deletes else ()), *ledger.let_go()]
    if ledger.is_closed and not deletes:
        steps += binding.unbind(each for each in ledger.jobs if each.body and binding.is_bound(each.body))
        steps += [
            *unlisted(snapshot),
            let_go(snapshot, body, {LEDGER: None}),
            RecordEvent("Warning", "ScaledJobDeleted", "The ScaledJob was deleted"),
        ]
        return Plan(tuple(steps), "being deleted, nothing is claimed any more")
    before = ScaledJobConditions.observed(body)
    if ledger.problem:
        failing = before.failing(f"claimed items cannot be returned, and deletion waits for that: {ledger.problem}")
        steps += write(KedaStatus(body.get("status") or {}, failing), before)
    if deletes:
        steps.append(ComeBack(now))
    return Plan(tuple(steps), f"being deleted, {len(ledger.claims)} claims are left")


def forsaken(snapshot: Snapshot) -> Plan:
    """What to do about the Jobs of a ScaledJob that is gone: nobody settles their claims any more."""
    bound = (each for each in snapshot.children.get(JOB.id, ()) if each.body and binding.is_bound(each.body))
    steps = binding.unbind(bound)
    return Plan(steps, "gone, and nobody settles its claims any more") if steps else NOTHING


def _unfit(spec: ScaledJobSpec) -> str | None:
    """What in a spec contradicts that there is one Job per item."""
    if len(spec.triggers) > 1:
        return "items are claimed from one trigger, and there are several"
    if spec.min_replica_count:
        return "with strategy claim there is a Job for an item only: minReplicaCount must be 0"
    if spec.fallback and spec.fallback.behavior != "none":
        return "with strategy claim there is a Job for an item only: there can be no fallback"
    if spec.job_creation_cooldown_seconds:
        return "an item that was claimed is not counted again: jobCreationCooldownSeconds must be 0 with strategy claim"
    return None


@dataclass(frozen=True)
class _Claiming:
    """The decision about one valid ScaledJob that is not being deleted."""

    snapshot: Snapshot
    body: Object
    scaled: ScaledJob
    now: datetime

    def plan(self) -> Plan:
        if self._caps and self.snapshot.allowance is None:
            held = self._alive + self._sight.verdict.owed
            return Plan(reservation=LimitReservation(self._caps, self._alive, self._jobs_wanted, held))
        problem = self._problem()
        if ledger_of(self.body) is None:
            return self._unclaimed(problem)
        if self._sight.is_closed and self._wanted != ledger_of(self.body):
            return self._closed()
        return self._open(problem)

    def _problem(self) -> str | None:
        """Why items cannot be claimed as the spec says."""
        spec = self.scaled.spec
        if spec.strategy.strategy != "claim":
            return None
        if problem := _unfit(spec):
            return f"scalingStrategy: {problem}"
        reading = self._spec_reading
        if reading and any(not sample.claimable for sample in reading.samples):
            return f"scalingStrategy: items of trigger type {spec.triggers[0].type} cannot be claimed"
        return None

    @cached_property
    def _spec_reading(self) -> Reading | None:
        """The last reading, if it is one of this spec's triggers."""
        reading = self.snapshot.reading
        if reading is None or reading.ledger is not None:
            return None
        return reading if reading.generation == self.scaled.metadata.generation else None

    @cached_property
    def _wanted(self) -> str | None:
        """The annotation of the ledger that the spec asks for; None when it does not claim."""
        spec = self.scaled.spec
        if spec.strategy.strategy != "claim" or _unfit(spec):
            return None
        trigger = self.body["spec"]["triggers"][0]
        place = {key: trigger[key] for key in ("type", "metadata", "authenticationRef") if trigger.get(key)}
        return orjson.dumps(place, option=orjson.OPT_SORT_KEYS).decode()

    @cached_property
    def _closing(self) -> bool:
        return self._wanted != ledger_of(self.body)

    @cached_property
    def _sight(self) -> ObservedClaims:
        claim = self.scaled.spec.strategy.claim
        return ObservedClaims(
            self.snapshot,
            self.body,
            closing=self._closing,
            retries=(claim and claim.retries) or 0,
            tail=bool(claim and claim.take_from == "Tail"),
        )

    @cached_property
    def _caps(self) -> tuple[JobLimit, ...]:
        return policy.caps(self.snapshot, self.body)

    @cached_property
    def _alive(self) -> int:
        """Jobs that are not finished."""
        return policy.unfinished(self._sight.jobs)

    @cached_property
    def _is_paused(self) -> bool:
        return bool_annotations.is_paused(self.body)

    @cached_property
    def _jobs_wanted(self) -> int:
        """Unfinished Jobs that the object would have were it under no limit but its own."""
        if self._is_paused or self._wanted is None or (self._closing and ledger_of(self.body)):
            return self._alive
        reading = self._sight.reading if ledger_of(self.body) else self._spec_reading
        samples = reading.samples if reading else ()
        waiting = rounding.up(sum(sample.value for sample in samples if sample.error is None))
        wanted = self._alive + self._sight.verdict.owed + waiting
        return max(self._alive, min(self._maximum, wanted))

    @cached_property
    def _maximum(self) -> int:
        """Most Jobs by the object's own spec."""
        return bounds.effective(self.scaled.spec).maximum

    @cached_property
    def _allowed(self) -> int:
        """Most unfinished Jobs, by the object's own limit and those it shares."""
        shared = self.snapshot.allowance
        return self._maximum if shared is None else min(self._maximum, shared)

    @property
    def _held_back(self) -> bool:
        """Whether limits shared with others keep items from being claimed, or claims from getting their Job."""
        return self.snapshot.allowance is not None and self.snapshot.allowance < self._jobs_wanted

    @cached_property
    def _before(self) -> ScaledJobConditions:
        return ScaledJobConditions.observed(self.body)

    def _unclaimed(self, problem: str | None) -> Plan:
        """There is no ledger yet: open one as soon as the trigger is known to be one whose items can be claimed."""
        steps: list[Step] = [*hold_on(self.snapshot, self.body)]
        reading = self._spec_reading
        conditions = self._before.pausing() if self._is_paused else self._before.resumed()
        why = "no reading of this spec yet"
        if problem or (reading and reading.problem):
            conditions, why = conditions.refused(problem or (reading and reading.problem) or ""), "nothing is claimed"
        elif self._is_paused:
            why = "paused"
        elif reading is None:
            steps.append(PollNow())
        else:
            steps += [change(self.snapshot, self.body, {"annotations": {LEDGER: self._wanted}}), PollNow()]
            why = "opening the ledger"
        steps += write(self._status(conditions), self._before, reading=reading)
        return Plan(tuple(steps), why)

    def _closed(self) -> Plan:
        """The old ledger is empty: the spec's own is opened, or things go on without one."""
        return Plan(
            (
                *self._sight.let_go(),
                change(self.snapshot, self.body, {"annotations": {LEDGER: None}}),
                PollNow(),
                ComeBack(self.now),
            ),
            "the ledger is closed",
        )

    def _open(self, problem: str | None) -> Plan:
        """Settle, make what is missing, and clean up."""
        paused = self._is_paused
        verdict = self._sight.verdict
        limit = 0 if paused or self._closing else max(0, self._allowed - verdict.strays)
        # An order that was given when there was more room may have taken more: those wait.
        room = 0 if paused else max(0, self._allowed - self._alive)
        missing = verdict.missing[: min(room, jobs.HELPING)]
        steps: list[Step] = [*hold_on(self.snapshot, self.body), *self._sight.ask(limit), *self._sight.let_go()]
        settled = self._settled(problem, paused)
        warned = warning(settled, self.snapshot.last_error) if missing else None
        steps += [*(write(warned, self._before) if warned else ()), *self._creates(missing)]
        rolled = () if paused else rollout.roll_out(self.scaled, self._sight.jobs)
        cleaning = None if paused or rolled else history.clean_up(self.scaled.spec, self._settled_jobs())
        steps += [*rolled, *([cleaning] if cleaning else ())]
        told = replace(self._before, active=warned.conditions.active) if warned else self._before
        steps += write(settled, told, reading=self._sight.reading, anyway=bool(warned))
        if rolled or min(room, len(verdict.missing)) > len(missing):
            steps.append(ComeBack(self.now))
        if self._held_back:
            steps.append(policy.ask_again(self.now))
        return Plan(tuple(steps), self._why(verdict, missing))

    def _creates(self, missing: list[ClaimedItem]) -> tuple[Step, ...]:
        if not missing:
            return ()
        bodies = jobs.build(self._told(), (self._sight.job_name(claim) for claim in missing))
        return (jobs.create(binding.bind(job, claim) for job, claim in zip(bodies, missing, strict=True)),)

    def _told(self) -> ScaledJob:
        """The ScaledJob as its Jobs are to be made."""
        reading = self._sight.reading
        if reading is None:
            return self.scaled
        waiting = rounding.up(sum(sample.value for sample in reading.samples))
        by = tuple(sample.name for sample in reading.samples)
        return job_annotations.told(self.scaled, reading, Demand(waiting, waiting, waiting, active=True, by=by))

    def _settled_jobs(self) -> list[CachedObject]:
        """Jobs whose claim is settled."""
        freed = {entry.ref.name for entry in self._sight.verdict.freed}
        return [
            each
            for each in self._sight.jobs
            if each.ref.name in freed or (each.body and not binding.is_bound(each.body))
        ]

    def _settled(self, problem: str | None, paused: bool) -> KedaStatus[ScaledJobConditions]:
        """The status once all steps before it have worked."""
        reading = self._sight.reading
        if paused:
            return self._status(self._before.pausing())
        conditions = self._before.resumed()
        if problem:
            return self._status(conditions.refused(problem))
        if reading is None:
            return self._status(conditions)
        if reading.problem is not None:
            return self._status(conditions.refused(reading.problem))
        active = bool(self._sight.claims) or any(sample.value > 0 for sample in reading.samples)
        status = self._status(conditions.judged(reading.samples, active))
        fields = {**status.fields, **activity(status.observed, reading.samples)}
        if active:
            fields |= last_active(status.observed, self.scaled.spec.interval, self.now)
        return KedaStatus(status.observed, status.conditions, fields)

    def _status(self, conditions: ScaledJobConditions) -> KedaStatus[ScaledJobConditions]:
        allowed = self._jobs_wanted if self.snapshot.allowance is None else self.snapshot.allowance
        limited = policy.condition(self._caps, wanted=self._jobs_wanted, allowed=allowed)
        return KedaStatus(self.body.get("status") or {}, conditions.limited(limited), described(self.scaled.spec))

    def _why(self, verdict: ClaimVerdict, missing: list[ClaimedItem]) -> str:
        """One line for people: what was decided and from which numbers."""
        if not self._sight.is_known:
            return "the ledger could not be read" if self._sight.reading else "no reading of the ledger yet"
        closing = ", closing the ledger" if self._closing else ""
        waiting = ", waiting for room under what is shared" if self._held_back else ""
        return (
            f"{len(self._sight.claims)} claimed, {len(verdict.settlements)} to settle, "
            f"{len(missing)} to create{waiting}{closing}"
        )
