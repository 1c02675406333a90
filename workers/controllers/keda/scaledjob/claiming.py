"""Strategy claim: exactly one Job per item, by a ledger that outlives every process.

An annotation opens a ledger. The ledger is emptied and closed before that annotation goes: when the spec asks for
another ledger or none, and when the object is deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from workers.api import bool_annotations
from workers.api.keda.scaledjob import ScaledJob, ScaledJobSpec
from workers.api.keda_compat import Quirks
from workers.api.kinds import Object
from workers.controllers import rounding
from workers.controllers.claims import binding
from workers.controllers.claims import claim_outcomes as claims
from workers.controllers.claims.claim_outcomes import ClaimRules, ObservedClaims
from workers.controllers.keda import authentication_users, finalizer
from workers.controllers.keda.scaledjob import cleanup, demand, jobs, policy
from workers.controllers.keda.scaledjob.demand import Demand
from workers.controllers.keda.scaledjob.policy import SharedLimits
from workers.controllers.keda.scaledjob.status import ScaledJobConditions, last_active, write, write_around
from workers.controllers.keda.status import KedaStatus, activity_fields, polling_interval, spec_fields
from workers.decision import claim_names
from workers.decision.claims import LEDGER, ClaimedItem, ledger_of, name_of
from workers.decision.plan import (
    ComeBack,
    Plan,
    PollNow,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import CachedObject, Reading, Snapshot


def decide(snapshot: Snapshot, body: Object, scaled: ScaledJob, now: datetime) -> Plan:
    """Returns the plan for a ScaledJob that claims, or that still has a ledger from a time when it did."""
    seen = ObservedClaiming.of(snapshot, body, scaled)
    alive, maximum = policy.unfinished(seen.claims.jobs), demand.effective_bounds(scaled.spec).maximum
    wanted = max(alive, min(maximum, alive + _more_wanted(seen)))
    limits = SharedLimits(policy.caps(snapshot, body), alive, wanted, snapshot.allowance)
    if reservation := limits.reservation(held=alive + seen.claims.verdict.owed):
        return Plan(reservation=reservation)
    if seen.ledger is None:
        return _without_ledger(seen, limits)
    if seen.closing and seen.claims.is_closed:
        return _close(seen, now)
    return _with_ledger(seen, limits, _allowed(maximum, limits.allowance), now)


def delete(snapshot: Snapshot, body: Object, now: datetime, quirks: Quirks) -> Plan:
    """Returns the plan for a ScaledJob that is being deleted and has a ledger: its items are returned first."""
    seen = _observe(snapshot, body, closing=True)
    deletes = seen.deletes()
    steps: list[Step] = [*seen.order(0, snapshot.at), *((Together(deletes),) if deletes else ()), *seen.release()]
    if seen.is_closed and not deletes:
        steps += binding.unbind(binding.bound(seen.jobs))
        steps += [
            *authentication_users.removed(snapshot, quirks),
            finalizer.remove(snapshot, body, {LEDGER: None}),
            RecordEvent("Warning", "ScaledJobDeleted", "The ScaledJob was deleted"),
        ]
        return Plan(tuple(steps), "being deleted, nothing is claimed any more")
    before = ScaledJobConditions.observed(body)
    if seen.problem:
        failing = before.failed(f"claimed items cannot be returned, and deletion waits for that: {seen.problem}")
        steps += write(KedaStatus(body.get("status") or {}, failing), before)
    if deletes:
        steps.append(ComeBack(now))
    return Plan(tuple(steps), f"being deleted, {len(seen.claims)} claims are left")


@dataclass(frozen=True, slots=True)
class ObservedClaiming:
    """Stage 1: a valid ScaledJob that is not being deleted, its claims, and the ledger it is to have.

    ledger: the annotation it has. wanted: the annotation that the spec asks for, None if the spec does not or cannot
    claim. reading: the last one of the spec's trigger, as polls make it without a ledger. problem: the reason that
    items cannot be claimed as the spec asks.
    """

    snapshot: Snapshot
    body: Object
    scaled: ScaledJob
    before: ScaledJobConditions
    paused: bool
    ledger: str | None
    wanted: str | None
    claims: ObservedClaims
    reading: Reading | None
    problem: str | None

    @classmethod
    def of(cls, snapshot: Snapshot, body: Object, scaled: ScaledJob) -> "ObservedClaiming":
        reading = demand.reading_of(snapshot, scaled)
        claim, ledger, wanted = scaled.spec.strategy.claim, ledger_of(body), _ledger_of_spec(body, scaled.spec)
        return cls(
            snapshot,
            body,
            scaled,
            ScaledJobConditions.observed(body),
            bool_annotations.is_paused(body),
            ledger,
            wanted,
            _observe(snapshot, body, closing=wanted != ledger, retries=(claim and claim.retries) or 0),
            reading,
            _problem(scaled.spec, reading),
        )

    @property
    def closing(self) -> bool:
        """Returns True if the spec asks for another ledger or none."""
        return self.wanted != self.ledger

    def status(self, conditions: ScaledJobConditions, limits: SharedLimits) -> KedaStatus[ScaledJobConditions]:
        conditions = replace(conditions, capped=limits.condition())
        return KedaStatus(self.body.get("status") or {}, conditions, spec_fields(self.scaled.spec))


def _observe(snapshot: Snapshot, body: Object, *, closing: bool, retries: int = 0) -> ObservedClaims:
    of = name_of(ledger_of(body) or "")

    def job_name(claim: ClaimedItem) -> str:
        return claim_names.claimed(body["metadata"]["name"], of, claim.id, claim.attempt)

    return claims.observe(snapshot, of, job_name, ClaimRules(retries), closing=closing)


def _ledger_of_spec(body: Object, spec: ScaledJobSpec) -> str | None:
    if spec.strategy.strategy != "claim" or spec.claim_contradictions:
        return None
    trigger = body["spec"]["triggers"][0]
    place = {key: trigger[key] for key in ("type", "metadata", "authenticationRef") if trigger.get(key)}
    return orjson.dumps(place, option=orjson.OPT_SORT_KEYS).decode()


def _problem(spec: ScaledJobSpec, reading: Reading | None) -> str | None:
    if spec.strategy.strategy != "claim":
        return None
    if spec.claim_contradictions:
        return f"scalingStrategy: {'; '.join(spec.claim_contradictions)}"
    if reading and any(not sample.claimable for sample in reading.samples):
        return f"scalingStrategy: items of trigger type {spec.triggers[0].type} cannot be claimed"
    return None


def _more_wanted(seen: ObservedClaiming) -> int:
    """Stage 2: returns the Jobs wanted beyond the unfinished ones: for claims without a Job and for waiting items."""
    if seen.paused or seen.wanted is None or (seen.closing and seen.ledger):
        return 0
    reading = seen.claims.reading if seen.ledger else seen.reading
    samples = reading.samples if reading else ()
    return seen.claims.verdict.owed + rounding.up(sum(sample.value for sample in samples if sample.error is None))


def _allowed(maximum: int, allowance: int | None) -> int:
    """Returns the most unfinished Jobs under the object's own limit and those it shares."""
    return maximum if allowance is None else min(maximum, allowance)


