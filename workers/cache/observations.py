"""Observations: objects as the store has them, with their children, and how old that may be.

A process sends what it has: the broker answers with what has changed since.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any

from redis.asyncio import Redis

from scheduler.scripts import Arg, Script, load
from workers.api.kinds import Kind, Ref
from workers.cache import codec
from workers.cache.decode_cache import Field, NotKept, Read
from workers.cache.known_children import ChildrenCache, KnownChildren
from workers.cache.staleness import Ages, age, older, require_fresh
from workers.cache.store_keys import StoreKeys
from workers.cache.stored_values import StoredValues
from workers.decision.snapshot import CachedObject

#: Bytes of objects one answer carries, about.
ANSWER = 8 << 20

_SCRIPT = Script(load("workers", "observe"), ours=True)
#: One read: a field of the hash (or ``=<uid>`` for the children only), its kind, the kinds of its children.
Wanted = tuple[str, Kind, tuple[Kind, ...]]


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """One object to observe.

    children: kinds of its children. unowned: kinds whose objects without a controller, in its namespace, are read too.
    referrers: kinds whose objects may name it without being owned by it.
    """

    ref: Ref
    children: tuple[Kind, ...] = ()
    unowned: tuple[Kind, ...] = ()
    referrers: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """An object (None: unknown to the store) and, by kind id, its children with tombstones.

    unowned: by kind id, the living objects of its namespace that have no controller. referrers: by kind id, the living
    objects that name it.
    """

    entry: CachedObject | None
    children: Mapping[str, tuple[CachedObject, ...]]
    unowned: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    referrers: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations in the order of the requests, and the age of every kind in them.

    now: microseconds, broker's clock. ages: as `workers.cache.staleness` has them.
    """

    now: int
    ages: Ages
    observations: tuple[Observation, ...]

    def require_fresh(self, kinds: Iterable[Kind], limit: float) -> None:
        """Raises `errors.Stale` naming the first kind whose age is unknown or above `limit` seconds."""
        require_fresh(self.ages, kinds, limit)


