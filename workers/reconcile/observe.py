"""The observer: reads the snapshots for a batch of keys in a handful of round trips."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeVar

from scheduler.queue import Lease
from workers.api import kinds, statuses
from workers.api.kinds import Kind, Object, Ref
from workers.api.references import REFERENCES
from workers.cache import codec
from workers.cache.observations import Observation, Observations, ObserveRequest
from workers.cache.staleness import require_fresh
from workers.cache.store import Store
from workers.client.scale_client import Scales
from workers.decision.claims import ClaimOrder, always_has_ledger
from workers.decision.controller import Controller
from workers.decision.snapshot import CachedObject, Reading, Scalable, Snapshot
from workers.errors import Stale
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.newest_entries import TurnCache

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Microseconds by which an entry may have been stored after its observation began: that takes several round trips. What
#: lies further ahead was stored before the broker's clock was set back.
AHEAD = 60_000_000

#: Objects whose relatives a process remembers.
REMEMBERED = 10_000


class Observer:
    """Reads what these controllers ask for.

    controllers: by kind id. stale: age in seconds at which a kind is too old to decide on. scales: reads the workloads
    that objects scale; without it `Snapshot.scale` stays None. orders: of claims; without it `Snapshot.order` does.
    """

    def __init__(
        self,
        *,
        controllers: Mapping[str, Controller],
        store: Store,
        readings: Readings,
        stale: float,
        scales: Scales | None = None,
        orders: ClaimOrders | None = None,
    ) -> None:
        self.controllers = controllers
        self.store = store
        self.readings = readings
        self.stale = stale
        self.scales = scales
        self.orders = orders
        #: The relatives of an object's last observation: they seldom change, and are read together with it.
        self.relatives: TurnCache[Ref, tuple[Ref, ...]] = TurnCache(REMEMBERED)

    async def observe(self, leases: Sequence[Lease]) -> Mapping[Lease, Snapshot | Exception]:
        """Returns a snapshot, or an error, for every object that a controller reconciles.

        Stale: the decision needs a kind that is too old. Any other error was raised by the controller's own functions.
        Keys without an entry need no decision: their objects are not ours, or deleted without children.
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
    """One object under observation. error: the reason why it cannot be decided on."""

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
    order: ClaimOrder | None = None
    error: Exception | None = None

    def snapshot(self, at: int) -> Snapshot:
        """Returns the snapshot. at: when it was observed (microseconds, broker's clock)."""
        children = {**self.found.children, **self.grandchildren}
        if self.reading is not None and self.reading.started <= at:
            children = {kind_id: _before_set_back(entries, at) for kind_id, entries in children.items()}
        return Snapshot(
            ref=self.ref,
            body=self.body,
            children=children,
            unowned=self.found.unowned,
            referrers=self.found.referrers,
            cluster_wide=self.cluster_wide,
            peers=self.peers,
            relatives=self.relatives,
            scale=self.scale,
            reading=self.reading,
            order=self.order,
            failures=self.lease.failures,
            last_error=self.lease.reason,
            at=at,
        )


