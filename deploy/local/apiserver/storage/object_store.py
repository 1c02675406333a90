"""The objects: all in memory for reading, every version in the broker before it is answered.

A write is decided synchronously against the latest version of its object, in flight or written, gets the next
resourceVersion and joins the batch that is written next: one script call per batch however many clients write.
Only when the broker has it does a version become visible to readers and watchers, in order. A lost connection is not
an answer, so the same batch is tried until one comes; the script recognises a batch it has already written.
"""

import asyncio
import importlib.resources
import logging
import secrets
import time
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import redis.asyncio as redis
from redis.exceptions import RedisError

from workers.api.kinds import Object

log = logging.getLogger(__name__)

#: Versions written by one script call, and their bytes: keeps the broker's pause, and the wait of the first in line, at
#: a few ms, and the call far below the gigabyte at which a broker drops its client.
BATCH, BATCH_BYTES = 500, 16 * 1024 * 1024
#: Versions waiting for a broker that does not answer, and their bytes, before new writes are refused.
BACKLOG, BACKLOG_BYTES = 20_000, 128 * 1024 * 1024
#: Field of the hash of changes that holds the version the store began with: no resource id is spelled like this.
BORN = "*"


class Displaced(RuntimeError):  # noqa: N818
    """Another server writes to this store; this one must stop."""


class Overloaded(RuntimeError):  # noqa: N818
    """Too many writes wait for the broker."""


@dataclass(frozen=True, slots=True)
class ObjectStoreKeys:
    """The one owner of the store's key names."""

    prefix: str = "penstock"

    @property
    def version(self) -> str:
        """STRING: the last resourceVersion, and who wrote it."""
        return f"{{{self.prefix}}}:cluster:version"

    @property
    def changed(self) -> str:
        """HASH: resource id -> resourceVersion of its last change."""
        return f"{{{self.prefix}}}:cluster:changed"

    def objects(self, resource: str) -> str:
        """HASH: ``namespace/name`` -> JSON of the object without apiVersion and kind."""
        return f"{{{self.prefix}}}:cluster:objects:{resource}"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One version of one object.

    raw: its JSON without apiVersion and kind, which depend on who asks. owners: the UIDs of its owners.
    deleting: it has a deletionTimestamp.
    """

    key: str
    raw: bytes
    version: int
    uid: str
    labels: Mapping[str, str]
    owners: tuple[str, ...]
    deleting: bool

    @property
    def body(self) -> Object:
        """A fresh decoded copy: the caller may change it."""
        decoded: Object = orjson.loads(self.raw)
        return decoded

    @classmethod
    def of(cls, key: str, body: Object, raw: bytes | None = None) -> "StoredObject":
        """Returns the record of an object whose metadata is complete. raw: its JSON, if the caller has it."""
        meta = body["metadata"]
        return cls(
            key,
            # A copy: what orjson answers keeps the buffer it was written in, ten times the size of a small object.
            raw if raw is not None else bytes(memoryview(orjson.dumps(body))),
            int(meta["resourceVersion"]),
            meta.get("uid", ""),
            meta.get("labels") or {},
            tuple(reference["uid"] for reference in meta.get("ownerReferences") or ()),
            "deletionTimestamp" in meta,
        )


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One transition of one object.

    before: the version that was there, None for a creation. after: the new version; of a deletion the last state with
    the version of the deletion.
    """

    resource: str
    before: StoredObject | None
    after: StoredObject
    deleted: bool = False


@dataclass(slots=True)
class Table:
    """The written objects of one resource, by key and in key order.

    changed: version of the last change. size: bytes of the objects' JSON.
    """

    records: dict[str, StoredObject] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    changed: int = 0
    size: int = 0

    def apply(self, change: StoredChange) -> None:
        """Takes one written transition in."""
        key = change.after.key
        before = self.records.get(key)
        if change.deleted:
            if before is not None:
                del self.records[key]
                del self.keys[bisect_left(self.keys, key)]
        else:
            if before is None:
                insort(self.keys, key)
            self.records[key] = change.after
            self.size += len(change.after.raw)
        if before is not None:
            self.size -= len(before.raw)
        self.changed = change.after.version

    def within(self, namespace: str) -> list[str]:
        """The keys of one namespace, or all of them for the empty text, in order."""
        if not namespace:
            return list(self.keys)
        start = bisect_left(self.keys, f"{namespace}/")
        return self.keys[start : bisect_left(self.keys, f"{namespace}0", lo=start)]


