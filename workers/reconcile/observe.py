"""Observing: what the decisions on a batch of keys must see, in a handful of round trips for all of them together."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from scheduler.queue import Lease
from workers.api import kinds
from workers.api.kinds import Kind, Object, Ref
from workers.api.references import REFERENCES
from workers.cache import codec
from workers.cache.freshness import require_fresh
from workers.cache.store import Observation, Observations, ObserveRequest, Store
from workers.client.scale import Scales
from workers.errors import Stale
from workers.handoff.readings import Readings
from workers.reconcile.controller import Controller
from workers.reconcile.snapshot import CachedObject, Reading, Scalable, Snapshot

log = logging.getLogger(__name__)

T = TypeVar("T")


class Observer:
    """Sees what these controllers must see.

    controllers: by kind id. stale: seconds of silence after which a kind's store is no longer believed. scales: reads
    the workloads that objects scale; without it no decision is shown any.
    """

    def __init__(
        self,
        *,
        controllers: Mapping[str, Controller],
        store: Store,
        readings: Readings,
        stale: float,
        scales: Scales | None = None,
    ) -> None:
        self.controllers = controllers
        self.store = store
        self.readings = readings
        self.stale = stale
        self.scales = scales

    async def observe(self, leases: Sequence[Lease]) -> Mapping[Lease, Snapshot | Exception]:
        """A snapshot of every object that a controller takes care of, or why there is none.

        Stale stands for an object whose decision must see a kind that is not followed closely enough to be believed;
        any other error is one that its controller raised when it was asked what it must see. Keys without an answer
        need no decision: their objects are somebody else's, or gone without leaving anything behind.
        """
        refs = {}
        for lease in leases:
            try:
                ref = kinds.parse_key(lease.key)
            except ValueError:
                log.warning("a key that names no object was dropped", extra={"key": lease.key})
                continue
            if ref.kind.id in self.controllers:
                refs[lease] = ref
        return await _ObserveBatch(self).take(refs) if refs else {}


@dataclass(eq=False, slots=True)
class _Observation:
    """One object that a controller takes care of, as far as it was seen. error: why it cannot be decided on."""

    lease: Lease
    ref: Ref
    controller: Controller
    found: Observation
    body: Object | None
    grandchildren: dict[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    relatives: dict[Ref, Object | None] = field(default_factory=dict)
    scale: Scalable | None = None
    cluster_wide: dict[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    peers: tuple[CachedObject, ...] = ()
    reading: Reading | None = None
    error: Exception | None = None

    def snapshot(self, at: int) -> Snapshot:
        """What the decision sees. at: when it was observed (microseconds, broker's clock)."""
        return Snapshot(
            ref=self.ref,
            body=self.body,
            children={**self.found.children, **self.grandchildren},
            unowned=self.found.unowned,
            referrers=self.found.referrers,
            cluster_wide=self.cluster_wide,
            peers=self.peers,
            relatives=self.relatives,
            scale=self.scale,
            reading=self.reading,
            failures=self.lease.failures,
            last_error=self.lease.reason,
            at=at,
        )


class _ObserveBatch:
    """One look at one batch. Only what some decision asks for costs a round trip of its own."""

    def __init__(self, observer: Observer) -> None:
        self._controllers = observer.controllers
        self._store = observer.store
        self._readings = observer.readings
        self._stale = observer.stale
        self._scales = observer.scales
        self._sights: list[_Observation] = []

    async def take(self, refs: Mapping[Lease, Ref]) -> Mapping[Lease, Snapshot | Exception]:
        """What `Observer.observe` answers for these objects."""
        requests = []
        for ref in refs.values():
            of = self._controllers[ref.kind.id]
            requests.append(ObserveRequest(ref, of.children, of.adopts, of.referrers))
        observed = await self._store.observe(requests)
        answers = self._sort(refs, observed)
        await self._see_grandchildren()
        await self._see_relatives()
        await self._see_scales()
        await self._see_everywhere()
        await self._see_peers()
        await self._see_readings()
        return answers | {sight.lease: sight.error or sight.snapshot(observed.now) for sight in self._sights}

    def _sort(self, refs: Mapping[Lease, Ref], observed: Observations) -> dict[Lease, Snapshot | Exception]:
        """Keep what needs a decision in sight; answers what cannot have one, and why."""
        unseen: dict[Lease, Snapshot | Exception] = {}
        stale = self._stale_kinds({ref.kind for ref in refs.values()}, observed)
        for (lease, ref), found in zip(refs.items(), observed.observations, strict=True):
            if ref.kind in stale:
                unseen[lease] = stale[ref.kind]
                continue
            controller, body = self._controllers[ref.kind.id], found.entry.body if found.entry else None
            try:
                # The one time that the controller is asked whether the object is its own.
                ours = _left_something(found) if body is None else controller.accepts(body)
            except Exception as error:
                unseen[lease] = error
                continue
            if ours:
                self._sights.append(_Observation(lease, ref, controller, found, body))
        if stale:
            reasons = "; ".join(map(str, stale.values()))
            log.warning("not decided on", extra={"keys": len(unseen), "error": reasons})
        return unseen

    def _stale_kinds(self, of: Iterable[Kind], observed: Observations) -> dict[Kind, Stale]:
        """Those of these kinds that cannot be decided on, and why; a slow watch stops no other kind."""
        stale = {}
        for kind in of:
            controller = self._controllers[kind.id]
            try:
                observed.require_fresh(
                    (kind, *controller.children, *controller.adopts, *controller.referrers), self._stale
                )
            except Stale as error:
                stale[kind] = error
        return stale

    async def _see_grandchildren(self) -> None:
        """What the children own, for the objects whose decisions ask for it."""
        wanted: list[tuple[_Observation, Kind, str]] = []
        for sight, grown_kinds in self._ask(lambda controller, body: controller.grandchildren(body)):
            children = [child.body for entries in sight.found.children.values() for child in entries]
            for kind in grown_kinds:
                wanted += [(sight, kind, child["metadata"]["uid"]) for child in children if child is not None]
        if not wanted:
            return
        try:
            answers = await self._store.children_many([(kind, uid) for _, kind, uid in wanted], limit=self._stale)
        except Stale as error:
            for sight, _, _ in wanted:
                sight.error = error
            return
        for (sight, kind, _), entries in zip(wanted, answers, strict=True):
            sight.grandchildren[kind.id] = (*sight.grandchildren.get(kind.id, ()), *entries)

    async def _see_relatives(self) -> None:
        """The other objects that decisions ask for."""
        asked = self._ask(lambda controller, body: controller.relatives(body))
        optional_relatives = self._ask(lambda controller, body: controller.optional_relatives(body))
        wanted = list(dict.fromkeys(ref for each in (asked, optional_relatives) for _, refs in each for ref in refs))
        if not wanted:
            return
        observed = await self._store.observe([ObserveRequest(ref) for ref in wanted])
        entries = {ref: one.entry for ref, one in zip(wanted, observed.observations, strict=True)}
        for sight, refs in optional_relatives:
            sight.relatives = {ref: entry.body if (entry := entries[ref]) else None for ref in refs}
        for sight, refs in asked:
            assert sight.found.entry is not None
            seen = sight.found.entry.seen
            try:
                observed.require_fresh((ref.kind for ref in refs), self._stale)
                sight.relatives |= {ref: _relative(ref, entries[ref], observed, seen) for ref in refs}
            except Stale as error:
                sight.error = error

    async def _see_scales(self) -> None:
        """The workloads that these objects scale, as they are now; what cannot be read says so in its place."""
        asked = self._ask(lambda controller, body: (target,) if (target := controller.scales(body)) else ())
        if self._scales is None:
            return
        read = [self._scales.read(sight.ref.namespace, target) for sight, (target,) in asked]
        for (sight, _), scale in zip(asked, await asyncio.gather(*read), strict=True):
            sight.scale = scale

    async def _see_everywhere(self) -> None:
        """All objects of the kinds that decisions must see whole, read once for all who ask."""
        asked = self._ask(
            lambda controller, body: controller.cluster_wide if controller.reads_cluster_wide(body) else ()
        )
        wanted = dict.fromkeys(kind for _, whole in asked for kind in whole)
        if not wanted:
            return
        ages = await self._store.freshness(wanted)
        read = {kind.id: tuple([entry async for entry in self._store.scan(kind)]) for kind in wanted}
        for sight, whole in asked:
            try:
                require_fresh(ages, whole, self._stale)
                sight.cluster_wide = {kind.id: read[kind.id] for kind in whole}
            except Stale as error:
                sight.error = error

    async def _see_peers(self) -> None:
        """The others that name what these objects name."""
        asked = self._ask(lambda controller, body: (REFERENCES[controller.kind.id](body),) if controller.peers else ())
        wanted = [(sight, named) for sight, (named,) in asked if named is not None]
        if not wanted:
            return
        answers = await self._store.children_many(
            [(sight.ref.kind, codec.naming(named.key)) for sight, named in wanted]
        )
        for (sight, _), entries in zip(wanted, answers, strict=True):
            sight.peers = tuple(entry for entry in entries if entry.ref != sight.ref and not entry.gone)

    async def _see_readings(self) -> None:
        """What the triggers of these objects last measured, for the kinds that are polled."""
        polled = [sight for sight in self._sights if sight.controller.polled]
        if not polled:
            return
        readings = await self._readings.get_many([sight.lease.key for sight in polled])
        for sight, reading in zip(polled, readings, strict=True):
            sight.reading = _reading_of(sight.body, reading)

    def _ask(self, question: Callable[[Controller, Object], tuple[T, ...]]) -> list[tuple[_Observation, tuple[T, ...]]]:
        """What controllers must see beside their objects and children; who cannot answer is not decided on."""
        answers: list[tuple[_Observation, tuple[T, ...]]] = []
        for sight in self._sights:
            if sight.body is None or sight.error is not None:
                continue
            try:
                if answer := question(sight.controller, sight.body):
                    answers.append((sight, answer))
            except Exception as error:
                sight.error = error
        return answers


def _left_something(found: Observation) -> bool:
    """Whether an object that is gone has children that are not."""
    return any(not child.gone for children in found.children.values() for child in children)


def _reading_of(body: Object | None, reading: Reading | None) -> Reading | None:
    """The reading, unless it is of a deleted object of the same name: what waited then was that object's to take."""
    if body is None or reading is None or not reading.uid:
        return reading
    return reading if reading.uid == body["metadata"]["uid"] else None


def _relative(ref: Ref, entry: CachedObject | None, observed: Observations, seen: int) -> Object | None:
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