class _ObserveBatch:
    """The observation of one batch.

    Each further read costs one round trip, and only if a controller asks for it. Relatives cost none while they are
    those of the last observation.
    """

    def __init__(self, observer: Observer) -> None:
        self._controllers = observer.controllers
        self._store = observer.store
        self._readings = observer.readings
        self._stale = observer.stale
        self._scales = observer.scales
        self._orders = observer.orders
        self._relatives = observer.relatives
        # What was read of relatives, with the observation that it is of.
        self._related: dict[Ref, tuple[CachedObject | None, Observations]] = {}
        self._observed: list[_Observation] = []
        # To be proved fresh, because a worker died.
        self._unproved: set[Kind] = set()

    async def take(self, refs: Mapping[Lease, Ref]) -> Mapping[Lease, Snapshot | Exception]:
        """Returns the answer of `Observer.observe`."""
        requests = []
        for ref in refs.values():
            of = self._controllers[ref.kind.id]
            requests.append(ObserveRequest(ref, of.children, of.adopts, of.referrers))
        related = list(dict.fromkeys(each for ref in refs.values() for each in self._relatives.used(ref) or ()))
        observed = await self._store.observe([*requests, *map(ObserveRequest, related)])
        self._note_relatives(related, observed, observed.observations[len(requests) :])
        answers = self._sort(refs, observed)
        if self._unproved:
            await self._store.ask_for_proof(self._unproved)
        await self._read_grandchildren()
        # All after the children, whose readings must not be older than they are; none depends on another.
        await asyncio.gather(self._read_relatives(), self._read_peers(), self._read_readings())
        await self._read_scales()
        await self._read_cluster_wide()
        return answers | {one.lease: one.error or one.snapshot(observed.now) for one in self._observed}

    def _sort(self, refs: Mapping[Lease, Ref], observed: Observations) -> dict[Lease, Snapshot | Exception]:
        """Collects the objects that need a decision. Returns the errors of those that cannot have one."""
        errors: dict[Lease, Snapshot | Exception] = {}
        stale = self._stale_kinds({ref.kind for ref in refs.values()}, observed)
        for (lease, ref), found in zip(refs.items(), observed.observations[: len(refs)], strict=True):
            if ref.kind in stale:
                errors[lease] = stale[ref.kind]
                continue
            controller, body = self._controllers[ref.kind.id], found.entry.body if found.entry else None
            try:
                # A deleted object is reconciled while children of it live: nothing else cleans them up.
                ours = _left_something(found) if body is None else controller.accepts(body)
            except Exception as error:
                errors[lease] = error
                continue
            if ours and (unseen := _unseen(lease, controller, observed)):
                errors[lease] = unseen
                self._unproved.update(controller.children)
            elif ours:
                self._observed.append(_Observation(lease, ref, controller, found, body and statuses.readable(body)))
        if stale:
            reasons = "; ".join(map(str, stale.values()))
            log.warning("not decided on", extra={"keys": len(errors), "error": reasons})
        return errors

    def _stale_kinds(self, of: Iterable[Kind], observed: Observations) -> dict[Kind, Stale]:
        """Returns the kinds that cannot be decided on; a slow watch stops no other kind."""
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

    async def _read_grandchildren(self) -> None:
        """Reads the children's children."""
        wanted: list[tuple[_Observation, Kind, str]] = []
        for one, grown_kinds in self._ask(lambda controller, body: controller.grandchildren(body)):
            children = [child.body for entries in one.found.children.values() for child in entries]
            for kind in grown_kinds:
                wanted += [(one, kind, child["metadata"]["uid"]) for child in children if child is not None]
        if not wanted:
            return
        try:
            answers = await self._store.children_many([(kind, uid) for _, kind, uid in wanted], limit=self._stale)
        except Stale as error:
            for one, _, _ in wanted:
                one.error = error
            return
        for (one, kind, _), entries in zip(wanted, answers, strict=True):
            one.grandchildren[kind.id] = (*one.grandchildren.get(kind.id, ()), *entries)

    async def _read_relatives(self) -> None:
        """Reads the relatives, optional and other."""
        asked = self._ask(lambda controller, body: controller.relatives(body))
        optional_relatives = self._ask(lambda controller, body: controller.optional_relatives(body))
        wanted = dict.fromkeys(ref for each in (asked, optional_relatives) for _, refs in each for ref in refs)
        if missing := [ref for ref in wanted if ref not in self._related]:
            observed = await self._store.observe(list(map(ObserveRequest, missing)))
            self._note_relatives(missing, observed, observed.observations)
        for one, refs in optional_relatives:
            one.relatives = {ref: entry.body if (entry := self._related[ref][0]) else None for ref in refs}
        for one, refs in asked:
            try:
                one.relatives |= {ref: self._relative(one, ref) for ref in refs}
            except Stale as error:
                one.error = error
        for one in self._observed:
            if one.relatives:
                self._relatives.keep(one.ref, tuple(one.relatives))
            else:
                self._relatives.pop(one.ref, None)

    def _note_relatives(self, refs: Sequence[Ref], observed: Observations, found: Sequence[Observation]) -> None:
        self._related |= {ref: (one.entry, observed) for ref, one in zip(refs, found, strict=True)}

    def _relative(self, one: _Observation, ref: Ref) -> Object | None:
        """Returns a relative's body, or None if it does not exist. Raises Stale for a kind that is too old."""
        entry, observed = self._related[ref]
        observed.require_fresh((ref.kind,), self._stale)
        assert one.found.entry is not None
        return _relative(ref, entry, observed, one.found.entry.seen)

    async def _read_scales(self) -> None:
        """Reads the scaled workloads; one that cannot be read becomes a `Scalable` with an error."""
        asked = self._ask(lambda controller, body: (target,) if (target := controller.scales(body)) else ())
        if self._scales is None:
            return
        read = [self._scales.read(one.ref.namespace, target) for one, (target,) in asked]
        for (one, _), scale in zip(asked, await asyncio.gather(*read), strict=True):
            one.scale = scale

    async def _read_cluster_wide(self) -> None:
        """Reads the kinds that are observed whole, once for all objects of the batch."""
        asked = self._ask(
            lambda controller, body: controller.cluster_wide if controller.reads_cluster_wide(body) else ()
        )
        wanted = dict.fromkeys(kind for _, whole in asked for kind in whole)
        if not wanted:
            return
        ages = await self._store.freshness(wanted)
        read = {kind.id: tuple([entry async for entry in self._store.scan(kind, again=True)]) for kind in wanted}
        for one, whole in asked:
            try:
                require_fresh(ages, whole, self._stale)
                one.cluster_wide = {kind.id: read[kind.id] for kind in whole}
            except Stale as error:
                one.error = error

    async def _read_peers(self) -> None:
        """Reads the objects that name the same objects as these."""
        asked = self._ask(lambda controller, body: (REFERENCES[controller.kind.id](body),) if controller.peers else ())
        wanted = [(one, kind, named) for one, (named,) in asked if named for kind in one.controller.peers]
        if not wanted:
            return
        answers = await self._store.children_many([(kind, codec.referrers_of(named.key)) for _, kind, named in wanted])
        for (one, _, _), entries in zip(wanted, answers, strict=True):
            one.peers += tuple(entry for entry in entries if entry.ref != one.ref and not entry.gone)

    async def _read_readings(self) -> None:
        """Reads the last readings of polled kinds."""
        asking = self._ask(
            lambda controller, body: (controller,) if controller.polled and controller.needs_reading(body) else ()
        )
        polled = [one for one, _ in asking]
        polled += [one for one in self._observed if one.controller.polled and one.body is None]
        if not polled:
            return
        # Of other objects the reading says whether they have a ledger. An order is put by the holder of the object's
        # lease alone, so that it is the same beside the reading and after it.
        certain = [one for one in polled if always_has_ledger(one.ref.kind)]
        readings, _ = await asyncio.gather(
            self._readings.get_many([one.lease.key for one in polled]), self._read_orders(certain)
        )
        for one, reading in zip(polled, readings, strict=True):
            one.reading = _reading_of(one.body, reading)
            if not (one.reading and one.reading.ledger):
                one.order = None
        await self._read_orders(
            [one for one in polled if one.reading and one.reading.ledger and not always_has_ledger(one.ref.kind)]
        )

    async def _read_orders(self, claiming: Sequence[_Observation]) -> None:
        if not self._orders or not claiming:
            return
        orders = await self._orders.get_many([one.lease.key for one in claiming])
        for one, order in zip(claiming, orders, strict=True):
            one.order = order

    def _ask(self, question: Callable[[Controller, Object], tuple[T, ...]]) -> list[tuple[_Observation, tuple[T, ...]]]:
        """Returns the objects with what their controllers ask for; a controller's error becomes its object's."""
        answers: list[tuple[_Observation, tuple[T, ...]]] = []
        for one in self._observed:
            if one.body is None or one.error is not None:
                continue
            try:
                if answer := question(one.controller, one.body):
                    answers.append((one, answer))
            except Exception as error:
                one.error = error
        return answers


