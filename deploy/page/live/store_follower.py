"""The follower of the store: keeps the index of rows current with what reflectors and workers store.

Scripts that store versions publish the names of changed objects (workers/lua/store_versions.lua); the follower reads
these objects only. What it may have missed, while it was not subscribed, it finds by the moment of storing.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from deploy.object_rows import derivation
from deploy.object_rows.row import Row
from deploy.page.live.row_index import RowIndex
from workers.api.kinds import Kind, Ref
from workers.cache import codec
from workers.cache.store import TOMBSTONE, Store
from workers.decision.snapshot import CachedObject
from workers.errors import Stale
from workers.json_logs import Outage

log = logging.getLogger(__name__)

#: Seconds in which changes gather before they are read, and between two readings: an object moves once a second.
GATHER, REST = 0.1, 0.9
#: Seconds between two comparisons of the whole store while somebody looks; for brokers that forbid publishing, too.
COMPARE = 60.0
#: Seconds between two looks at the generation: a flush ends no subscription.
GENERATION = 10.0
#: Objects that may wait to be read while nobody looks.
WAITING = 2_000
#: µs before the newest known version from which a comparison begins: the broker's clock may have been set back.
MARGIN = 5_000_000
#: Seconds that a request waits for the first filling.
PATIENCE = 10.0
#: Objects of one round trip.
PIECE = 200


class StoreFollower:
    """Keeps an index current. client: of the broker. looked_at: True while a visitor watches or asks.

    changed: gets the rows that changed and those that are gone, after every reading.
    """

    def __init__(
        self,
        client: Redis,
        store: Store,
        index: RowIndex,
        *,
        looked_at: Callable[[], bool],
        changed: Callable[[list[Row], list[Row]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._store = store
        self._index = index
        self._looked_at = looked_at
        self._changed = changed
        self._clock = clock
        self._kinds: dict[str, Kind] = {id: each.kind for id, each in derivation.SHOWN.items()}
        self._channels = {store.keys.objects(id).encode(): id for id in self._kinds}
        self._dirty: defaultdict[str, set[bytes]] = defaultdict(set)
        # Kinds to compare, and by kind the newest moment of storing that is known.
        self._suspect: set[str] = set()
        self._newest: dict[str, int] = {}
        self._generation: Any = None
        # heard: when the subscription was last known to work. lost: deletions may have passed unnoticed since.
        self._compared = self._heard = clock()
        self._lost = False
        self._one_reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._filled = asyncio.Event()

    async def run(self) -> None:
        """Follows the store until cancelled; a broker that is away is asked again."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(), name="page: listen")
            group.create_task(self._read(), name="page: read")
            group.create_task(self._look_for_losses(), name="page: compare")

    async def current(self) -> None:
        """Returns once the index holds what was stored until now, give or take a second.

        Raises `errors.Stale` if the first filling takes too long.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                await self._filled.wait()
        except TimeoutError:
            raise Stale("the page has not read the store yet: is the broker out of reach?") from None
        if not self._looked_at():
            try:
                await self.catch_up()
            except (RedisError, OSError) as error:
                log.warning("the page shows what it knows", extra={"error": str(error)})

    async def catch_up(self) -> None:
        """Reads what has changed. Raises RedisError if the broker refuses or cannot be reached."""
        async with self._one_reading:
            changes = _Changes(self._index)
            suspects, self._suspect = self._suspect, set()
            if suspects and await self._has_lost_deletions():
                suspects = set(self._kinds)
                self._newest.clear()
            dirty, self._dirty = self._dirty, defaultdict(set)
            try:
                while suspects:
                    await self._compare(self._kinds[next(iter(suspects))], changes)
                    suspects.pop()
                for kind_id in list(dirty):
                    await self._read_objects(self._kinds[kind_id], dirty[kind_id], changes)
                    del dirty[kind_id]
            finally:
                # Not read: they are read with the next.
                self._suspect |= suspects
                for kind_id, fields in dirty.items():
                    self._dirty[kind_id] |= fields
                if self._suspect or self._dirty:
                    self._news.set()
                changes.count_children()
                if changes.rows or changes.gone:
                    self._changed(list(changes.rows.values()), changes.gone)

    # Learning

    async def _listen(self) -> None:
        outage = Outage(log)
        while True:
            try:
                async with self._client.pubsub() as pubsub:
                    await pubsub.subscribe(*self._channels)
                    while True:
                        message: Any = await pubsub.get_message(timeout=30.0)
                        if message is not None:
                            outage.over("the store is followed again")
                            self._hear(message)
                        self._heard = self._clock()
            except (RedisError, OSError) as error:
                outage.lasts("the store cannot be followed", error=str(error))
                await asyncio.sleep(1.0)

    def _hear(self, message: Any) -> None:
        kind_id = self._channels.get(message["channel"])
        if kind_id is None:
            return
        if message["type"] == "subscribe":
            # Also after a reconnection, whose losses no message tells.
            self._suspect.add(kind_id)
            # Tombstones of deletions in between may be gone.
            self._lost |= self._clock() - self._heard > TOMBSTONE / 2
        elif message["type"] == "message":
            self._dirty[kind_id].update(message["data"].split(b"\n"))
        self._news.set()

    async def _look_for_losses(self) -> None:
        while True:
            await asyncio.sleep(GENERATION)
            if not self._looked_at():
                continue
            now = self._clock()
            due = now - self._compared > COMPARE
            try:
                generation: Any = await self._client.get(self._store.keys.keys.generation)
            except (RedisError, OSError):
                continue  # the reading says so
            if due or generation != self._generation:
                self._compared = now
                self._suspect |= self._kinds.keys()
                self._news.set()

    # Reading

    async def _read(self) -> None:
        outage = Outage(log)
        while True:
            await self._news.wait()
            await asyncio.sleep(GATHER)
            self._news.clear()
            waiting = sum(map(len, self._dirty.values()))
            if self._looked_at() or not self._filled.is_set() or waiting > WAITING:
                try:
                    await self.catch_up()
                except (RedisError, OSError) as error:
                    outage.lasts("the store cannot be read", error=str(error))
                    self._news.set()
                else:
                    outage.over("the store is read again")
                    if not self._suspect:
                        self._filled.set()
            if self._filled.is_set():
                await asyncio.sleep(REST)

    async def _has_lost_deletions(self) -> bool:
        """Returns True if no tombstone tells of some deletions, so that every kind has to be read whole."""
        generation: Any = await self._client.get(self._store.keys.keys.generation)
        lost = self._lost or generation != self._generation
        self._generation, self._lost = generation, False
        return lost

    async def _compare(self, kind: Kind, changes: "_Changes") -> None:
        """Reads the objects of a kind that were stored since its newest known version; all of them without one."""
        since = max(0, self._newest.get(kind.id, 0) - MARGIN)
        found = set()
        async for entry in self._store.stored_since(kind, since):
            found.add((entry.ref.namespace, entry.ref.name))
            self._take(entry, changes)
        if not since:
            rows = [each.row for each in self._index.of_kind(kind.id)]
            for row in rows:
                if (row.namespace, row.name) not in found:
                    changes.drop(Ref(kind, row.namespace, row.name))

    async def _read_objects(self, kind: Kind, fields: Iterable[bytes], changes: "_Changes") -> None:
        refs = [codec.ref(kind, field) for field in fields]
        for first in range(0, len(refs), PIECE):
            piece = refs[first : first + PIECE]
            for ref, entry in zip(piece, await self._store.get_many(piece), strict=True):
                if entry is None:
                    changes.drop(ref)
                else:
                    self._take(entry, changes)

    def _take(self, entry: CachedObject, changes: "_Changes") -> None:
        kind_id = entry.ref.kind.id
        self._newest[kind_id] = max(self._newest.get(kind_id, 0), entry.seen)
        if entry.body is None:
            changes.drop(entry.ref)
        else:
            changes.put(derivation.derived(entry.ref, entry.body))


class _Changes:
    """The changes of one reading, and the owners whose numbers of children they change."""

    def __init__(self, index: RowIndex) -> None:
        self._index = index
        self._owners: set[tuple[str, str, str]] = set()
        self.rows: dict[tuple[str, str, str], Row] = {}
        self.gone: list[Row] = []

    def put(self, row: Row) -> None:
        address = (row.kind, row.namespace, row.name)
        if self._index.put(row):
            self._note(row)
            self.rows[address] = self._stored(address)
            if row.kind in derivation.COUNTED:
                self._owners.add(address)

    def drop(self, ref: Ref) -> None:
        if row := self._index.drop(ref.kind.id, ref.namespace, ref.name):
            self.rows.pop((row.kind, row.namespace, row.name), None)
            self.gone.append(row)
            self._note(row)

    def count_children(self) -> None:
        """Adds the numbers of children to the rows of scaled objects."""
        for address in self._owners:
            tones = self._index.child_tones(*address)
            if not tones and "running" not in self._numbers(address):
                continue
            numbers = {"pending": tones["waiting"], "running": tones["active"]}
            if self._index.with_numbers(*address, numbers):
                self.rows[address] = self._stored(address)

    def _note(self, row: Row) -> None:
        if row.owner is not None:
            owner = (row.owner["kind"], row.owner["namespace"], row.owner["name"])
            if owner[0] in derivation.COUNTED and self._index.get(*owner):
                self._owners.add(owner)

    def _numbers(self, address: tuple[str, str, str]) -> Any:
        found = self._index.get(*address)
        return found.row.numbers if found else {}

    def _stored(self, address: tuple[str, str, str]) -> Row:
        found = self._index.get(*address)
        assert found is not None
        return found.row