def _without_ledger(seen: ObservedClaiming, limits: SharedLimits) -> Plan:
    """Opens the ledger once a reading has shown that the trigger's items can be claimed."""
    steps: list[Step] = [*finalizer.add(seen.snapshot, seen.body)]
    conditions = seen.before.with_pause() if seen.paused else seen.before.without_pause()
    why = "no reading of this spec yet"
    if problem := seen.problem or (seen.reading and seen.reading.problem):
        conditions, why = conditions.unmeasured(problem), "nothing is claimed"
    elif seen.paused:
        why = "paused"
    elif seen.reading is None:
        steps.append(PollNow())
    else:
        steps += [finalizer.patch(seen.snapshot, seen.body, {"annotations": {LEDGER: seen.wanted}}), PollNow()]
        why = "opening the ledger"
    steps += write(seen.status(conditions, limits), seen.before, reading=seen.reading)
    return Plan(tuple(steps), why)


def _close(seen: ObservedClaiming, now: datetime) -> Plan:
    """Removes the annotation of an empty ledger; the next decision opens the spec's own or goes on without one."""
    unannotated = finalizer.patch(seen.snapshot, seen.body, {"annotations": {LEDGER: None}})
    return Plan((*seen.claims.release(), unannotated, PollNow(), ComeBack(now)), "the ledger is closed")