def _unseen(lease: Lease, controller: Controller, observed: Observations) -> Stale | None:
    """Returns the error of a key whose last holder died, while the store may lack what that holder created.

    Jobs are named after the reading that asked for them, so a Job which the next reading does not see would be made
    twice. The names of all other children repeat.
    """
    if lease.expired is None or not controller.polled:
        return None
    since = (observed.now - lease.expired) / 1e6
    try:
        # A negative time: the broker's clock was set back, and says nothing.
        observed.require_fresh(controller.children, since if since >= 0 else inf)
    except Stale as error:
        return Stale(f"{error}; a worker that died may have changed them since")
    return None


def _before_set_back(entries: tuple[CachedObject, ...], at: int) -> tuple[CachedObject, ...]:
    """Returns the entries; those that were stored before the clock was set back are older than every moment since."""
    if all(entry.seen <= at + AHEAD for entry in entries):
        return entries
    return tuple(replace(entry, seen=0) if entry.seen > at + AHEAD else entry for entry in entries)


def _left_something(found: Observation) -> bool:
    return any(not child.gone for children in found.children.values() for child in children)


def _reading_of(body: Object | None, reading: Reading | None) -> Reading | None:
    # A reading of a deleted object of the same name counted that object's items.
    if body is None or reading is None or not reading.uid:
        return reading
    return reading if reading.uid == body["metadata"]["uid"] else None


def _relative(ref: Ref, entry: CachedObject | None, observed: Observations, seen: int) -> Object | None:
    """Returns the relative's body, or None if it does not exist. seen: when the object was stored (microseconds).

    Raises Stale if the store does not know the relative and its kind's reflector is behind that moment: the relative
    may have been created before the object.
    """
    if entry is not None:
        return entry.body
    age = observed.ages[ref.kind.id]
    # Of an object that was stored before the clock was set back all that is known of the kind is later.
    if age is None or observed.now - age * 1e6 < seen <= observed.now + AHEAD:
        raise Stale(f"{ref} is not known, and may be soon")
    return None