Listener = Callable[[StoredChange], None]


class ObjectStore:
    """All objects of the cluster. One writer per store: a second one displaces the first."""

    def __init__(self, client: redis.Redis, keys: ObjectStoreKeys) -> None:
        self._client = client
        self._keys = keys
        lua = importlib.resources.files(__package__) / "lua"
        self._open = client.register_script((lua / "open.lua").read_text())
        self._commit = client.register_script((lua / "commit.lua").read_text())
        self._writer = secrets.token_hex(8)
        self._tables: dict[str, Table] = {}
        self._flight: defaultdict[str, dict[str, StoredChange]] = defaultdict(dict)
        self._queue: list[tuple[StoredChange, asyncio.Future[StoredObject]]] = []
        self._waiting = 0
        self._wake = asyncio.Event()
        self._assigned = 0
        self.born = 0
        self.version = 0
        self.listeners: list[Listener] = []

    async def load(self) -> None:
        """Takes the store over and reads everything it holds. An empty one starts with a version from the clock.

        The clock, so that a store that was emptied does not give out versions its clients have seen before.
        """
        first = int(time.time() * 1000)
        version = await self._open(keys=[self._keys.version, self._keys.changed], args=[self._writer, first, BORN])
        self.version = self._assigned = int(version)
        found: dict[bytes, bytes] = await self._client.hgetall(self._keys.changed)  # type: ignore[assignment]
        changed = {name.decode(): int(at) for name, at in found.items()}
        self.born = changed.pop(BORN, self.version)
        for name, at in changed.items():
            table = self.table(name)
            table.changed = at
            async for key, raw in self._client.hscan_iter(self._keys.objects(name), count=1000):
                table.records[key.decode()] = StoredObject.of(key.decode(), orjson.loads(raw), raw)
            table.keys = sorted(table.records)
            table.size = sum(len(record.raw) for record in table.records.values())

    def table(self, resource: str) -> Table:
        """The written objects of a resource."""
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = Table(changed=self.born)
        return table

    def resources(self) -> list[str]:
        """The ids of all resources that have, or had, objects."""
        return list(self._tables)

    def get(self, resource: str, key: str) -> StoredObject | None:
        """The written version of an object: what readers see."""
        table = self._tables.get(resource)
        return table.records.get(key) if table else None

    def latest(self, resource: str, key: str) -> StoredObject | None:
        """The newest version, written or on its way: what the next write must build on."""
        flight = self._flight[resource].get(key)
        if flight is None:
            return self.get(resource, key)
        return None if flight.deleted else flight.after

    def newest(self, resource: str, namespace: str) -> Iterator[StoredObject]:
        """The newest versions of a namespace's objects, written or on their way."""
        flight, table = self._flight[resource], self.table(resource)
        for key in table.within(namespace):
            change = flight.get(key)
            if change is None:
                yield table.records[key]
            elif not change.deleted:
                yield change.after
        for key, change in flight.items():
            if key not in table.records and not change.deleted and key.startswith(f"{namespace}/"):
                yield change.after

    def put(self, resource: str, key: str, body: Object) -> asyncio.Future[StoredObject]:
        """Stores an object as the next version; body gets its resourceVersion. The future ends when it is written.

        Raises Overloaded when too much waits for the broker already.
        """
        before = self.latest(resource, key)
        body["metadata"]["resourceVersion"] = str(self._next())
        record = StoredObject.of(key, body)
        return self._enqueue(StoredChange(resource, before, record))

    def remove(self, resource: str, key: str) -> asyncio.Future[StoredObject]:
        """Deletes an object that exists. The future's record is its last state, with the version of the deletion."""
        before = self.latest(resource, key)
        if before is None:
            raise KeyError(key)
        body = before.body
        body["metadata"]["resourceVersion"] = str(self._next())
        return self._enqueue(StoredChange(resource, before, StoredObject.of(key, body), deleted=True))

    def _next(self) -> int:
        if len(self._queue) >= BACKLOG or self._waiting >= BACKLOG_BYTES:
            raise Overloaded(f"{len(self._queue)} writes of {self._waiting} bytes wait for the broker")
        self._assigned += 1
        return self._assigned

    def _enqueue(self, change: StoredChange) -> asyncio.Future[StoredObject]:
        future: asyncio.Future[StoredObject] = asyncio.get_running_loop().create_future()
        # The next write of this object builds on a version that no reader sees before the broker has it.
        self._flight[change.resource][change.after.key] = change
        self._queue.append((change, future))
        self._waiting += len(change.after.raw)
        self._wake.set()
        return future

    async def run(self) -> None:
        """Writes batches until cancelled. Raises Displaced when another server has taken the store over."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                # In a frame of its own: the last batch would stay in memory until the next one.
                await self._write_next()

    async def _write_next(self) -> None:
        """Writes the next batch and shows it to readers."""
        batch = self._take()
        try:
            await self._write([change for change, _ in batch])
        except Displaced as error:
            self._fail(batch, error)
            raise
        for change, future in batch:
            self._apply(change)
            if not future.done():
                future.set_result(change.after)

    def _take(self) -> list[tuple[StoredChange, asyncio.Future[StoredObject]]]:
        """Takes the next batch out of the line: at least one change."""
        size = count = 0
        for change, _ in self._queue[:BATCH]:
            if count and size + len(change.after.raw) > BATCH_BYTES:
                break
            size, count = size + len(change.after.raw), count + 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        self._waiting -= size
        return batch

    def _fail(self, batch: Sequence[tuple[StoredChange, asyncio.Future[StoredObject]]], error: Displaced) -> None:
        """Fails the futures of all writes that have not happened."""
        for _, future in (*batch, *self._queue):
            if not future.done():
                future.set_exception(error)

    async def _write(self, changes: Sequence[StoredChange]) -> None:
        keys, args = self._batch(changes)
        wait = 0.05
        while True:
            try:
                answer = await self._commit(keys=keys, args=args)
            except RedisError as error:
                # The script may have run although its answer is lost: the same batch again is harmless.
                log.warning("the broker does not take writes, trying again", extra={"error": str(error)})
                await asyncio.sleep(wait)
                wait = min(wait * 2, 2.0)
                continue
            if answer == 1:
                return
            if answer == 0:
                await self._restore()
                continue
            raise Displaced("another API server writes to the same store")

    def _batch(self, changes: Sequence[StoredChange]) -> tuple[list[str], list[Any]]:
        last = {change.resource: change.after.version for change in changes}
        place = {resource: 3 + i for i, resource in enumerate(last)}
        keys = [self._keys.version, self._keys.changed, *(self._keys.objects(resource) for resource in last)]
        args: list[Any] = [self._state(self.version), self._state(changes[-1].after.version), len(last)]
        for resource, version in last.items():
            args += (resource, version)
        for change in changes:
            args += (place[change.resource], change.after.key, b"" if change.deleted else change.after.raw)
        return keys, args

    def _state(self, version: int) -> str:
        return f"{version} {self._writer}"

    async def _restore(self) -> None:
        """Writes everything back into a broker that was emptied under a running server."""
        log.warning("the broker lost the cluster's objects: writing them back from memory")
        for resource, table in self._tables.items():
            await self._client.hset(self._keys.changed, resource, table.changed)
            records = list(table.records.values())
            for start in range(0, len(records), BATCH):
                part: dict[Any, Any] = {record.key: record.raw for record in records[start : start + BATCH]}
                await self._client.hset(self._keys.objects(resource), mapping=part)
        await self._client.hset(self._keys.changed, BORN, self.born)
        # Last: until the version is there every commit answers 0, so a restore that was cut short is repeated.
        await self._client.set(self._keys.version, self._state(self.version))

    def _apply(self, change: StoredChange) -> None:
        key = change.after.key
        self.version = change.after.version
        self.table(change.resource).apply(change)
        flight = self._flight[change.resource]
        # A newer version of the object may be in flight already.
        if flight.get(key) is change:
            del flight[key]
        for listener in self.listeners:
            listener(change)
