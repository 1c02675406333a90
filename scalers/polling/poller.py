"""Working off the poll lane: how much work waits for each claimed object, measured one server at a time."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.connections import Connections
from scalers import metrics
from scalers.claimable import Claiming
from scalers.polling.as_completed import PollRound
from scalers.polling.batched import Answer, BatchedReader, SourceState
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.polling.object_poll import ObjectPoll, asks_for_decision
from scalers.triggers import flow_probes
from scalers.triggers.parse import Parsed, Triggers, is_polled
from scalers.wakeups.wakeups import WaitingObject, Wakeups
from scheduler.queue import ClaimedKeys, Done, Failed, Lane, Lease, Outcome, RequeueAt
from workers.api import kinds
from workers.api.kinds import JOB_FLOW, Object, Ref
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.claims import ClaimOrder, ledger_of
from workers.handoff.readings import Readings
from workers.reconcile.snapshot import Reading
from workers.runtime.leases import LeaseKeeper, LeaseLost, Notify
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds within which objects are parsed that are measured together: longer only where credentials are not known yet
#: and whoever holds them is slow.
AT_ONCE = 0.1

#: Gives leases back.
Settle = Callable[[Sequence[tuple[Lease, Outcome]]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PolledObjects:
    """An object that is to be polled. previous: its last reading. order: what is to be done with its ledger."""

    lease: Lease
    ref: Ref
    body: Object
    previous: Reading | None
    order: ClaimOrder | None


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
        store: Store,
        readings: Readings,
        orders: ClaimOrders,
        reconcile: Lane,
        notify: Notify,
        settings: Settings,
        triggers: Triggers,
        wakeups: Wakeups | None = None,
        cluster: Cluster | None = None,
        sources: BatchedReader | None = None,
    ) -> None:
        self._store = store
        self._readings = readings
        self._orders = orders
        self._reconcile = reconcile
        self._notify = notify
        self._interval = settings.polling
        self._triggers = triggers
        self._wakeups = wakeups
        self._sources = sources or BatchedReader(
            Connections(patience=settings.source_timeout / 4, cluster=cluster),
            CircuitBreakers(BreakerPolicy(cap=settings.polling, probe=settings.source_timeout)),
            timeout=settings.source_timeout,
            at_once=settings.source_in_flight,
        )

    async def close(self) -> None:
        """Close the connections to the measured servers."""
        await self._sources.close()

    async def handle(self, claim: ClaimedKeys, keeper: LeaseKeeper) -> None:
        """Poll every object of the claim and settle its lease as soon as its own servers have answered."""
        open_leases = {lease.key: lease for lease in claim.leases}
        work = PollRound()

        async def settle(outcomes: Sequence[tuple[Lease, Outcome]]) -> None:
            await keeper.settle_all(outcomes)
            for lease, _ in outcomes:
                del open_leases[lease.key]

        try:
            observed = await self._observe(claim)
            await self._dismiss([lease for lease in claim.leases if lease.key not in observed], settle)
            work.begin(self._poll(observed, claim.now, work, settle))
            async for polls in work.completed():
                if ours := [poll for poll in polls if _held(keeper, poll.lease)]:
                    await self._conclude(ours, settle)
        except Exception as error:
            log.exception("a poll failed unexpectedly", extra={"keys": len(open_leases)})
            await keeper.settle_all([(lease, _failed(error)) for lease in open_leases.values()])
        finally:
            await work.close()

    async def _observe(self, claim: ClaimedKeys) -> dict[str, PolledObjects]:
        """The objects that are to be polled, by key; those that are gone, going or paused are not among them."""
        refs = _refs(lease.key for lease in claim.leases)
        entries, readings = await asyncio.gather(
            self._store.get_many(tuple(refs.values())), self._readings.get_many(refs)
        )
        found = {key: entry.body for key, entry in zip(refs, entries, strict=True) if entry}
        bodies = {key: body for key, body in found.items() if body is not None and _asks(refs[key], body)}
        previous = dict(zip(refs, readings, strict=True))
        leases = {lease.key: lease for lease in claim.leases}
        claiming = [key for key, body in bodies.items() if ledger_of(body)]
        orders = dict(zip(claiming, await self._orders.get_many(claiming), strict=True))
        return {
            key: PolledObjects(leases[key], refs[key], body, previous[key], orders.get(key))
            for key, body in bodies.items()
        }

    async def _poll(self, observed: Mapping[str, PolledObjects], now: int, work: PollRound, settle: Settle) -> None:
        """Parse and measure. What is parsed at once, which is nearly always all, is measured together."""
        if not observed:
            return
        parsing = {work.aside(self._parse(each.ref, each.body)): each for each in observed.values()}
        done, late = await asyncio.wait(parsing, timeout=AT_ONCE)
        for task in late:
            work.begin(self._poll_late(parsing[task], task, now, work, settle))
        polls = [await self._parsed(parsing[task], task, now, settle) for task in done]
        self._measure([poll for poll in polls if poll], now, work)

    async def _poll_late(
        self, observed: PolledObjects, parsing: "asyncio.Task[Parsed]", now: int, work: PollRound, settle: Settle
    ) -> None:
        """One object whose credentials took their time."""
        began = time.monotonic()
        await asyncio.wait({parsing})
        if poll := await self._parsed(observed, parsing, now, settle):
            self._measure([poll], now + round((time.monotonic() - began) * 1e6), work)

    async def _parsed(
        self, observed: PolledObjects, parsing: "asyncio.Task[Parsed]", now: int, settle: Settle
    ) -> ObjectPoll | None:
        """The poll that begins when an object is parsed. An error nobody foresaw is that object's alone."""
        try:
            parsed = parsing.result()
        except Exception as error:
            log.exception("an object could not be parsed", extra={"key": observed.lease.key})
            await settle([(observed.lease, _failed(error))])
            return None
        poll = ObjectPoll(observed.lease, observed.body, parsed, observed.previous, now, observed.order)
        self._show_lateness(poll)
        return poll

    async def _parse(self, ref: Ref, body: Object) -> Parsed:
        """What of the object is measured: its triggers, or what a flow's probes ask."""
        return await (flow_probes.parse(body, self._store) if ref.kind == JOB_FLOW else self._triggers.parse(ref, body))

    async def _dismiss(self, leases: Sequence[Lease], settle: Settle) -> None:
        """Nothing to measure: whoever decides finds no reading, and asks for one when the object is back."""
        if not leases:
            return
        keys = [lease.key for lease in leases]
        await self._readings.drop(keys)
        await self._orders.drop(keys)
        if self._wakeups:
            await self._wakeups.forget(keys)
        await settle([(lease, Done()) for lease in leases])

    def _measure(self, polls: Sequence[ObjectPoll], now: int, work: PollRound) -> None:
        """Begin to measure these, server by server."""
        groups: defaultdict[SourceState, list[tuple[ObjectPoll, int]]] = defaultdict(list)
        for poll in polls:
            if poll.complete:
                work.complete(poll)
            elif poll.ledger_name:
                work.begin(self._carry_out(poll, now, work))
            else:
                for place, probe in enumerate(poll.parsed.probes):
                    groups[probe.source].append((poll, place))
        for source, members in groups.items():
            work.begin(self._read(source, members, now, work))

    def _show_lateness(self, poll: ObjectPoll) -> None:
        ref, late = kinds.parse_key(poll.lease.key), poll.late(self._interval)
        if ref.kind != JOB_FLOW and late is not None:
            metrics.polled(ref, late)

    async def _read(
        self, source: SourceState, members: Sequence[tuple[ObjectPoll, int]], now: int, work: PollRound
    ) -> None:
        """Measure one server. An object that has nothing left to be measured is complete, whoever else still waits."""
        began = time.monotonic()

        def told(number: int, answer: Answer) -> None:
            poll, place = members[number]
            poll.take(place, answer, self._sources.left_alone(source, poll.asker(place)))
            poll.show(place, time.monotonic() - began)
            if isinstance(answer, str):
                self._triggers.forget(poll.uid)
            if poll.complete:
                work.complete(poll)

        scalers = [poll.parsed.probes[place].scaler for poll, place in members]
        askers = [poll.asker(place) for poll, place in members]
        await self._sources.ask(source, scalers, now, told, askers)

    async def _carry_out(self, poll: ObjectPoll, now: int, work: PollRound) -> None:
        """Do what is ordered with one object's ledger, which also tells what waits."""
        probe = poll.parsed.probes[0]
        if not isinstance(probe.scaler, Claiming):
            poll.found(f"items of {probe.type} cannot be claimed")
        else:
            began = time.monotonic()
            found = await self._sources.carry_out(probe.source, probe.scaler, poll.errand, now)
            poll.found(found, self._sources.left_alone(probe.source))
            poll.show(0, time.monotonic() - began)
            if isinstance(found, str):
                self._triggers.forget(poll.uid)
        work.complete(poll)

    async def _conclude(self, polls: Sequence[ObjectPoll], settle: Settle) -> None:
        """Store what was measured, wake whoever decides, and book the next polls."""
        readings = {poll.lease.key: poll.reading() for poll in polls}
        news = {poll.lease.key for poll in polls if asks_for_decision(poll.previous, readings[poll.lease.key])}
        stored = await self._readings.put_many(readings, self._reconcile, news=news)
        await self._notify({self._reconcile.name: stored.notifications})
        if self._wakeups:
            await self._wakeups.learn(
                {poll.lease.key: WaitingObject.of(poll.body, poll.parsed.probes) for poll in polls}
            )
        await settle([(poll.lease, RequeueAt(poll.next(self._interval))) for poll in polls])
        log.debug("polled", extra={"objects": len(polls), "news": len(news)})


def _held(keeper: LeaseKeeper, lease: Lease) -> bool:
    """Whether the object is still ours to measure: a claim may go on for long, and the object be gone by now."""
    try:
        keeper.check(lease)
    except LeaseLost:
        return False
    return True


def _failed(error: Exception) -> Failed:
    return Failed(f"{type(error).__name__}: {error}"[:500])


def _asks(ref: Ref, body: Object) -> bool:
    """Whether there is anything to measure for the object."""
    return flow_probes.asks(body) if ref.kind == JOB_FLOW else is_polled(body)


def _refs(keys: Iterable[str]) -> Mapping[str, Ref]:
    refs = {}
    for key in keys:
        try:
            refs[key] = kinds.parse_key(key)
        except ValueError:
            log.warning("a key that names no object was dropped", extra={"key": key})
    return refs
