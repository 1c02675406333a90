"""One object being polled: what was measured so far, and the reading that this becomes."""

import math
from dataclasses import dataclass, field

from penstock.scaler import Measure, milli
from scalers import metrics
from scalers.claimable import ClaimableItems, Claiming, Errand
from scalers.polling import fallback
from scalers.polling.batched import Answer
from scalers.polling.circuit_breaker import CircuitBreaker
from scalers.polling.redaction import why
from scalers.polling.single import Asker
from scalers.triggers.parse import Parsed, TriggerProbe, measured, polling_interval
from scheduler.queue import Lease
from workers.api import kinds
from workers.api.kinds import JOB_FLOW, Object
from workers.handoff.claims import ClaimedItem as Item
from workers.handoff.claims import ClaimLedger, ClaimOrder, ledger_of, name_of
from workers.reconcile.snapshot import Reading, TriggerSample

#: Seconds between two polls of an object at least, however soon a value is to change by itself.
SOONEST = 0.25


@dataclass
class ObjectPoll:
    """One object being polled.

    started: the claim's moment (µs, broker's clock). previous: its last reading, whatever object of its name that
    was of. order: what is to be done with its ledger, if it has one. samples: what was measured so far, by the
    trigger's place. limit, claims: of its ledger when that was done. again: seconds after which one of the values
    changes by itself, as far as that is known.
    """

    lease: Lease
    body: Object
    parsed: Parsed
    previous: Reading | None
    started: int
    order: ClaimOrder | None = None
    samples: dict[int, TriggerSample] = field(default_factory=dict)
    limit: int | None = None
    claims: tuple[Item, ...] | None = None
    again: float = math.inf

    @property
    def uid(self) -> str:
        """The object's."""
        return str(self.body["metadata"]["uid"])

    @property
    def complete(self) -> bool:
        """Every trigger has been measured, or none can be."""
        return len(self.samples) == len(self.parsed.probes)

    def asker(self, place: int) -> Asker:
        """Whose question the trigger at this place is: another spec's is another question."""
        return self.uid, (place, self.body["metadata"].get("generation", 0))

    @property
    def ledger_name(self) -> str | None:
        """The name of its ledger, if it has one."""
        annotation = ledger_of(self.body)
        return name_of(annotation) if annotation else None

    @property
    def errand(self) -> Errand:
        """What is to be done with its ledger now: an order for another ledger is not for this one."""
        metadata = self.body["metadata"]
        order = self.order if self.order and self.order.of == self.ledger_name else None
        return Errand(f"{metadata['namespace']}/{metadata['name']}", self.uid, order)

    def found(self, found: ClaimableItems | str, breaker: CircuitBreaker | None = None) -> None:
        """What became of its errand. breaker: of its source, if that is left alone."""
        if isinstance(found, str):
            self.take(0, found, breaker)
            return
        self.take(0, Measure(found.waiting))
        order = self.errand.order
        self.limit, self.claims = order.limit if order and found.obeyed else None, found.claims

    def take(self, place: int, answer: Answer, breaker: CircuitBreaker | None = None) -> None:
        """What the trigger at this place measured. breaker: of its source, if that is left alone."""
        probe = self.parsed.probes[place]
        try:
            taken = sample(probe, answer)
        except Exception as error:
            # The target or the activation of somebody else's scaler: that is its failure, and nobody else's.
            taken = sample(probe, why(error, probe.scaler))
        if taken.error is not None:
            before = self.previous if self.previous and self.previous.uid == self.uid else None
            taken = fallback.remembered(taken, before, fallback.threshold(self.body))
            taken = fallback.alone(taken, before, breaker, str(probe.source), self.started)
        self.samples[place] = taken
        if isinstance(answer, Measure) and answer.again is not None:
            self.again = min(self.again, max(SOONEST, answer.again))

    def late(self, interval: float) -> float | None:
        """How much later than its polling interval it is polled (seconds; negative: sooner); None the first time."""
        if self.previous is None or self.previous.uid != self.uid:
            return None
        return (self.started - self.previous.started) / 1e6 - polling_interval(self.body, interval)

    def show(self, place: int, seconds: float) -> None:
        """Show Prometheus what the trigger at this place measured. seconds: that its server took."""
        ref = kinds.parse_key(self.lease.key)
        if ref.kind != JOB_FLOW:
            name = measured(self.body)[place].get("name") or ""
            metrics.measured(ref, place, self.samples[place], seconds, name)

    def next(self, interval: float) -> float:
        """When to poll the object again (seconds since the epoch, broker's clock). interval: default of polls."""
        return self.started / 1e6 + min(polling_interval(self.body, interval), self.again)

    def reading(self) -> Reading:
        """All samples as one reading, newer than any before, also than one from before the broker was emptied."""
        return Reading(
            id=max(self.started, self.previous.id + 1 if self.previous else 0),
            started=self.started,
            generation=self.body["metadata"].get("generation", 0),
            samples=tuple(self.samples[place] for place in range(len(self.parsed.probes))),
            problem=self.parsed.problem,
            uid=self.uid,
            ledger=ClaimLedger(self.ledger_name, self.limit, self.claims) if self.ledger_name else None,
        )


def sample(probe: TriggerProbe, answer: Answer) -> TriggerSample:
    """What one trigger's answer says; a failed one has no value."""
    claimable = isinstance(probe.scaler, Claiming)
    if isinstance(answer, str):
        return TriggerSample(name=probe.name, type=probe.type, error=answer, claimable=claimable)
    active = answer.value > probe.scaler.activation if answer.active is None else answer.active
    target = float(probe.scaler.target if answer.target is None else answer.target)
    return TriggerSample(probe.name, probe.type, milli(answer.value), target, active, claimable=claimable)


def asks_for_decision(previous: Reading | None, reading: Reading) -> bool:
    """Whether somebody has to look at this reading: it says something new, or there is work waiting.

    Waiting work is looked at every time because Jobs may have ended since the last decision; so is a fallback's.
    """
    if previous is None or any(sample.failures or (sample.active and sample.value > 0) for sample in reading.samples):
        return True
    return (previous.uid, previous.generation, previous.samples, previous.problem, previous.ledger) != (
        reading.uid,
        reading.generation,
        reading.samples,
        reading.problem,
        reading.ledger,
    )