class ObservationReader:
    """Reads observations for one process. clock: replaces the broker's clock ('': its own), microseconds."""

    def __init__(self, client: Redis, keys: StoreKeys, values: StoredValues, clock: Callable[[], Arg]) -> None:
        self._client = client
        self._keys = keys
        self._values = values
        self._now = clock
        self._children = ChildrenCache()
        # The broker's clock in the last answer.
        self._last_now = 0

    async def observe(self, requests: Sequence[ObserveRequest]) -> Observations:
        """Reads a batch of objects with all that the requests name.

        One round trip per `ANSWER` bytes, and one more where values were dropped that were taken for kept.
        """
        wanted = [(codec.field(request.ref), request.ref.kind, request.children) for request in requests]
        # Unowned objects are read once for all requests of one namespace.
        places = list(dict.fromkeys((kind, of.ref.namespace) for of in requests for kind in of.unowned))
        wanted += [(f"={codec.unowned_in(namespace)}", kind, (kind,)) for kind, namespace in places]
        wanted += [(f"={codec.referrers_of(of.ref.key)}", kind, (kind,)) for of in requests for kind in of.referrers]
        now, ages, found = await self.read(wanted)
        answers = iter(found)
        own = [next(answers) for _ in requests]
        unowned = {
            (kind, namespace): tuple(entry for entry in next(answers).children[kind.id] if not entry.gone)
            for kind, namespace in places
        }
        observations = (
            replace(
                answer,
                unowned={kind.id: unowned[kind, of.ref.namespace] for kind in of.unowned},
                referrers={kind.id: next(answers).children[kind.id] for kind in of.referrers},
            )
            if of.unowned or of.referrers
            else answer
            for of, answer in zip(requests, own, strict=True)
        )
        return Observations(now, ages, tuple(observations))

    async def read(
        self, wanted: Sequence[Wanted], more: Iterable[Kind] = ()
    ) -> tuple[int, dict[str, float | None], list[Observation]]:
        """Returns this moment (µs, broker's clock), the age of each kind in it, and an observation per wanted object.

        more: kinds whose ages are asked for, too.
        """
        kinds = {kind.id: kind for _, kind, children in wanted for kind in (kind, *children)}
        kinds |= {kind.id: kind for kind in more}
        index = {kind_id: position for position, kind_id in enumerate(kinds, start=1)}
        keys = [self._keys.keys.generation, self._keys.freshness]
        for kind_id in kinds:
            keys += [self._keys.objects(kind_id), self._keys.owners(kind_id), self._keys.child_log(kind_id)]
        answers: dict[int, Observation] = {}
        unreadable: set[str] = set()
        now = 0
        ages: dict[str, float | None] = dict.fromkeys(kinds, 0.0)
        reads: list[Read] = [(what, kind.id, *(child.id for child in children)) for what, kind, children in wanted]
        left = list(range(len(reads)))
        while kinds and (left or not now):
            # As they were when it was asked: meanwhile another call may make the cache forget them.
            asked = [reads[place] for place in left]
            moments = [self._values.decoded.moment(read) for read in asked]
            before = [self._children.known(read, read[2:], self._last_now) for read in asked]
            args = _asking(asked, moments, before, index)
            moment, fresh, found = await _SCRIPT(self._client, keys, [self._now(), ANSWER, len(kinds), *kinds, *args])
            now = now or int(moment)
            self._last_now = int(moment)
            for kind_id, value in zip(kinds, fresh, strict=True):
                ages[kind_id] = older(ages[kind_id], age(value, int(moment)))
            done = len(found)
            for number, (place, answer) in enumerate(zip(left, found, strict=False)):
                read, heads = reads[place], moments[number] is not None
                try:
                    answers[place] = self._observation(
                        wanted[place], read, answer, before[number], heads=heads, now=int(moment)
                    )
                except NotKept:
                    # All of it is read again, and what follows with it: later than it, as it was asked.
                    self._values.decoded.forget(read)
                    self._children.forget(read, *read[2:])
                    done = min(done, number)
            left = left[done:]
            # At once: another call would take them for its own.
            unreadable |= await self._values.set_unreadable_aside()
        # What cannot be read makes its kind unknown: an object that is left out must not look deleted.
        ages |= dict.fromkeys(unreadable, None)
        return now, ages, [answers[place] for place in range(len(wanted))]

    def _observation(
        self,
        wanted: Wanted,
        read: Read,
        answer: Sequence[Any],
        known: Mapping[str, KnownChildren],
        *,
        heads: bool,
        now: int,
    ) -> Observation:
        what, kind, children = wanted
        found: dict[str, tuple[CachedObject, ...]] = {}
        first: Field | None = None
        sizes: list[int] = []
        for child, (mark, number, *flat) in zip(children, answer[1:], strict=True):
            names, values = flat[0::2], flat[1::2]
            if number == b"" and not flat:
                # Of most kinds an object has no children.
                found[child.id] = ()
                continue
            if number == b"":
                entries = found[child.id] = self._values.entries(child, names, values, heads=heads)
                # All of them could be read.
                if mark and len(entries) == len(names):
                    by_field = dict(zip(names, entries, strict=True))
                    size = self._values.decoded.size(child, names, values)
                    self._children.keep(read, child.id, KnownChildren(mark, by_field, size, now))
            else:
                of = known[child.id].changed(mark, number, flat, partial(self._values.entry, child))
                self._children.keep(read, child.id, of)
                found[child.id] = tuple(of.entries.values())
            # One that left has no value.
            if first is None and (name := next(compress(names, values), None)):
                first = child.id, name
            sizes += codec.sizes(values)
        own: tuple[CachedObject, ...] = ()
        if (value := answer[0]) is not None:
            name = what.encode()
            own = self._values.entries(kind, [name], [value], heads=heads)
            first = first or (kind.id, name)
            sizes.append(codec.size(value))
        self._values.decoded.was_read(read, first, sizes, now)
        return Observation(own[0] if own else None, found)


def _asking(
    asked: Sequence[Read],
    moments: Sequence[int | None],
    before: Sequence[Mapping[str, KnownChildren]],
    index: Mapping[str, int],
) -> list[Arg]:
    """Returns the script's arguments about these reads. moments, before: what is known of each. index: of each kind."""
    args: list[Arg] = []
    for read, since, known in zip(asked, moments, before, strict=True):
        args += [read[0], since or "", index[read[1]], len(read) - 2]
        for child in read[2:]:
            args += [index[child], *((of.mark, len(of.entries)) if (of := known.get(child)) else ("", 0))]
    return args
