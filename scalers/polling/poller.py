"""Polls the claimed objects of the poll lane, server by server, and stores their readings."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.exceptions import RedisError

from penstock.connections import Connections
from scalers import metrics
from scalers.claimable import Claiming
from scalers.deliveries.deliveries import Deliveries
from scalers.polling.as_completed import PollRound
from scalers.polling.batched import Answer, BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.polling.object_poll import ObjectPoll, asks_for_decision
from scalers.triggers.object_probes import BY_TRIGGERS, ObjectProbes, ScaledJobs, is_asked
from scalers.triggers.parse import Parsed, SourceKey, Triggers, polling_interval
from scalers.wakeups.wakeups import WaitingObject, Wakeups
from scheduler.queue import ClaimedKeys, Done, Failed, Finished, Lane, Lease, Outcome, RequeueAt
from workers.api import kinds
from workers.api.kinds import EVENT_JOB, Object, Ref
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.decision.claims import ClaimOrder, always_has_ledger, ledger_name
from workers.decision.snapshot import Reading
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.newest_entries import TurnCache
from workers.runtime.leases import Finish, LeaseKeeper, LeaseLost, Notify
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds of parsing after which the objects parsed so far are measured together: parsing takes longer only where
#: credentials are not known yet and the server that holds them is slow.
PARSING = 0.1

#: Objects whose watches are remembered.
WATCHES = 20_000


class Settle(Protocol):
    """Settles leases with their outcomes. finish: does so in the broker, together with something else."""

    async def __call__(self, outcomes: Sequence[tuple[Lease, Outcome]], finish: Finish | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class PolledObject:
    """An object that is to be polled. previous: its last reading. order: for its ledger. rivals: of an EventJob."""

    lease: Lease
    ref: Ref
    body: Object
    previous: Reading | None
    order: ClaimOrder | None
    rivals: ScaledJobs | None


class Poller:
    """Measures the triggers of claimed objects.

    store: objects are read from it. readings: takes readings, and enqueues an object in the lane
    `reconcile` if its reading needs a decision. orders: for ledgers. notify: sends the notifications that become due.
    triggers: parses objects. deliveries: those of EventJobs that are gone are removed. wakeups: learns which objects
    wait on which servers. cluster: for triggers that measure it. sources: made from the settings if not given.
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
        deliveries: Deliveries | None = None,
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
        self._probes = ObjectProbes(triggers, store)
        self._deliveries = deliveries
        self._wakeups = wakeups
        self._watches: TurnCache[str, tuple[Parsed, WaitingObject]] = TurnCache(WATCHES)
        self._sources = sources or BatchedReader(
            Connections(patience=settings.source_timeout / 4, cluster=cluster),
            CircuitBreakers(BreakerPolicy(cap=settings.polling, probe=settings.source_timeout)),
            timeout=settings.source_timeout,
            at_once=settings.source_in_flight,
        )

    async def close(self) -> None:
        """Closes the connections to the measured servers."""
        await self._sources.close()

    async def handle(self, claim: ClaimedKeys, keeper: LeaseKeeper) -> None:
        """Polls every object of the claim and settles its lease as soon as its own servers have answered."""
        open_leases = {lease.key: lease for lease in claim.leases}
        work = PollRound()

        async def settle(outcomes: Sequence[tuple[Lease, Outcome]], finish: Finish | None = None) -> None:
            await keeper.settle_all(outcomes, finish)
            for lease, _ in outcomes:
                del open_leases[lease.key]

        try:
            observed = await self._observe(claim)
            await self._dismiss([lease for lease in claim.leases if lease.key not in observed], settle)
            work.start(self._poll(observed, claim.now, work, settle))
            async for polls in work.completed():
                if ours := [poll for poll in polls if _held(keeper, poll.lease)]:
                    await self._conclude(ours, settle, keeper.lane)
        except Exception as error:
            log.exception("a poll failed unexpectedly", extra={"keys": len(open_leases)})
            await keeper.settle_all([(lease, _failed(error)) for lease in open_leases.values()])
        finally:
            await work.close()

    async def _observe(self, claim: ClaimedKeys) -> dict[str, PolledObject]:
        """Returns the objects to be polled, by key, without those that are gone, being deleted or paused."""
        refs = _refs(lease.key for lease in claim.leases)
        certain = [key for key, ref in refs.items() if always_has_ledger(ref.kind)]
        entries, readings, ordered, rivals = await asyncio.gather(
            self._store.get_many(tuple(refs.values())),
            self._readings.get_many(refs),
            self._orders.get_many(certain),
            # They are EventJobs.
            self._rivals({key: refs[key] for key in certain}),
        )
        found = {key: entry.body for key, entry in zip(refs, entries, strict=True) if entry}
        bodies = {key: body for key, body in found.items() if body is not None and is_asked(refs[key].kind, body)}
        previous = dict(zip(refs, readings, strict=True))
        await self._remove_deliveries(refs, found, previous)
        leases = {lease.key: lease for lease in claim.leases}
        orders = dict(zip(certain, ordered, strict=True))
        others = [key for key, body in bodies.items() if key not in orders and ledger_name(refs[key].kind, body)]
        orders |= zip(others, await self._orders.get_many(others), strict=True)
        return {
            key: PolledObject(leases[key], refs[key], body, previous[key], orders.get(key), rivals.get(key))
            for key, body in bodies.items()
        }

    async def _rivals(self, event_jobs: Mapping[str, Ref]) -> Mapping[str, ScaledJobs]:
        """Returns by key what `ObjectProbes.parse` needs; to read it only then would cost one more round trip."""
        found = await asyncio.gather(*(self._probes.rivals(ref) for ref in event_jobs.values()))
        return dict(zip(event_jobs, found, strict=True))

    async def _remove_deliveries(
        self, refs: Mapping[str, Ref], found: Mapping[str, Object | None], previous: Mapping[str, Reading | None]
    ) -> None:
        """Removes the deliveries of EventJobs that are gone without their finalizer, by the UIDs of their readings."""
        for key, ref in refs.items():
            reading = previous[key]
            if self._deliveries and ref.kind == EVENT_JOB and key in found and reading:
                body = found[key]
                if reading.uid and (body is None or body["metadata"]["uid"] != reading.uid):
                    await self._deliveries.remove(reading.uid)

    async def _poll(self, observed: Mapping[str, PolledObject], now: int, work: PollRound, settle: Settle) -> None:
        """Parses and measures. Objects that are parsed at once, which nearly all are, are measured together."""
        if not observed:
            return
        polls, others = [], []
        for each in observed.values():
            if parsed := self._probes.known(each.ref, each.body):
                polls.append(self._begun(each, parsed, now))
            else:
                others.append(each)
        if others:
            parsing = {
                work.start_background(self._probes.parse(each.ref, each.body, each.rivals)): each for each in others
            }
            done, late = await asyncio.wait(parsing, timeout=PARSING)
            for task in late:
                work.start(self._poll_late(parsing[task], task, now, work, settle))
            found = [await self._parsed(parsing[task], task, now, settle) for task in done]
            polls += [poll for poll in found if poll]
        self._measure(polls, now, work)

    async def _poll_late(
        self, observed: PolledObject, parsing: "asyncio.Task[Parsed]", now: int, work: PollRound, settle: Settle
    ) -> None:
        """Measures one object whose credentials were slow to arrive."""
        began = time.monotonic()
        await asyncio.wait({parsing})
        if poll := await self._parsed(observed, parsing, now, settle):
            self._measure([poll], now + round((time.monotonic() - began) * 1e6), work)

    async def _parsed(
        self, observed: PolledObject, parsing: "asyncio.Task[Parsed]", now: int, settle: Settle
    ) -> ObjectPoll | None:
        """Returns the poll of a parsed object; None if the broker failed.

        Any other unexpected error is that object's problem: without a reading it would have no condition that says so.
        """
        try:
            parsed = parsing.result()
        except (RedisError, OSError) as error:
            log.exception("an object could not be parsed", extra={"key": observed.lease.key})
            await settle([(observed.lease, _failed(error))])
            return None
        except Exception as error:
            log.exception("an object could not be parsed", extra={"key": observed.lease.key})
            # Its text may hold a secret.
            what = f"its triggers cannot be read: {type(error).__name__}; the log of the scaler says where"
            parsed = Parsed(problem=f"{observed.ref}: {what}")
        return self._begun(observed, parsed, now)

    def _begun(self, observed: PolledObject, parsed: Parsed, now: int) -> ObjectPoll:
        ref, body, interval = observed.ref, observed.body, polling_interval(observed.body, self._interval)
        poll = ObjectPoll(observed.lease, body, parsed, observed.previous, now, interval, observed.order, ref)
        late = poll.late()
        if late is not None and ref.kind in BY_TRIGGERS:
            metrics.export_lateness(ref, late)
        return poll

    async def _dismiss(self, leases: Sequence[Lease], settle: Settle) -> None:
        """Drops all state of objects that are not polled; the reconciler asks for a reading when they are back."""
        if not leases:
            return
        keys = [lease.key for lease in leases]
        await self._readings.drop(keys)
        await self._orders.drop(keys)
        if self._wakeups:
            await self._wakeups.forget(keys)
        await settle([(lease, Done()) for lease in leases])

    def _measure(self, polls: Sequence[ObjectPoll], now: int, work: PollRound) -> None:
        """Starts to measure these objects, server by server."""
        groups: defaultdict[SourceKey, list[tuple[ObjectPoll, int]]] = defaultdict(list)
        for poll in polls:
            if poll.complete:
                work.complete(poll)
            elif poll.ledger_name:
                work.start(self._carry_out(poll, now, work))
            else:
                for place, probe in enumerate(poll.parsed.probes):
                    groups[probe.source].append((poll, place))
        for source, members in groups.items():
            work.start(self._read(source, members, now, work))

    async def _read(
        self, source: SourceKey, members: Sequence[tuple[ObjectPoll, int]], now: int, work: PollRound
    ) -> None:
        """Measures one server. An object is complete with its last sample, before the others of the server are."""
        began = time.monotonic()

        def take(number: int, answer: Answer) -> None:
            poll, place = members[number]
            breaker = self._sources.open_breaker(source, poll.asker(place)) if isinstance(answer, str) else None
            failed = poll.take(place, answer, breaker)
            poll.export(place, time.monotonic() - began)
            if failed:
                self._triggers.forget(poll.uid)
            if poll.complete:
                work.complete(poll)

        scalers = [poll.parsed.probes[place].scaler for poll, place in members]
        askers = [poll.asker(place) for poll, place in members]
        await self._sources.read_each(source, scalers, now, take, askers)

    async def _carry_out(self, poll: ObjectPoll, now: int, work: PollRound) -> None:
        """Carries the order for one object's ledger out; the outcome says how many items wait."""
        probe = poll.parsed.probes[0]
        if not isinstance(probe.scaler, Claiming):
            poll.take_claims(f"items of {probe.type} cannot be claimed")
        else:
            began = time.monotonic()
            found = await self._sources.carry_out(probe.source, probe.scaler, poll.claim_request, now)
            poll.take_claims(found, self._sources.open_breaker(probe.source))
            poll.export(0, time.monotonic() - began)
            if isinstance(found, str):
                self._triggers.forget(poll.uid)
        work.complete(poll)

    async def _conclude(self, polls: Sequence[ObjectPoll], settle: Settle, polled: Lane) -> None:
        """Stores the readings and settles the leases with the instants of the next polls, and notifies the reconcilers.

        polled: the lane of the leases.
        """
        readings = {poll.lease.key: poll.reading() for poll in polls}
        news = {poll.lease.key for poll in polls if asks_for_decision(poll.previous, readings[poll.lease.key])}

        async def finish(outcomes: Sequence[tuple[Lease, Outcome]]) -> Finished:
            stored, finished = await self._readings.hand_over(readings, self._reconcile, outcomes, polled, news=news)
            await self._notify({self._reconcile.name: stored.notifications})
            return finished

        await settle([(poll.lease, RequeueAt(poll.next())) for poll in polls], finish)
        if self._wakeups:
            await self._wakeups.learn({poll.lease.key: self._waiting(poll) for poll in polls})
        log.debug("polled", extra={"objects": len(polls), "news": len(news)})

    def _waiting(self, poll: ObjectPoll) -> WaitingObject:
        """Returns the watches of an object; those of probes that were seen before are not derived from them again."""
        known = self._watches.used(poll.uid)
        if known and known[0] is poll.parsed:
            return known[1]
        waiting = WaitingObject.of(poll.body, poll.parsed.probes)
        self._watches.keep(poll.uid, (poll.parsed, waiting))
        return waiting


def _held(keeper: LeaseKeeper, lease: Lease) -> bool:
    """Returns whether the lease is still held: a claim may last for long, and the object be gone by now."""
    try:
        keeper.check(lease)
    except LeaseLost:
        return False
    return True


def _failed(error: Exception) -> Failed:
    return Failed(f"{type(error).__name__}: {error}"[:500])


def _refs(keys: Iterable[str]) -> Mapping[str, Ref]:
    refs = {}
    for key in keys:
        try:
            refs[key] = kinds.parse_key(key)
        except ValueError:
            log.warning("a key that names no object was dropped", extra={"key": key})
    return refs
