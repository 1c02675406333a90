"""Reconcile = observe, decide, act. The middle step is the controller's own; this is the rest."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from scheduler.queue import Again, Claim, ComeBack, Done, Failed, Lease, Outcome
from workers import metrics, records
from workers import plan as steps
from workers.act import Actor
from workers.api import kinds
from workers.api.kinds import Kind, Object, Ref
from workers.api.ties import TIES
from workers.caps import Reservation
from workers.controller import Controller
from workers.decisions import Decisions
from workers.errors import ClusterError, Conflict, NotFound, Stale, Unavailable, UserError
from workers.holding import Hands, LeaseLost
from workers.mirror import Mirror, Observation, Observed, Request, require_fresh
from workers.plan import Plan
from workers.readings import Readings
from workers.reservations import Reservations
from workers.scales import Scales
from workers.snapshot import Entry, Reading, Scalable, Snapshot

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Longest wait (seconds) of keys that failed because the API server or a watch is away: it may be back at any moment.
AWAY = 5.0


class Reconciler:
    """Works off claims of the reconcile lane with the controllers it is given.

    clock: the wall clock, read once per reconcile. deadline: seconds one reconcile may take. stale: seconds of
    silence after which a kind's mirror is no longer believed. scales: reads the workloads that objects scale.
    reservations: of limits that objects share.
    """

    def __init__(
        self,
        *,
        controllers: Mapping[str, Controller],
        mirror: Mirror,
        readings: Readings,
        actor: Actor,
        decisions: Decisions,
        clock: Callable[[], datetime],
        deadline: float,
        stale: float,
        reservations: Reservations | None = None,
        scales: Scales | None = None,
    ) -> None:
        self._controllers = controllers
        self._mirror = mirror
        self._readings = readings
        self._actor = actor
        self._decisions = decisions
        self._reservations = reservations
        self._clock = clock
        self._deadline = deadline
        self._stale = stale
        self._scales = scales

    async def handle(self, claim: Claim, hands: Hands) -> None:
        """Reconcile every key of the claim side by side, each under its own lease."""
        snapshots = await self.observe(claim.leases)
        idle: list[tuple[Lease, Outcome]] = []
        busy: list[tuple[Lease, Snapshot, Plan]] = []
        made: list[tuple[Snapshot, Plan]] = []
        for lease in claim.leases:
            snapshot = snapshots.get(lease)
            if isinstance(snapshot, Exception):
                idle.append((lease, self._unseen(lease, snapshot)))
                continue
            try:
                plan = self._decide(snapshot) if snapshot else None
                if plan and snapshot and plan.reservation:
                    snapshot, plan = await self._within_limits(snapshot, plan.reservation)
            except Exception as error:
                idle.append((lease, self._failed(lease, error)))
                continue
            if plan is None or snapshot is None:
                idle.append((lease, Done()))
                continue
            made.append((snapshot, plan))
            metrics.show(snapshot.ref, plan.levels)
            if plan.steps:
                busy.append((lease, snapshot, plan))
            else:
                idle.append((lease, Done()))
        if idle:
            metrics.RECONCILES.labels("any", "nothing to do").inc(sum(outcome == Done() for _, outcome in idle))
            await hands.settle_all(idle)
        works = (hands.work(lease, self._carry_out(lease, snapshot, plan, hands)) for lease, snapshot, plan in busy)
        # All of them are waited for: whoever hears of an error gives every lease back, and no work may go on then.
        for ended in await asyncio.gather(*works, self._decisions.note(made), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    async def observe(self, leases: Sequence[Lease]) -> Mapping[Lease, Snapshot | Exception]:
        """Snapshots of all keys that a controller takes care of, in a handful of round trips for all together.

        Stale stands for an object whose decision must see a kind that is not followed closely enough to be believed;
        any other error is one that its controller raised when it was asked what it must see.
        """
        refs = self._ours(leases)
        if not refs:
            return {}
        controllers = [self._controllers[ref.kind.id] for ref in refs.values()]
        requests = [
            Request(ref, of.children, of.adopts, of.tied) for ref, of in zip(refs.values(), controllers, strict=True)
        ]
        observed = await self._mirror.observe(requests)
        stale = self._stale_kinds(observed, refs.values())
        unseen: dict[Lease, Exception] = {lease: stale[ref.kind] for lease, ref in refs.items() if ref.kind in stale}
        if unseen:
            log.warning("not decided on", extra={"keys": len(unseen), "error": "; ".join(map(str, stale.values()))})
        found = {lease: seen for lease, seen in zip(refs, observed.observations, strict=True) if lease not in unseen}
        grandchildren, more = await self._grandchildren(found)
        unseen |= more
        relatives, more = await self._relatives(found)
        unseen |= more
        scalables, more = await self._scalables(found)
        unseen |= more
        everywhere, more = await self._everywhere(found)
        unseen |= more
        peers = await self._peers(found)
        polled = [lease.key for lease, ref in refs.items() if self._controllers[ref.kind.id].polled]
        readings = dict(zip(polled, await self._readings.get_many(polled), strict=True)) if polled else {}
        return unseen | {
            lease: Snapshot(
                ref=ref,
                body=entry.body if (entry := found[lease].entry) else None,
                children={**found[lease].children, **grandchildren.get(lease, {})},
                loose=found[lease].loose,
                tied=found[lease].tied,
                everywhere=everywhere.get(lease, {}),
                peers=peers.get(lease, ()),
                relatives=relatives.get(lease, {}),
                scale=scalables.get(lease),
                reading=_reading_of(found[lease].entry, readings.get(lease.key)),
                failures=lease.failures,
                last_error=lease.reason,
                at=observed.now,
            )
            for lease, ref in refs.items()
            if lease not in unseen
        }

    async def _peers(self, found: Mapping[Lease, Observation]) -> dict[Lease, tuple[Entry, ...]]:
        """The others that name what these objects name; one more round trip if any decision asks."""
        asked, _ = self._ask(
            found, lambda controller, body: (TIES[controller.kind.id](body),) if controller.peers else ()
        )
        wanted = {lease: named for lease, (named,) in asked.items() if named is not None}
        if not wanted:
            return {}
        owners = [(kinds.parse_key(lease.key).kind, records.naming(named.key)) for lease, named in wanted.items()]
        answers = await self._mirror.children_many(owners)
        return {
            lease: tuple(entry for entry in entries if entry.ref.key != lease.key and not entry.gone)
            for lease, entries in zip(wanted, answers, strict=True)
        }

    async def _everywhere(
        self, found: Mapping[Lease, Observation]
    ) -> tuple[dict[Lease, dict[str, tuple[Entry, ...]]], dict[Lease, Exception]]:
        """All objects of the kinds that decisions must see whole, read once for all who ask."""
        asked, unseen = self._ask(
            found, lambda controller, body: controller.everywhere if controller.surveys(body) else ()
        )
        wanted = dict.fromkeys(kind for whole in asked.values() for kind in whole)
        if not wanted:
            return {}, unseen
        ages = await self._mirror.freshness(wanted)
        read = {kind.id: tuple([entry async for entry in self._mirror.scan(kind)]) for kind in wanted}
        seen: dict[Lease, dict[str, tuple[Entry, ...]]] = {}
        for lease, whole in asked.items():
            try:
                require_fresh(ages, whole, self._stale)
                seen[lease] = {kind.id: read[kind.id] for kind in whole}
            except Stale as error:
                unseen[lease] = error
        return seen, unseen

    def _stale_kinds(self, observed: Observed, refs: Iterable[Ref]) -> dict[Kind, Stale]:
        """The kinds of these objects that cannot be decided on, and why; a slow watch stops no other kind."""
        stale = {}
        for kind in {ref.kind for ref in refs}:
            controller = self._controllers[kind.id]
            try:
                observed.require_fresh((kind, *controller.children, *controller.adopts, *controller.tied), self._stale)
            except Stale as error:
                stale[kind] = error
        return stale

    def _ours(self, leases: Sequence[Lease]) -> dict[Lease, Ref]:
        refs = {}
        for lease in leases:
            try:
                ref = kinds.parse_key(lease.key)
            except ValueError:
                log.warning("a key that names no object was dropped", extra={"key": lease.key})
                continue
            if ref.kind.id in self._controllers:
                refs[lease] = ref
        return refs

    async def _grandchildren(
        self, found: Mapping[Lease, Observation]
    ) -> tuple[dict[Lease, dict[str, tuple[Entry, ...]]], dict[Lease, Exception]]:
        """What the children own, for the objects whose decisions ask for it; one more round trip if any does."""
        asked, unseen = self._ask(found, lambda controller, body: controller.grandchildren(body))
        wanted: list[tuple[Lease, Kind, str]] = []
        for lease, grown_kinds in asked.items():
            children = [child.body for entries in found[lease].children.values() for child in entries]
            for kind in grown_kinds:
                wanted += [(lease, kind, child["metadata"]["uid"]) for child in children if child is not None]
        grown: dict[Lease, dict[str, tuple[Entry, ...]]] = {}
        owners = [(kind, uid) for _, kind, uid in wanted]
        try:
            answers = await self._mirror.children_many(owners, limit=self._stale) if owners else []
        except Stale as error:
            return {}, unseen | {lease: error for lease, _, _ in wanted}
        for (lease, kind, _), entries in zip(wanted, answers, strict=True):
            into = grown.setdefault(lease, {})
            into[kind.id] = (*into.get(kind.id, ()), *entries)
        return grown, unseen

    async def _relatives(
        self, found: Mapping[Lease, Observation]
    ) -> tuple[dict[Lease, dict[Ref, Object | None]], dict[Lease, Exception]]:
        """The other objects that decisions ask for; one more round trip if any does."""
        asked, unseen = self._ask(found, lambda controller, body: controller.relatives(body))
        glances, failed = self._ask(found, lambda controller, body: controller.glances(body))
        unseen |= failed
        wanted = list(dict.fromkeys(ref for each in (asked, glances) for refs in each.values() for ref in refs))
        if not wanted:
            return {}, unseen
        observed = await self._mirror.observe([Request(ref) for ref in wanted])
        entries = {ref: one.entry for ref, one in zip(wanted, observed.observations, strict=True)}
        related: dict[Lease, dict[Ref, Object | None]] = {}
        for lease, refs in asked.items():
            entry = found[lease].entry
            assert entry is not None
            try:
                observed.require_fresh((ref.kind for ref in refs), self._stale)
                related[lease] = {ref: _relative(ref, entries[ref], observed, entry.seen) for ref in refs}
            except Stale as error:
                unseen[lease] = error
        for lease, refs in glances.items():
            known = {ref: entry.body if (entry := entries[ref]) else None for ref in refs}
            related[lease] = known | related.get(lease, {})
        return related, unseen

    async def _scalables(
        self, found: Mapping[Lease, Observation]
    ) -> tuple[dict[Lease, Scalable], dict[Lease, Exception]]:
        """The workloads that these objects scale, as they are now; what cannot be read says so in its place."""
        asked, unseen = self._ask(
            found, lambda controller, body: (target,) if (target := controller.scales(body)) else ()
        )
        if self._scales is None or not asked:
            return {}, unseen
        namespaces = {lease: kinds.parse_key(lease.key).namespace for lease in asked}
        read = (self._scales.read(namespaces[lease], target) for lease, (target,) in asked.items())
        return dict(zip(asked, await asyncio.gather(*read), strict=True)), unseen

    def _ask(
        self, found: Mapping[Lease, Observation], question: Callable[[Controller, Object], tuple[T, ...]]
    ) -> tuple[dict[Lease, tuple[T, ...]], dict[Lease, Exception]]:
        """What controllers must see beside their objects and children; and who could not answer, and why."""
        answers: dict[Lease, tuple[T, ...]] = {}
        failed: dict[Lease, Exception] = {}
        for lease, observation in found.items():
            entry = observation.entry
            if entry is None or entry.body is None:
                continue
            controller = self._controllers[entry.ref.kind.id]
            try:
                if controller.accepts(entry.body) and (answer := question(controller, entry.body)):
                    answers[lease] = answer
            except Exception as error:
                failed[lease] = error
        return answers, failed

    def _decide(self, snapshot: Snapshot) -> Plan | None:
        """The controller's decision; None for what is not its own, and for what is gone and left nothing behind."""
        controller = self._controllers[snapshot.ref.kind.id]
        if snapshot.body is None:
            ours = any(not child.gone for children in snapshot.children.values() for child in children)
        else:
            ours = controller.accepts(snapshot.body)
        return controller.decide(snapshot, self._clock()) if ours else None

    async def _within_limits(self, snapshot: Snapshot, asked: Reservation) -> tuple[Snapshot, Plan | None]:
        """The decision made anew with what the limits allow that the object shares with others."""
        if self._reservations is None:
            raise UserError("this process keeps no limits that objects share")
        answered = replace(snapshot, allowance=await self._reservations.ask(snapshot, asked))
        return answered, self._decide(answered)

    async def _carry_out(self, lease: Lease, snapshot: Snapshot, plan: Plan, hands: Hands) -> Outcome:
        started = time.monotonic()
        kind = snapshot.ref.kind.id
        try:
            async with asyncio.timeout(self._deadline):
                back = await self._actor.act(snapshot, plan, lambda: hands.check(lease))
        except LeaseLost:
            raise
        except Exception as error:
            return self._failed(lease, error)
        finally:
            metrics.RECONCILE_SECONDS.labels(kind).observe(time.monotonic() - started)
        metrics.RECONCILES.labels(kind, "done").inc()
        log.log(
            # A plan that only says when to look again did nothing that anybody would look for.
            logging.DEBUG
            if all(isinstance(step, steps.Rest | steps.ComeBack) for step in plan.steps)
            else logging.INFO,
            "reconciled",
            extra={"key": lease.key, "why": plan.why, "ms": round((time.monotonic() - started) * 1000, 1)},
        )
        if back is None:
            return Done()
        # A moment that is over already would wait in the table of due times for somebody to look.
        return ComeBack(back.timestamp()) if back > self._clock() else Again()

    def _unseen(self, lease: Lease, error: Exception) -> Outcome:
        """What cannot be seen cannot be decided on; a watch that is behind may have caught up at any moment."""
        if not isinstance(error, Stale):
            return self._failed(lease, error)
        metrics.RECONCILES.labels(lease.key.partition("/")[0], "Stale").inc()
        return Failed(str(error), within=AWAY)

    def _failed(self, lease: Lease, error: Exception) -> Outcome:
        """The key comes back with backoff. An error nobody foresaw is logged with its traceback."""
        kind = lease.key.partition("/")[0]
        metrics.RECONCILES.labels(kind, type(error).__name__).inc()
        if isinstance(error, ClusterError | Stale | UserError | TimeoutError):
            reason = str(error) or "the reconcile took too long"
            # Somebody else wrote or deleted in the same moment: that is everyday life, and decided on afresh.
            level = logging.INFO if isinstance(error, Conflict | NotFound) else logging.WARNING
            log.log(level, "a reconcile failed", extra={"key": lease.key, "error": reason})
        else:
            reason = f"{type(error).__name__}: {error}"
            log.error("a reconcile failed unexpectedly", extra={"key": lease.key}, exc_info=error)
        return Failed(
            reason[:500],
            after=error.retry_after if isinstance(error, ClusterError) else None,
            within=AWAY if isinstance(error, Unavailable | TimeoutError) else None,
        )


def _reading_of(entry: Entry | None, reading: Reading | None) -> Reading | None:
    """The reading, unless it is of a deleted object of the same name: what waited then was that object's to take."""
    if entry is None or entry.body is None or reading is None or not reading.uid:
        return reading
    return reading if reading.uid == entry.body["metadata"]["uid"] else None


def _relative(ref: Ref, entry: Entry | None, observed: Observed, seen: int) -> Object | None:
    """The relative's body, or None if it does not exist. seen: when the object itself came in (microseconds).

    Raises Stale for one that was never seen while its kind's informer is behind that moment: it may have been there
    first.
    """
    if entry is not None:
        return entry.body
    age = observed.ages[ref.kind.id]
    if age is None or observed.now - age * 1e6 < seen:
        raise Stale(f"{ref} is not known, and may be soon")
    return None
