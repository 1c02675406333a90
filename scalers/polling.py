"""Working off the poll lane: how much work waits for each claimed object, measured one server at a time."""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scalers import failing, metrics, probes
from scalers.breaker import Breaker, Breakers, Policy
from scalers.claiming import Claiming, Errand, Found
from scalers.connections import Connections
from scalers.scaler import Measure, milli
from scalers.sources import Answer, Source, Sources
from scalers.triggers import Parsed, Probe, Triggers, is_polled, polling_interval
from scalers.wakeups import Waiting, Wakeups
from scheduler.queue import Claim, ComeBack, Done, Failed, Lane, Lease
from workers.api import kinds
from workers.api.kinds import JOB_FLOW, Object, Ref
from workers.claims import Claim as Item
from workers.claims import Ledger, Order, ledger_of, name_of
from workers.cluster import Cluster
from workers.holding import Hands, Ring
from workers.mirror import Mirror
from workers.orders import Orders
from workers.readings import Readings
from workers.settings import Settings
from workers.snapshot import Reading, Sample

log = logging.getLogger(__name__)

#: Seconds between two polls of an object at least, however soon a value is to change by itself.
SOONEST = 0.25


@dataclass
class Poll:
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
    order: Order | None = None
    samples: dict[int, Sample] = field(default_factory=dict)
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

    def found(self, found: Found | str, breaker: Breaker | None = None) -> None:
        """What became of its errand. breaker: of its source, if that is left alone."""
        if isinstance(found, str):
            self.take(0, found, breaker)
            return
        self.take(0, Measure(found.waiting))
        order = self.errand.order
        self.limit, self.claims = order.limit if order and found.obeyed else None, found.claims

    def take(self, place: int, answer: Answer, breaker: Breaker | None = None) -> None:
        """What the trigger at this place measured. breaker: of its source, if that is left alone."""
        taken = sample(self.parsed.probes[place], answer)
        if taken.error is not None:
            before = self.previous if self.previous and self.previous.uid == self.uid else None
            taken = failing.remembered(taken, before, failing.threshold(self.body))
            taken = failing.alone(taken, before, breaker, str(self.parsed.probes[place].source), self.started)
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
            name = self.body["spec"]["triggers"][place].get("name") or ""
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
            ledger=Ledger(self.ledger_name, self.limit, self.claims) if self.ledger_name else None,
        )


def sample(probe: Probe, answer: Answer) -> Sample:
    """What one trigger's answer says; a failed one has no value."""
    claimable = isinstance(probe.scaler, Claiming)
    if isinstance(answer, str):
        return Sample(name=probe.name, type=probe.type, error=answer, claimable=claimable)
    active = answer.value > probe.scaler.activation if answer.active is None else answer.active
    target = float(probe.scaler.target if answer.target is None else answer.target)
    return Sample(probe.name, probe.type, milli(answer.value), target, active, claimable=claimable)


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


