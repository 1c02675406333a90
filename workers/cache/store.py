"""The store: the cluster's objects as far as we watch them, shared by all workers, in the broker.

One informer per kind fills it; whatever a worker itself creates, changes or deletes is written through before it
decides again. The later version of an object always wins, whoever brings it when, and in the same script the keys it
concerns are marked in the work queue: nothing can die between the two. docs/cache.md tells the whole story.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from scheduler.scripts import Arg, Script, load
from workers.api.kinds import Kind, Object, Ref
from workers.cache import codec
from workers.cache.codec import ObjectVersion
from workers.cache.decode_cache import DecodeCache
from workers.cache.freshness import Ages, age, older, require_fresh
from workers.errors import PenstockError
from workers.reconcile.snapshot import CachedObject

__all__ = [
    "LeadershipLost",
    "Listing",
    "ObjectVersion",
    "Observation",
    "Observations",
    "ObserveRequest",
    "Store",
    "StoreKeys",
    "StoreLost",
]

#: Changes one script call takes in, and objects one step of a sweep looks at: some milliseconds of the broker's time.
BATCH = 200
#: Bytes of objects one answer carries, about.
ANSWER = 8 << 20
#: Seconds a deleted object is remembered: longer than any echo of it can take.
TOMBSTONE = 600.0

_SCRIPTS = {name: Script(load("workers", name)) for name in ("apply", "begin", "absent", "touch", "observe")}
#: What is read at once: a field of the hash (or ``=<uid>``: only the children), its kind, the kinds of its children.
_Wanted = tuple[str, Kind, tuple[Kind, ...]]


class LeadershipLost(PenstockError):  # noqa: N818 - what happened, not what broke
    """Another informer, of a later epoch, leads this kind: stop writing."""


class StoreLost(PenstockError):  # noqa: N818
    """The store no longer knows this informer (the broker was flushed): list everything again."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A relist that is under way."""

    kind: Kind
    epoch: int
    id: str


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """What to observe: an object, of these kinds its children, of those what nobody controls in its namespace.

    tied: kinds whose objects may name it without being owned by it.
    """

    ref: Ref
    children: tuple[Kind, ...] = ()
    unowned: tuple[Kind, ...] = ()
    referrers: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """An object (None: the store does not know it) and, by kind id, its children, tombstones included.

    loose: by kind id, the living objects of its namespace that nobody controls. tied: by kind id, the living objects
    that name it.
    """

    entry: CachedObject | None
    children: Mapping[str, tuple[CachedObject, ...]]
    unowned: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    referrers: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observations:
    """Answers to requests, in order, and how fresh every kind in them was just before.

    now: microseconds, broker's clock. ages: as `workers.cache.freshness` has them.
    """

    now: int
    ages: Ages
    observations: tuple[Observation, ...]

    def require_fresh(self, kinds: Iterable[Kind], limit: float) -> None:
        """Raises `errors.Stale` naming the first kind whose age is unknown or above `limit` seconds."""
        require_fresh(self.ages, kinds, limit)


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """The store's keys in the broker; workers/lua says what each holds."""

    keys: Keys

    @property
    def freshness(self) -> str:
        """HASH kind id -> how far its informer is."""
        return f"{self.keys.tag}:freshness"

    def objects(self, kind_id: str) -> str:
        """HASH <namespace>/<name> -> the object."""
        return f"{self.keys.tag}:objects:{kind_id}"

    def owners(self, kind_id: str) -> str:
        """ZSET, all scores 0: '<owner uid> <namespace>/<name>': children, what nobody controls, what names others."""
        return f"{self.keys.tag}:owners:{kind_id}"

    def gone(self, kind_id: str) -> str:
        """ZSET of tombstones by the time of their deletion."""
        return f"{self.keys.tag}:gone:{kind_id}"

    def listed(self, kind_id: str) -> str:
        """SET of what the listing that is under way has named so far."""
        return f"{self.keys.tag}:listed:{kind_id}"


