"""The indexed store of cluster objects, in the broker, shared by all workers (docs/cache.md).

One reflector per kind fills it, and workers write their own effects through. The later version of an object wins in any
order of arrival. The script that stores a version also marks the keys it concerns in the work queue: a process that
dies leaves both done or neither.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from scheduler.broker.fast_path import together
from scheduler.keys import Keys
from scheduler.queue import Lane
from scheduler.scripts import Arg, Script, load, readable
from workers.api.kinds import Kind, Object, Ref
from workers.cache import codec
from workers.cache.codec import ObjectVersion
from workers.cache.decode_cache import SIZE
from workers.cache.observations import ObservationReader, Observations, ObserveRequest
from workers.cache.staleness import Ages, require_fresh
from workers.cache.store_keys import StoreKeys
from workers.cache.stored_values import StoredValues
from workers.decision.snapshot import CachedObject
from workers.errors import PenstockError
from workers.runtime.batcher import Batcher

__all__ = [
    "Applied",
    "LeadershipLost",
    "Listing",
    "ObjectVersion",
    "Store",
    "StoreLost",
]

log = logging.getLogger(__name__)

#: Changes of one `apply` call, and objects of one `absent` call: some milliseconds of the broker's time.
BATCH = 200
#: Objects of a relist in one `apply` call. Nothing waits for a relist, and others wait for the broker meanwhile.
LISTED = 50
#: Bytes of values of a kind that one scan leaves to the next; the decoded objects take about five times as much.
SCANNED = 16 << 20
#: Seconds a tombstone is kept: longer than any late version of the object can be on its way.
TOMBSTONE = 600.0
#: Calls of the script in one `touch`. Each deletes up to a hundred old tombstones; clusters delete fewer than a
#: thousand objects of a kind in the second until the next.
DELETIONS = 10

_SCRIPTS = {name: Script(load("workers", name), ours=True) for name in ("apply", "begin", "absent", "touch", "changed")}
#: Effects of one plan: its key, and the versions that it made.
_Effects = tuple[str, Sequence[ObjectVersion]]
#: Keys and arguments of one call of a script.
_Call = tuple[Sequence[str], Sequence[Arg]]


class LeadershipLost(PenstockError):  # noqa: N818 - an event, not a failure
    """A reflector of a later epoch leads this kind: stop writing."""


class StoreLost(PenstockError):  # noqa: N818
    """The store does not have what reflectors wrote (the broker lost data, or may have): list everything again."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A relist in progress. begun: when, in microseconds on the broker's clock, above which its id may be."""

    kind: Kind
    epoch: int
    id: str
    begun: str

    @property
    def words(self) -> str:
        """Its id and beginning, as the scripts read them."""
        return f"{self.id} {self.begun}"


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of storing changes. awaited: how much of it decisions wait for. notifications: to send, by lane.

    awaited: keys that became ready, and changes of known objects that mark another object's key. 0: the store had it
    all, or no decision waits for it: what a plan that is carried out has made is decided on when the plan ends.
    """

    awaited: int
    notifications: Mapping[str, int]


class Store:
    """The store in one broker.

    client: it must answer bytes. lanes_of: by kind id, the lanes of its objects' keys: the first is marked for every
    version that changes the store (also of children), further ones when an object is created, deleted, or changes
    generation or annotations. accepts: by kind id, True for objects we reconcile (default: all); others mark nothing.
    adopted: ids of the kinds whose unowned objects are indexed. references: by kind id, the object that one names.
    kept: bytes of values whose decoded objects stay in memory. clock: replaces the broker's clock, microseconds; for
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
        kept: int = SIZE,
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
        self._values = StoredValues(client, self.keys, kept)
        self._observations = ObservationReader(client, self.keys, self._values, self._now)
        # By kind id and field, what the last scan found, of kinds that are scanned again and again.
        self._scanned: dict[str, dict[bytes, tuple[bytes, CachedObject]]] = {}
        # By kind id, the number of reflectors' writes that this process knows: a lower one in the store reveals a loss.
        # One write at a time: of two at once, the loss of the first could stay hidden behind the second.
        self._writes: defaultdict[str, int] = defaultdict(int)
        self._one_write: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._touches: Batcher[_Call, Any] = Batcher(self._touch_all)
        self._effects = _EffectBatchers(self._write_effects)
        # Notifications of effects' round trips that no caller has taken over yet, by lane.
        self._owed: dict[str, int] = {}
        lanes = {lane.name: lane for lanes in self._watched.values() for lane in lanes}
        kinds = (
            f";{kind}={place},{','.join(lane.name for lane in lanes)}"
            for place, (kind, lanes) in enumerate(self._watched.items(), start=1)
        )
        self._routes = f"{';'.join(f'{lane.name}:{lane.slots}' for lane in lanes.values())}|{''.join(kinds)}"
        self._route_keys = [key for lane in lanes.values() for key in lane.keys.all()]
        self._route_keys += map(self.keys.objects, self._watched)

    # Writing

    async def apply(
        self,
        kind: Kind,
        changes: Sequence[ObjectVersion],
        *,
        epoch: int | None = None,
        listing: Listing | None = None,
        read_after: int | None = None,
    ) -> Mapping[str, int]:
        """Stores changes of one kind; outdated ones do nothing. Returns the notifications to send, by lane.

        epoch: of a reflector, checked (`LeadershipLost`, `StoreLost`). listing: these objects are a page of it and
        all mark their keys, changed or not. read_after: these objects were read one by one from the API server after
        this moment (µs, broker's clock). They replace what was stored before it, even a later version: it belongs to
        another history. Kinds that are never stored are ignored.
        """
        applied = await self.apply_counted(kind, changes, epoch=epoch, listing=listing, read_after=read_after)
        return applied.notifications

    async def apply_counted(
        self,
        kind: Kind,
        changes: Sequence[ObjectVersion],
        *,
        epoch: int | None = None,
        listing: Listing | None = None,
        read_after: int | None = None,
    ) -> Applied:
        """Stores changes as `apply` does; tells how much of them decisions wait for, too."""
        made_by = [("", change) for change in changes]
        return await self._apply(kind, made_by, epoch=epoch, listing=listing, read_after=read_after)

    async def write_through(
        self, kind: Kind, changes: Sequence[ObjectVersion], acting: str, *, pause: float = 0.0
    ) -> Mapping[str, int]:
        """Stores effects of a plan, as `apply` does; plans that act side by side share round trips.

        acting: the key being reconciled: its own plan's effects do not mark it. pause: seconds to wait for the effects
        of others. Returns the notifications to send, by lane: of a shared round trip to the first of its callers that
        goes on.
        """
        await self._effects[kind].submit((acting, changes), pause=pause)
        owed, self._owed = self._owed, {}
        return owed

    async def _write_effects(self, kind: Kind, effects: Sequence[_Effects]) -> Sequence[None]:
        made_by = [(acting, change) for acting, changes in effects for change in changes]
        counted: dict[str, int] = {}
        try:
            await self._apply(kind, made_by, notifications=counted)
        finally:
            # Those of calls before one that failed, too: the lanes count them as under way.
            for lane, number in counted.items():
                self._owed[lane] = self._owed.get(lane, 0) + number
        return [None] * len(effects)

    async def _apply(
        self,
        kind: Kind,
        changes: Sequence[tuple[str, ObjectVersion]],
        *,
        epoch: int | None = None,
        listing: Listing | None = None,
        read_after: int | None = None,
        notifications: dict[str, int] | None = None,
    ) -> Applied:
        """Stores changes, each with the key whose plan made it, or ''. notifications: to add up in, call by call."""
        notifications = {} if notifications is None else notifications
        awaited = 0
        if kind.id in codec.NEVER_STORED:
            return Applied(awaited, notifications)
        number = listing.epoch if listing else epoch
        watched, adopted, refers_to = self._is_watched(kind), kind.id in self._adopted, self._ties.get(kind.id)
        size = LISTED if listing else BATCH
        for first in range(0, len(changes), size):
            args: list[Arg] = [self._routes, "" if number is None else number]
            args += [listing.words if listing else "", "" if read_after is None else read_after]
            for acting, change in changes[first : first + size]:
                try:
                    words = codec.arguments(kind, change, watched, adopted=adopted, refers_to=refers_to)
                except codec.Unreadable as error:
                    await self._keep_known(kind, change, error, listing)
                else:
                    args += (acting, *words)
            _, settled = await self._write("apply", kind, self._writing(kind), args, ordered=number is not None)
            awaited += settled[0]
            _add_up(notifications, settled)
        return Applied(awaited, notifications)

    async def _keep_known(self, kind: Kind, change: ObjectVersion, error: Exception, listing: Listing | None) -> None:
        """Leaves an object that cannot be stored as it is in the store; a relist does not count it as deleted."""
        metadata = (change.body or change.last or {}).get("metadata")
        name = "?"
        if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
            name = f"{metadata.get('namespace') or ''}/{metadata['name']}"
            if listing:
                await self._client.sadd(self.keys.listed(kind.id), name)
        log.error("an object cannot be stored", extra={"kind": kind.id, "object": name, "error": str(error)})

    async def begin(self, kind: Kind, epoch: int) -> Listing:
        """Begins a relist; reflectors of earlier epochs can write no more, and get `LeadershipLost`.

        Raises ValueError for a kind that is never stored: its objects would look as if they did not exist.
        """
        codec.require_stored(kind)
        begun, id = await self._write("begin", kind, [self.keys.listed(kind.id)], [epoch])
        return Listing(kind, epoch, id.decode(), begun.decode())

    async def finish(self, listing: Listing, versions: Mapping[str, str]) -> Mapping[str, int]:
        """Ends a relist whose pages were all applied: objects not in them, and no newer, become tombstones.

        versions: by namespace ("" for all), the resourceVersion of its list. Objects of other namespaces become
        tombstones, too. Returns the notifications to send, by lane.
        """
        notifications: dict[str, int] = {}
        cursor = b"0"
        pairs: list[Arg] = [part for pair in versions.items() for part in pair]
        while True:
            args: list[Arg] = [self._routes, listing.epoch, listing.words, cursor, BATCH, *pairs]
            cursor, settled = await self._write("absent", listing.kind, self._writing(listing.kind), args)
            _add_up(notifications, settled)
            if cursor == b"0":
                break
        # By itself, after the answer: the last call, sent again for a lost answer, needs the names. UNLINK lets another
        # thread of the server free them: 100,000 names take as long as thousands of commands.
        await self._client.unlink(self.keys.listed(listing.kind.id))
        return notifications

    async def epoch(self, kind: Kind) -> int:
        """Returns the epoch of the reflector that may write, 0 before the first."""
        key = self.keys.freshness
        value: Any = await readable(self._client, [key], lambda: self._client.hget(key, kind.id))
        words = (value or b"").split(b" ")
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0

    async def touch(self, kind: Kind, epoch: int, fresh: int | None) -> int:
        """Records that all changes before `fresh` (µs, broker's clock; None: none) are stored. Returns now."""
        moment: Arg = "" if fresh is None else fresh
        for _ in range(DELETIONS):
            args: list[Arg] = [epoch, moment, self._tombstone]
            now, left = await self._write("touch", kind, self._tables(kind), args, call=self._touch)
            if not left:
                break
            # Of the moment the first call has taken note.
            moment = ""
        return int(now)

    async def _touch(self, call: _Call) -> Any:
        answer = await self._touches.submit(call)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def _touch_all(self, calls: Sequence[_Call]) -> Sequence[Any]:
        """Calls the script for each, in one round trip. What fails there is tried again by itself."""
        script = _SCRIPTS["touch"]
        if len(calls) == 1:
            return [await script(self._client, *calls[0])]
        asked = [("EVALSHA", script.digest, len(names), *names, *args) for names, args in calls]
        answers = await together(self._client, asked, refusals=True)
        failed = [place for place, answer in enumerate(answers) if isinstance(answer, RedisError)]
        again = await asyncio.gather(*(script(self._client, *calls[place]) for place in failed), return_exceptions=True)
        for place, answer in zip(failed, again, strict=True):
            answers[place] = answer
        return answers

    async def _write(
        self,
        script: str,
        kind: Kind,
        keys: Sequence[str],
        args: Sequence[Arg],
        *,
        ordered: bool = True,
        call: Callable[[_Call], Awaitable[Any]] | None = None,
    ) -> Sequence[Any]:
        """Calls a writing script. Returns its answer without the number of writes. call: calls it in another way.

        ordered: the write is a reflector's. Raises LeadershipLost or StoreLost if the script refused it.
        """
        async with self._one_write[kind.id] if ordered else nullcontext():
            known = [self._now(), kind.id, self._writes[kind.id], uuid4().hex]
            names = [self.keys.keys.generation, self.keys.freshness, *keys]
            parameters = (names, [*known, *args])
            answer = await (call(parameters) if call else _SCRIPTS[script](self._client, *parameters))
            if answer[0] == b"deposed":
                raise LeadershipLost(f"another reflector leads {kind.id}")
            if answer[0] == b"lost":
                raise StoreLost(f"the store of {kind.id} has to be filled again")
            self._writes[kind.id] = max(self._writes[kind.id], answer[1])
        return answer[2:]  # type: ignore[no-any-return]

    # Reading

    async def get(self, ref: Ref) -> CachedObject | None:
        """Returns the object, its tombstone, or None if the store does not know it."""
        return (await self.get_many([ref]))[0]

    async def get_many(self, refs: Sequence[Ref]) -> list[CachedObject | None]:
        """As `get`, in one round trip."""

        async def read() -> list[bytes | None]:
            # A command per kind, not per object: the client's cost of a command is a multiple of that of a field.
            asked = [
                ("HMGET", self.keys.objects(kind_id), *[codec.field(refs[place]) for place in places])
                for kind_id, places in places_of.items()
            ]
            answers: list[list[bytes | None]] = await together(self._client, asked)
            found: list[bytes | None] = [None] * len(refs)
            for places, values in zip(places_of.values(), answers, strict=True):
                for place, value in zip(places, values, strict=True):
                    found[place] = value
            return found

        places_of: defaultdict[str, list[int]] = defaultdict(list)
        for place, ref in enumerate(refs):
            places_of[ref.kind.id].append(place)
        values = await readable(self._client, [self.keys.objects(kind_id) for kind_id in places_of], read)
        entries = [
            self._values.entry(ref.kind, codec.field(ref).encode(), value)
            for ref, value in zip(refs, values, strict=True)
        ]
        await self._values.set_unreadable_aside()
        return entries

    async def children(self, kind: Kind, owner_uid: str) -> tuple[CachedObject, ...]:
        """Returns the objects of this kind whose controller has this uid, tombstones included."""
        return (await self.children_many([(kind, owner_uid)]))[0]

    async def children_many(
        self, owners: Sequence[tuple[Kind, str]], *, limit: float | None = None
    ) -> list[tuple[CachedObject, ...]]:
        """As `children`, for many pairs of kind and owner's uid; round trips as for `observe`.

        Raises `errors.Stale` if `limit` is given and one of the kinds is older (seconds) or unknown.
        """
        _, ages, answers = await self._observations.read([(f"={uid}", kind, (kind,)) for kind, uid in owners])
        if limit is not None:
            require_fresh(ages, (kind for kind, _ in owners), limit)
        return [answer.children[kind.id] for answer, (kind, _) in zip(answers, owners, strict=True)]

    async def observe(self, requests: Sequence[ObserveRequest]) -> Observations:
        """Reads a batch of objects with all that the requests name: `ObservationReader.observe`."""
        return await self._observations.observe(requests)

    async def scan(self, kind: Kind, *, again: bool = False) -> AsyncIterator[CachedObject]:
        """Yields all living objects of a kind, in no order.

        again: it will be scanned again soon. What did not change until then is the same object, and not decoded again;
        callers must not change the bodies.
        """
        # HSCAN may return a field twice.
        seen: set[bytes] = set()
        known = self._scanned.pop(kind.id, {}) if again else {}
        kept: dict[bytes, tuple[bytes, CachedObject]] = {}
        room = SCANNED
        key, cursor = self.keys.objects(kind.id), 0
        while True:
            page: Any = await readable(self._client, [key], lambda at=cursor: self._client.hscan(key, at, count=BATCH))  # type: ignore[misc]
            cursor, found = page
            for name, value in found.items():
                if name in seen:
                    continue
                before = known.get(name)
                entry = (
                    before[1] if before and before[0] == value else self._values.entry(kind, name, value, keep=False)
                )
                if entry is None or entry.gone:
                    continue
                seen.add(name)
                if again and (room := room - codec.size(value)) > 0:
                    kept[name] = value, entry
                yield entry
            await self._values.set_unreadable_aside()
            if not cursor:
                if kept:
                    self._scanned[kind.id] = kept
                return

    async def stored_since(self, kind: Kind, moment: int) -> AsyncIterator[CachedObject]:
        """Yields the objects of a kind, tombstones included, whose versions were stored at this moment or later.

        moment: µs, broker's clock; 0 yields all. An object that changes meanwhile may come twice. Values that cannot
        be read are left out. Changes are published as well: see `StoreKeys.objects`.
        """
        key, cursor = self.keys.objects(kind.id), b"0"
        while True:

            async def read(at: bytes = cursor) -> Any:
                return await _SCRIPTS["changed"](self._client, [key], [at, BATCH, moment])

            cursor, flat = await readable(self._client, [key], read)
            for name, value in zip(flat[0::2], flat[1::2], strict=True):
                if entry := self._values.entry(kind, name, value, keep=False):
                    yield entry
            await self._values.set_unreadable_aside()
            if cursor == b"0":
                return

    async def freshness(self, kinds: Iterable[Kind]) -> Ages:
        """Returns by kind id the seconds of changes that may be missing; None for a kind that was never listed."""
        return (await self.as_of(kinds))[1]

    async def as_of(self, kinds: Iterable[Kind]) -> tuple[int, Ages]:
        """Returns this moment (µs, broker's clock) and the freshness of these kinds, of which there is at least one."""
        now, ages, _ = await self._observations.read([], kinds)
        return now, ages

    async def require_fresh(self, kinds: Sequence[Kind], limit: float) -> None:
        """Raises `errors.Stale` naming the first kind whose age is unknown or above `limit` seconds."""
        require_fresh(await self.freshness(kinds), kinds, limit)

    async def ask_for_proof(self, kinds: Iterable[Kind]) -> None:
        """Asks the reflectors of these kinds to prove their freshness at once; without an answer it is proved later."""
        with suppress(ResponseError):  # a service may forbid it
            await self._client.publish(self.keys.freshness, " ".join(kind.id for kind in kinds))

    async def proofs_asked_for(self) -> AsyncGenerator[list[str], None]:
        """Yields the ids of the kinds that `ask_for_proof` asks for from now on."""
        async with self._client.pubsub(ignore_subscribe_messages=True) as pubsub:
            await pubsub.subscribe(self.keys.freshness)
            while True:
                if message := await pubsub.get_message(timeout=30.0):
                    yield message["data"].decode(errors="replace").split(" ")

    def _now(self) -> Arg:
        return self._clock() if self._clock else ""

    def _tables(self, kind: Kind) -> list[str]:
        names = self.keys
        return [names.objects(kind.id), names.owners(kind.id), names.gone(kind.id), names.child_log(kind.id)]

    def _writing(self, kind: Kind) -> list[str]:
        return [self.keys.listed(kind.id), *self._tables(kind), *self._route_keys]

    def _is_watched(self, kind: Kind) -> Callable[[Object], bool]:
        if kind.id not in self._watched:
            return _nothing
        return self._accepts.get(kind.id, _everything)


class _EffectBatchers(dict[Kind, Batcher[_Effects, None]]):
    """By kind, the batcher of effects. write: stores those of one kind."""

    def __init__(self, write: Callable[[Kind, Sequence[_Effects]], Awaitable[Sequence[None]]]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, kind: Kind) -> Batcher[_Effects, None]:
        batcher = self[kind] = Batcher(lambda effects: self._write(kind, effects))
        return batcher


def _everything(_body: Object) -> bool:
    return True


def _nothing(_body: Object) -> bool:
    return False


def _add_up(notifications: dict[str, int], settled: Sequence[Any]) -> None:
    """Adds up the notifications of the settled lanes: {awaited, lane, notifications, lane, notifications, ...}."""
    for name, count in zip(settled[1::2], settled[2::2], strict=True):
        if count:
            notifications[name.decode()] = notifications.get(name.decode(), 0) + count