class Poller:
    """Measures what waits for claimed objects.

    mirror: where objects are read. readings: where readings are stored, together with the mark in the lane
    `reconcile` if one asks for a decision. orders: what is to be done with claims. ring: rings the bells this makes
    due. triggers: parses objects, shared with `wakeups`, which hears which objects wait on which servers. cluster: for
    triggers that measure it. sources: the servers; made from the settings if not given.
    """

    def __init__(
        self,
        *,
        mirror: Mirror,
        readings: Readings,
        orders: Orders,
        reconcile: Lane,
        ring: Ring,
        settings: Settings,
        triggers: Triggers,
        wakeups: Wakeups | None = None,
        cluster: Cluster | None = None,
        sources: Sources | None = None,
    ) -> None:
        self._mirror = mirror
        self._readings = readings
        self._orders = orders
        self._reconcile = reconcile
        self._ring = ring
        self._interval = settings.polling
        self._triggers = triggers
        self._wakeups = wakeups
        self._sources = sources or Sources(
            Connections(patience=settings.source_timeout / 4, cluster=cluster),
            Breakers(Policy(cap=settings.polling, probe=settings.source_timeout)),
            timeout=settings.source_timeout,
        )

    async def close(self) -> None:
        """Close the connections to the measured servers."""
        await self._sources.close()

    async def handle(self, claim: Claim, hands: Hands) -> None:
        """Poll every object of the claim and settle its lease as soon as its own servers have answered."""
        open_leases = {lease.key: lease for lease in claim.leases}
        try:
            polls = await self._observe(claim)
            idle = [lease for lease in claim.leases if lease.key not in polls]
            await self._dismiss(idle, hands)
            for lease in idle:
                del open_leases[lease.key]
            await self._measure(claim, list(polls.values()), hands, open_leases)
        except Exception as error:
            log.exception("a poll failed unexpectedly", extra={"keys": len(open_leases)})
            reason = f"{type(error).__name__}: {error}"[:500]
            await hands.settle_all([(lease, Failed(reason)) for lease in open_leases.values()])

    async def _observe(self, claim: Claim) -> dict[str, Poll]:
        """The objects that are to be polled, by key; those that are gone, going or paused are not among them."""
        refs = _refs(lease.key for lease in claim.leases)
        entries, readings = await asyncio.gather(
            self._mirror.get_many(tuple(refs.values())), self._readings.get_many(refs)
        )
        found = {key: entry.body for key, entry in zip(refs, entries, strict=True) if entry}
        bodies = {key: body for key, body in found.items() if body is not None and _asks(refs[key], body)}
        parsed = await asyncio.gather(*(self._parse(refs[key], body) for key, body in bodies.items()))
        previous = dict(zip(refs, readings, strict=True))
        leases = {lease.key: lease for lease in claim.leases}
        claiming = [key for key, body in bodies.items() if ledger_of(body)]
        orders = dict(zip(claiming, await self._orders.get_many(claiming), strict=True))
        return {
            key: Poll(leases[key], body, ready, previous[key], claim.now, orders.get(key))
            for (key, body), ready in zip(bodies.items(), parsed, strict=True)
        }

    async def _parse(self, ref: Ref, body: Object) -> Parsed:
        """What of the object is measured: its triggers, or what a flow's probes ask."""
        return await (probes.parse(body, self._mirror) if ref.kind == JOB_FLOW else self._triggers.parse(ref, body))

    async def _dismiss(self, leases: Sequence[Lease], hands: Hands) -> None:
        """Nothing to measure: whoever decides finds no reading, and asks for one when the object is back."""
        if not leases:
            return
        keys = [lease.key for lease in leases]
        await self._readings.drop(keys)
        await self._orders.drop(keys)
        if self._wakeups:
            await self._wakeups.forget(keys)
        await hands.settle_all([(lease, Done()) for lease in leases])

    async def _measure(self, claim: Claim, polls: Sequence[Poll], hands: Hands, open_leases: dict[str, Lease]) -> None:
        groups: defaultdict[Source, list[tuple[Poll, int]]] = defaultdict(list)
        pending: set[asyncio.Task[list[Poll]]] = set()
        for poll in polls:
            self._show_lateness(poll)
            if poll.ledger_name and poll.parsed.probes:
                pending.add(asyncio.create_task(self._carry_out(poll, claim.now)))
                continue
            for place, probe in enumerate(poll.parsed.probes):
                groups[probe.source].append((poll, place))
        pending |= {asyncio.create_task(self._read(source, members, claim.now)) for source, members in groups.items()}
        finished = [poll for poll in polls if poll.complete]
        try:
            while True:
                await self._conclude(finished, hands)
                for poll in finished:
                    del open_leases[poll.lease.key]
                if not pending:
                    return
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                finished = [poll for task in done for poll in task.result()]
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    def _show_lateness(self, poll: Poll) -> None:
        ref, late = kinds.parse_key(poll.lease.key), poll.late(self._interval)
        if ref.kind != JOB_FLOW and late is not None:
            metrics.polled(ref, late)

    async def _read(self, source: Source, members: Sequence[tuple[Poll, int]], now: int) -> list[Poll]:
        """Measure one server; answers the objects that have nothing left to be measured."""
        scalers = [poll.parsed.probes[place].scaler for poll, place in members]
        began = time.monotonic()
        answers = await self._sources.read(source, scalers, now)
        took = time.monotonic() - began
        breaker = self._sources.left_alone(source)
        completed = []
        for (poll, place), answer in zip(members, answers, strict=True):
            poll.take(place, answer, breaker)
            poll.show(place, took)
            if isinstance(answer, str):
                self._triggers.forget(poll.uid)
            if poll.complete:
                completed.append(poll)
        return completed

    async def _carry_out(self, poll: Poll, now: int) -> list[Poll]:
        """Do what is ordered with one object's ledger, which also tells what waits; answers the object."""
        probe = poll.parsed.probes[0]
        if not isinstance(probe.scaler, Claiming):
            poll.found(f"items of {probe.type} cannot be claimed")
            return [poll]
        began = time.monotonic()
        found = await self._sources.carry_out(probe.source, probe.scaler, poll.errand, now)
        poll.found(found, self._sources.left_alone(probe.source))
        poll.show(0, time.monotonic() - began)
        if isinstance(found, str):
            self._triggers.forget(poll.uid)
        return [poll]

    async def _conclude(self, polls: Collection[Poll], hands: Hands) -> None:
        """Store what was measured, wake whoever decides, and book the next polls."""
        if not polls:
            return
        readings = {poll.lease.key: poll.reading() for poll in polls}
        news = {poll.lease.key for poll in polls if asks_for_decision(poll.previous, readings[poll.lease.key])}
        stored = await self._readings.put_many(readings, self._reconcile, news=news)
        await self._ring({self._reconcile.name: stored.bells})
        if self._wakeups:
            await self._wakeups.learn({poll.lease.key: Waiting.of(poll.body, poll.parsed.probes) for poll in polls})
        await hands.settle_all([(poll.lease, ComeBack(poll.next(self._interval))) for poll in polls])
        log.debug("polled", extra={"objects": len(polls), "news": len(news)})


def _asks(ref: Ref, body: Object) -> bool:
    """Whether there is anything to measure for the object."""
    return probes.asks(body) if ref.kind == JOB_FLOW else is_polled(body)


def _refs(keys: Iterable[str]) -> Mapping[str, Ref]:
    refs = {}
    for key in keys:
        try:
            refs[key] = kinds.parse_key(key)
        except ValueError:
            log.warning("a key that names no object was dropped", extra={"key": key})
    return refs