def _with_ledger(seen: ObservedClaiming, limits: SharedLimits, allowed: int, now: datetime) -> Plan:
    """Stage 3: settles claims, creates missing Jobs and cleans up. allowed: most unfinished Jobs."""
    verdict, claim = seen.claims.verdict, seen.scaled.spec.strategy.claim
    limit = 0 if seen.paused or seen.closing else max(0, allowed - verdict.strays)
    # Polls may have claimed more items under an earlier order that allowed more Jobs: those items wait for room.
    room = 0 if seen.paused else max(0, allowed - limits.alive)
    missing = verdict.missing[: min(room, jobs.MAX_CREATES)]
    rolled = () if seen.paused else cleanup.roll_out(seen.scaled, seen.claims.jobs)
    trimmed = () if seen.paused or rolled else cleanup.trim_history(seen.scaled.spec, _settled_jobs(seen.claims))
    tail = bool(claim and claim.take_from == "Tail")
    steps: list[Step] = [
        *finalizer.add(seen.snapshot, seen.body),
        *seen.claims.order(limit, seen.snapshot.at, tail=tail),
        *seen.claims.release(),
        *write_around(
            _creates(seen, missing),
            (*rolled, *trimmed),
            _settle(seen, limits, now),
            seen.before,
            seen.snapshot.last_error,
            seen.claims.reading,
        ),
    ]
    if rolled or min(room, len(verdict.missing)) > len(missing):
        steps.append(ComeBack(now))
    steps += limits.retry(now)
    return Plan(tuple(steps), _why(seen, limits, len(missing)))


def _creates(seen: ObservedClaiming, missing: Sequence[ClaimedItem]) -> tuple[Step, ...]:
    if not missing:
        return ()
    scaled, reading = seen.scaled, seen.claims.reading
    if reading is not None:
        waiting = rounding.up(sum(sample.value for sample in reading.samples))
        by = tuple(sample.name for sample in reading.samples)
        scaled = jobs.annotated(scaled, reading, Demand(waiting, waiting, waiting, active=True, by=by))
    bodies = jobs.build(scaled, (seen.claims.job_name(claim) for claim in missing))
    return (jobs.create(binding.bind(job, claim) for job, claim in zip(bodies, missing, strict=True)),)


def _settled_jobs(seen: ObservedClaims) -> list[CachedObject]:
    """Returns the Jobs whose claim is settled; only these count as history."""
    freed = {entry.ref.name for entry in seen.verdict.freed}
    return [each for each in seen.jobs if each.ref.name in freed or (each.body and not binding.is_bound(each.body))]


def _settle(seen: ObservedClaiming, limits: SharedLimits, now: datetime) -> KedaStatus[ScaledJobConditions]:
    """Returns the status of an object for which all steps before it worked."""
    reading = seen.claims.reading
    if seen.paused:
        return seen.status(seen.before.with_pause(), limits)
    conditions = seen.before.without_pause()
    if problem := seen.problem or (reading and reading.problem):
        return seen.status(conditions.unmeasured(problem), limits)
    if reading is None:
        return seen.status(conditions, limits)
    active = bool(seen.claims.claims) or any(sample.value > 0 for sample in reading.samples)
    status = seen.status(conditions.with_samples(reading.samples, active), limits)
    fields = {**status.fields, **activity_fields(status.observed, reading.samples)}
    if active:
        fields |= last_active(status.observed, polling_interval(reading, seen.scaled.spec.interval), now)
    return replace(status, fields=fields)


def _why(seen: ObservedClaiming, limits: SharedLimits, missing: int) -> str:
    """Returns one line for people: the decision and its numbers."""
    if not seen.claims.is_known:
        return "the ledger could not be read" if seen.claims.reading else "no reading of the ledger yet"
    closing = ", closing the ledger" if seen.closing else ""
    waiting = ", waiting for room under what is shared" if limits.withholding else ""
    settlements = len(seen.claims.verdict.settlements)
    return f"{len(seen.claims.claims)} claimed, {settlements} to settle, {missing} to create{waiting}{closing}"