class Store:
    """The store in one broker.

    client: it must answer bytes. lanes_of: by kind id, the lanes that objects of this kind have keys in: the first
    hears of every version that moved (also of its children), further ones only when an object comes, goes, or its
    generation or annotations change. accepts: by kind id, whether an object is one we reconcile at all (default:
    yes); others mark nothing. adopted: ids of the kinds whose objects that nobody controls can be asked for. ties: by
    kind id, whom an object names; of other kinds nobody can ask. clock: replaces the broker's clock, microseconds; for
    tests only.

    Every method raises redis.exceptions.RedisError when the broker refuses or cannot be reached; repeating is safe.
    """

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        lanes_of: Mapping[str, tuple[Lane, ...]],
        *,
        accepts: Mapping[str, Callable[[Object], bool]] | None = None,
        adopted: Collection[str] = (),
        references: Mapping[str, Callable[[Object], Ref | None]] | None = None,
        tombstone: float = TOMBSTONE,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.keys = StoreKeys(keys)
        self._client = client
        self._watched = {kind: lanes for kind, lanes in lanes_of.items() if lanes}
        self._accepts = dict(accepts or {})
        self._adopted = frozenset(adopted)
        self._ties = dict(references or {})
        self._tombstone = round(tombstone * 1e6)
        self._clock = clock
        self._recall = DecodeCache()
        lanes = {lane.name: lane for lanes in self._watched.values() for lane in lanes}
        kinds = ";".join(f"{kind}={','.join(lane.name for lane in lanes)}" for kind, lanes in self._watched.items())
        self._routes = f"{kinds}|{';'.join(f'{lane.name}:{lane.slots}' for lane in lanes.values())}"
        self._route_keys = [self.keys.objects(kind) for kind in self._watched]
        for lane in lanes.values():
            self._route_keys += lane.keys.all()

    # Writing

    async def apply(
        self,
        kind: Kind,
        changes: Sequence[ObjectVersion],
        *,
        acting: str | None = None,
        epoch: int | None = None,
        listing: Listing | None = None,
    ) -> Mapping[str, int]:
        """Takes changes of one kind in; those that are no news do nothing. Answers bells to ring, by lane.

        acting: the key that is being reconciled right now: it is not marked for what its own plan did. epoch: given
        by informers, and checked (`LeadershipLost`, `StoreLost`); a worker's write-through has none.
        listing: these objects
        are a page of it: all of them mark their keys, news or not. Of kinds that are never kept nothing is taken in.
        """
        if kind.id in codec.NEVER_KEPT:
            return {}
        notifications: dict[str, int] = {}
        number = listing.epoch if listing else epoch
        watched, adopted, refers_to = self._is_watched(kind), kind.id in self._adopted, self._ties.get(kind.id)
        for first in range(0, len(changes), BATCH):
            args: list[Arg] = [self._now(), kind.id, self._routes, acting or ""]
            args += ["" if number is None else number, listing.id if listing else ""]
            for change in changes[first : first + BATCH]:
                args += codec.arguments(kind, change, watched, adopted=adopted, refers_to=refers_to)
            answer = _accepted(kind, await _SCRIPTS["apply"](self._client, self._writing(kind), args))
            _notify(notifications, answer[2])
        return notifications

    async def begin(self, kind: Kind, epoch: int) -> Listing:
        """Begins a relist. Informers of earlier epochs can write no more. Raises `LeadershipLost` in such an informer.

        Raises ValueError for a kind that is never kept: what is not taken in would look as if it did not exist.
        """
        if kind.id in codec.NEVER_KEPT:
            raise ValueError(f"{kind.id} are not kept in the store, and cannot be followed")
        args: list[Arg] = [self._now(), kind.id, epoch]
        keys = [self.keys.freshness, self.keys.listed(kind.id)]
        answer = _accepted(kind, await _SCRIPTS["begin"](self._client, keys, args))
        return Listing(kind, epoch, answer[2].decode())

    async def finish(self, listing: Listing, versions: Mapping[str, str]) -> Mapping[str, int]:
        """Ends a relist whose pages were all applied: what was not in them and is no newer is gone. Answers bells.

        versions: by namespace ("" for all), the resourceVersion of its list. Objects of other namespaces are gone.
        """
        notifications: dict[str, int] = {}
        cursor = b"0"
        pairs: list[Arg] = [part for pair in versions.items() for part in pair]
        while True:
            args: list[Arg] = [self._now(), listing.kind.id, self._routes, listing.epoch, listing.id, cursor, BATCH]
            answer = await _SCRIPTS["absent"](self._client, self._writing(listing.kind), args + pairs)
            _, cursor, settled = _accepted(listing.kind, answer)
            _notify(notifications, settled)
            if cursor == b"0":
                return notifications

    async def epoch(self, kind: Kind) -> int:
        """The epoch of the informer that may write, 0 if there was none yet."""
        value: Any = await self._client.hget(self.keys.freshness, kind.id)
        return int(value.split(b" ")[1]) if value else 0

    async def touch(self, kind: Kind, epoch: int, fresh: int | None) -> int:
        """Says that everything before `fresh` (microseconds, broker's clock; None: nothing) is in. Answers now."""
        args: list[Arg] = [self._now(), kind.id, epoch, "" if fresh is None else fresh, self._tombstone]
        keys = [self.keys.freshness, *self._tables(kind)]
        return int(_accepted(kind, await _SCRIPTS["touch"](self._client, keys, args))[1])

    # Reading

    async def get(self, ref: Ref) -> CachedObject | None:
        """The object, its tombstone, or None if the store does not know it."""
        return (await self.get_many([ref]))[0]

    async def get_many(self, refs: Sequence[Ref]) -> list[CachedObject | None]:
        """As `get`, in one round trip."""
        pipeline = self._client.pipeline(transaction=False)
        for ref in refs:
            pipeline.hget(self.keys.objects(ref.kind.id), codec.field(ref))
        return [codec.entry(ref, value) for ref, value in zip(refs, await pipeline.execute(), strict=True)]

    async def children(self, kind: Kind, owner_uid: str) -> tuple[CachedObject, ...]:
        """The objects of this kind whose controller has this uid, tombstones included."""
        return (await self.children_many([(kind, owner_uid)]))[0]

    async def children_many(
        self, owners: Sequence[tuple[Kind, str]], *, limit: float | None = None
    ) -> list[tuple[CachedObject, ...]]:
        """As `children`, for many (kind of children, owner's uid); one round trip for as many as fit one answer.

        Raises `errors.Stale` if `limit` is given and one of the kinds is older (seconds) or not known at all.
        """
        _, ages, answers = await self._observe([(f"={uid}", kind, (kind,)) for kind, uid in owners])
        if limit is not None:
            require_fresh(ages, (kind for kind, _ in owners), limit)
        return [answer.children[kind.id] for answer, (kind, _) in zip(answers, owners, strict=True)]

    async def observe(self, requests: Sequence[ObserveRequest]) -> Observations:
        """Reads a batch of objects with all that was asked for; one round trip for as many as fit one answer.

        What nobody controls is read once for all requests of one namespace.
        """
        wanted = [(codec.field(request.ref), request.ref.kind, request.children) for request in requests]
        places = list(dict.fromkeys((kind, of.ref.namespace) for of in requests for kind in of.unowned))
        wanted += [(f"={codec.nobody(namespace)}", kind, (kind,)) for kind, namespace in places]
        wanted += [(f"={codec.naming(of.ref.key)}", kind, (kind,)) for of in requests for kind in of.referrers]
        now, ages, found = await self._observe(wanted)
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
            for of, answer in zip(requests, own, strict=True)
        )
        return Observations(now, ages, tuple(observations))

    async def scan(self, kind: Kind) -> AsyncIterator[CachedObject]:
        """All live objects of a kind, in no order, each once unless it is deleted and made again meanwhile."""
        seen: set[bytes] = set()
        async for name, value in self._client.hscan_iter(self.keys.objects(kind.id), count=BATCH):
            if name not in seen and (entry := codec.entry(codec.ref(kind, name), value)) and not entry.gone:
                seen.add(name)
                yield entry

    async def freshness(self, kinds: Iterable[Kind]) -> Ages:
        """By kind id: how many seconds of what happened may be missing; None when nothing is known."""
        return (await self._observe([], kinds))[1]

    async def require_fresh(self, kinds: Sequence[Kind], limit: float) -> None:
        """Raises `errors.Stale` naming the first kind whose age is unknown or above `limit` seconds."""
        require_fresh(await self.freshness(kinds), kinds, limit)

    async def _observe(
        self, wanted: Sequence[_Wanted], more: Iterable[Kind] = ()
    ) -> tuple[int, dict[str, float | None], list[Observation]]:
        kinds = {kind.id: kind for _, kind, children in wanted for kind in (kind, *children)}
        kinds |= {kind.id: kind for kind in more}
        index = {kind_id: position for position, kind_id in enumerate(kinds, start=1)}
        keys = [self.keys.freshness]
        for kind_id in kinds:
            keys += [self.keys.objects(kind_id), self.keys.owners(kind_id)]
        answers: list[Observation] = []
        now = 0
        ages: dict[str, float | None] = dict.fromkeys(kinds, 0.0)
        while kinds and (len(answers) < len(wanted) or not now):
            args: list[Arg] = [self._now(), ANSWER, len(kinds), *kinds]
            for what, kind, children in wanted[len(answers) :]:
                args += [what, index[kind.id], len(children), *(index[child.id] for child in children)]
            moment, fresh, found = await _SCRIPTS["observe"](self._client, keys, args)
            now = now or int(moment)
            for kind_id, value in zip(kinds, fresh, strict=True):
                ages[kind_id] = older(ages[kind_id], age(value, int(moment)))
            for answer in found:
                answers.append(self._observation(wanted[len(answers)], answer))
        return now, ages, answers

    def _observation(self, wanted: _Wanted, answer: Sequence[Any]) -> Observation:
        what, kind, children = wanted
        found = {
            child.id: tuple(
                entry
                for name, value in zip(flat[0::2], flat[1::2], strict=True)
                if (entry := self._recall.entry(child, name, value))
            )
            for child, flat in zip(children, answer[1:], strict=True)
        }
        return Observation(self._recall.entry(kind, what.encode(), answer[0]), found)

    def _now(self) -> Arg:
        return self._clock() if self._clock else ""

    def _tables(self, kind: Kind) -> list[str]:
        return [self.keys.objects(kind.id), self.keys.owners(kind.id), self.keys.gone(kind.id)]

    def _writing(self, kind: Kind) -> list[str]:
        return [self.keys.freshness, self.keys.listed(kind.id), *self._tables(kind), *self._route_keys]

    def _is_watched(self, kind: Kind) -> Callable[[Object], bool]:
        if kind.id not in self._watched:
            return _nothing
        return self._accepts.get(kind.id, _everything)


def _everything(_body: Object) -> bool:
    return True


def _nothing(_body: Object) -> bool:
    return False


def _accepted(kind: Kind, answer: Sequence[Any]) -> Sequence[Any]:
    """A script's answer, unless it refused to do anything for this informer."""
    if answer[0] == b"deposed":
        raise LeadershipLost(f"another informer leads {kind.id}")
    if answer[0] == b"lost":
        raise StoreLost(f"the store of {kind.id} has to be filled again")
    return answer


def _notify(notifications: dict[str, int], settled: Sequence[Any]) -> None:
    """Adds up what the settled lanes ask for: {moved, name, bells, name, bells, ...}."""
    for name, count in zip(settled[1::2], settled[2::2], strict=True):
        if count:
            notifications[name.decode()] = notifications.get(name.decode(), 0) + count
