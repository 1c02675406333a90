"""The poll of one object: the samples so far, and the reading that they become."""

import math
from dataclasses import InitVar, dataclass, field

from penstock.scaler import Measure, SourceError, milli
from scalers import metrics
from scalers.claimable import ClaimableItems, Claiming, ClaimRequest
from scalers.polling import failure_counts
from scalers.polling.batched import Answer
from scalers.polling.circuit_breaker import CircuitBreaker
from scalers.polling.single import Asker
from scalers.redaction import why
from scalers.triggers.object_probes import BY_TRIGGERS
from scalers.triggers.parse import Parsed, TriggerProbe
from scheduler.queue import Lease
from workers.api import kinds
from workers.api.kinds import Object, Ref
from workers.decision.claims import ClaimLedger, ClaimOrder, ledger_name
from workers.decision.snapshot import Reading, TriggerSample

#: Fewest seconds between two polls of an object whose value changes by itself.
SOONEST = 0.25
#: Polls of one interval fall on common moments, so many in an interval or more, no further apart than so many seconds:
#: what is due at the same moment is claimed, asked for and settled together.
COMMON, LONGEST_COMMON = 30, 1.0


@dataclass
class ObjectPoll:
    """The poll of one object.

    started: the instant of the claim (µs, broker's clock). interval: seconds between two of its polls. previous: the
    last reading under its name, perhaps of another object. order: for its ledger, if it has one. samples: by the
    trigger's place. carried_out: the order that its ledger took. found: its ledger after that. again: seconds after
    which one of the values changes by itself. ref, uid: of the object; address: the ref, where the caller has it.
    ledger_name: of its ledger, if it has one.
    """

    lease: Lease
    body: Object
    parsed: Parsed
    previous: Reading | None
    started: int
    interval: float
    order: ClaimOrder | None = None
    address: InitVar[Ref | None] = None
    samples: dict[int, TriggerSample] = field(default_factory=dict)
    carried_out: ClaimOrder | None = None
    found: ClaimableItems | None = None
    again: float = math.inf
    ref: Ref = field(init=False)
    uid: str = field(init=False)
    ledger_name: str | None = field(init=False)

    def __post_init__(self, address: Ref | None) -> None:
        self.ref = address or kinds.parse_key(self.lease.key)
        self.uid = str(self.body["metadata"]["uid"])
        self.ledger_name = ledger_name(self.ref.kind, self.body)

    @property
    def complete(self) -> bool:
        """Returns whether every trigger has a sample, or none can be measured."""
        return len(self.samples) == len(self.parsed.probes)

    def asker(self, place: int) -> Asker:
        """Returns the asker of the trigger at this place; that of another generation of the spec is another one."""
        return self.uid, (place, self.body["metadata"]["generation"])

    @property
    def claim_request(self) -> ClaimRequest:
        """The request to the object's ledger, with the order unless that is for another ledger."""
        metadata = self.body["metadata"]
        order = self.order if self.order and self.order.of == self.ledger_name else None
        return ClaimRequest(f"{metadata['namespace']}/{metadata['name']}", self.uid, order)

    def take_claims(self, found: ClaimableItems | str, breaker: CircuitBreaker | None = None) -> None:
        """Takes the outcome of its claim request. breaker: its source's, if it is open."""
        if isinstance(found, str):
            self.take(0, found, breaker)
            return
        self.take(0, Measure(found.waiting, again=found.again))
        self.carried_out, self.found = self.claim_request.order if found.applied else None, found

    def take(self, place: int, answer: Answer, breaker: CircuitBreaker | None = None) -> bool:
        """Takes the answer of the trigger at this place. Returns whether it, or a part of it, failed.

        breaker: its source's, if it is open.
        """
        probe = self.parsed.probes[place]
        try:
            taken = sample(probe, answer)
        except Exception as error:
            # A third party's scaler may fail in `target` or `activation`: that is the trigger's failure alone.
            taken = sample(probe, why(error, probe.scaler))
        before = self.previous if self.previous and self.previous.uid == self.uid else None
        # As `failure`, without a call for each of thousands of polls.
        failed = taken.error is not None or taken.incomplete is not None
        if failed:
            taken = failure_counts.counted(taken, before, failure_counts.threshold(self.body))
        if taken.error is not None:
            taken = failure_counts.with_breaker(taken, before, breaker, str(probe.source), self.started)
        self.samples[place] = taken
        if isinstance(answer, Measure) and answer.again is not None:
            self.again = min(self.again, max(SOONEST, answer.again))
        return failed

    def late(self) -> float | None:
        """Returns the seconds by which the poll is late for its interval (negative: early); None the first time."""
        if self.previous is None or self.previous.uid != self.uid:
            return None
        return (self.started - self.previous.started) / 1e6 - self.interval

    def export(self, place: int, seconds: float) -> None:
        """Exports the sample of the trigger at this place as metrics. seconds: that its server took."""
        if self.ref.kind in BY_TRIGGERS:
            metrics.export_sample(self.ref, place, self.samples[place], seconds, self.parsed.probes[place].given)

    def next(self) -> float:
        """Returns the instant of the next poll (seconds since the epoch, broker's clock)."""
        if self.again < self.interval:
            return self.started / 1e6 + self.again
        return common_moment(self.started / 1e6 + self.interval, self.interval)

    def reading(self) -> Reading:
        """Returns the samples as one reading, newer than any before, even one from before the broker was emptied."""
        return Reading(
            id=max(self.started, self.previous.id + 1 if self.previous else 0),
            started=self.started,
            generation=self.body["metadata"]["generation"],
            samples=tuple(self.samples[place] for place in range(len(self.parsed.probes))),
            problem=self.parsed.problem,
            uid=self.uid,
            ledger=self._ledger(),
            interval=self.interval,
        )

    def _ledger(self) -> ClaimLedger | None:
        if self.ledger_name is None:
            return None
        order, found = self.carried_out, self.found
        return ClaimLedger(
            self.ledger_name,
            limit=order.limit if order else None,
            claims=found.claims if found else None,
            order=order.id if order else None,
            counts=found.counts if found else None,
            last_arrival=found.last_arrival if found else 0,
        )


def common_moment(moment: float, every: float) -> float:
    """Returns the nearest moment at which objects of this polling interval are polled. Seconds. Pure.

    The first poll moves by up to half the distance of two such moments; from then on the interval is exact.
    """
    apart = every / max(COMMON, math.ceil(every / LONGEST_COMMON))
    return round(moment / apart) * apart


def sample(probe: TriggerProbe, answer: Answer) -> TriggerSample:
    """Returns the sample of one trigger's answer; a failed one has no value."""
    claimable = isinstance(probe.scaler, Claiming)
    if isinstance(answer, str):
        return TriggerSample(name=probe.name, type=probe.type, error=answer, claimable=claimable)
    active = answer.value > probe.scaler.activation if answer.active is None else answer.active
    target = float(probe.scaler.target if answer.target is None else answer.target)
    # As the text of an error, it may hold secrets.
    incomplete = None if answer.incomplete is None else why(SourceError(answer.incomplete), probe.scaler)
    value = milli(answer.value)
    return TriggerSample(probe.name, probe.type, value, target, active, claimable=claimable, incomplete=incomplete)


def asks_for_decision(previous: Reading | None, reading: Reading) -> bool:
    """Returns whether this reading needs a decision: it differs from the last one, or work is waiting.

    Waiting work needs one each time because Jobs may have ended since the last; so does a fallback.
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
