"""The informer: one kind's objects from the API server into the store, from the first list to the last event.

It lists, then watches on from there; marks ride along with every write (workers/lua/moving.lua). It says how fresh the
store is only when it has handed on everything that arrived and has proof that the server still lives: a stopped,
backlogged or cut-off informer makes its kind stale, never silently old.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from redis.exceptions import RedisError

from workers import errors
from workers.api.kinds import Kind, Object
from workers.cache.store import Listing, ObjectVersion, Store, StoreLost
from workers.client.rest import WatchEvent
from workers.logs import Outage
from workers.metrics.objects import ObjectTable
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)


class ReflectorApi(Protocol):
    """What the informer needs of `workers.client.rest.Cluster`."""

    def pages(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> AsyncGenerator[tuple[list[Object], str], None]: ...

    def follow(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        timeout: float,
        idle: float = 1.0,
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. relist: between two full lists, with jitter. watch: how long one watch request lasts, with jitter.

    beat: between two words about freshness. probe: a watch silent for longer needs another proof that the server
    lives, a small list. base, cap: first and longest pause after failures in a row. All together must leave the
    freshness well below the age at which a kind counts as unknown: about probe + 2 * beat.
    """

    relist: float = 1200.0
    watch: float = 300.0
    beat: float = 1.0
    probe: float = 3.0
    base: float = 0.2
    cap: float = 30.0

    def pause(self, failures: int) -> float:
        """How long to wait after so many failures in a row: doubling, bounded, half of it jitter."""
        return min(self.cap, self.base * 2.0 ** min(failures - 1, 16)) * random.uniform(0.5, 1.0)


class _Stream:
    """How far one namespace has been followed."""

    def __init__(self, namespace: str, version: str, fresh: float) -> None:
        self.namespace = namespace
        self.version = version
        # The moment on our monotonic clock up to which everything that happened has been handed on.
        self.fresh = fresh
        self.failures = 0


class Reflector:
    """One kind's informer. Only the leader of its kind runs it: `run` with the epoch of its leadership.

    namespaces: the ones to follow, none for all. selector: labels the objects must have. ring: rings bells.
    roll: is told of every object, for Prometheus. clock: monotonic seconds.
    """

    def __init__(
        self,
        cluster: ReflectorApi,
        store: Store,
        kind: Kind,
        notify: Notify,
        *,
        namespaces: Sequence[str] = (),
        selector: str = "",
        pace: Pace = Pace(),
        table: ObjectTable | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._kind = kind
        self._notify = notify
        self._namespaces = tuple(namespaces) or ("",)
        self._selector = selector
        self._pace = pace
        self._table = table
        self._clock = clock
        self._probed = -math.inf
        self._offset: float | None = None

    async def run(self, epoch: int) -> None:
        """Follows the kind until cancelled. Raises `Deposed` once an informer of a later epoch leads."""
        try:
            await self._run(epoch)
        finally:
            if self._table:
                self._table.clear()

    async def _run(self, epoch: int) -> None:
        failures = 0
        while True:
            began = self._clock()
            try:
                streams = await self._list(epoch)
                follow = [self._follow(epoch, stream) for stream in streams]
                await _first_to_fail(*follow, self._beat(epoch, streams), self._relist(epoch))
            except (errors.Gone, StoreLost) as error:
                log.info("listing again", extra={"kind": self._kind.id, "reason": str(error)})
            except (errors.ClusterError, RedisError) as error:
                log.warning("could not list", extra={"kind": self._kind.id, "error": str(error)})
            failures = 1 if self._clock() - began > self._pace.cap else failures + 1
            await asyncio.sleep(self._pace.pause(failures))

    async def _list(self, epoch: int) -> list[_Stream]:
        """Brings the whole kind into the store; answers where to watch on from."""
        listing = await self._store.begin(self._kind, epoch)
        await self._tell(epoch, None)
        if self._table:
            self._table.begin()
        started = self._clock()
        versions = {namespace: await self._list_one(listing, namespace) for namespace in self._namespaces}
        await self._notify(await self._store.finish(listing, versions))
        if self._table:
            self._table.finish()
        await self._tell(epoch, started)
        return [_Stream(namespace, version, started) for namespace, version in versions.items()]

    async def _list_one(self, listing: Listing, namespace: str) -> str:
        version = ""
        pages = self._cluster.pages(self._kind, namespace, label_selector=self._selector)
        async with aclosing(pages):
            async for objects, page_version in pages:
                changes = [ObjectVersion(body) for body in objects]
                await self._notify(await self._store.apply(self._kind, changes, listing=listing))
                if self._table:
                    self._table.listed(objects)
                version = page_version
        return version

    async def _relist(self, epoch: int) -> None:
        """Lists now and then beside the watch, so that whatever went wrong unseen does not stay so."""
        failures = 0
        while True:
            pause = self._pace.pause(failures) if failures else self._pace.relist * random.uniform(0.9, 1.1)
            await asyncio.sleep(pause)
            try:
                await self._list(epoch)
                failures = 0
            except (errors.ClusterError, RedisError) as error:
                failures += 1
                log.warning("could not list", extra={"kind": self._kind.id, "error": str(error)})

    async def _follow(self, epoch: int, stream: _Stream) -> None:
        """Watches one namespace for ever, taking up the thread after every disconnect. Raises `errors.Gone`."""
        while True:
            opened = self._clock()
            try:
                await self._watch(epoch, stream)
            except errors.Gone:
                raise
            except (errors.ClusterError, RedisError) as error:
                log.warning("a watch broke off", extra={"kind": self._kind.id, "error": str(error)})
                stream.failures += 1
            else:
                # A server that ends every watch at once is one that fails.
                stream.failures = 0 if self._clock() - opened > self._pace.beat else stream.failures + 1
            if stream.failures:
                await asyncio.sleep(self._pace.pause(stream.failures))

    async def _watch(self, epoch: int, stream: _Stream) -> None:
        opened, heard = math.inf, -math.inf
        bursts = self._cluster.follow(
            self._kind,
            stream.namespace,
            resource_version=stream.version,
            label_selector=self._selector,
            timeout=self._pace.watch * random.uniform(0.9, 1.1),
            idle=self._pace.beat,
        )
        async with aclosing(bursts):
            async for burst in bursts:
                now = self._clock()
                opened = min(opened, now)
                if burst:
                    heard = now
                    await self._take(epoch, stream, burst)
                    stream.failures = 0
                else:
                    # All that arrived is handed on. What is that worth? As much as the last proof that the server
                    # lived while this very connection was open: what it sent, or an answer it gave.
                    proof = max(heard, self._probed if self._probed > opened else -math.inf)
                    stream.fresh = max(stream.fresh, proof)

    async def _take(self, epoch: int, stream: _Stream, burst: Sequence[WatchEvent]) -> None:
        changes = [
            ObjectVersion.deleted(self._kind, event.object) if event.type == "DELETED" else ObjectVersion(event.object)
            for event in burst
            if event.type != "BOOKMARK"
        ]
        if changes:
            await self._notify(await self._store.apply(self._kind, changes, epoch=epoch))
        if self._table:
            for event in burst:
                if event.type != "BOOKMARK":
                    self._table.update(event.object, deleted=event.type == "DELETED")
        # Only now: a burst that could not be handed on is asked for again.
        stream.version = burst[-1].object["metadata"]["resourceVersion"]

    async def _beat(self, epoch: int, streams: Sequence[_Stream]) -> None:
        """Says how fresh the kind is, again and again. Raises `StoreLost` when the broker was flushed, or `Deposed`."""
        outage = Outage(log)
        while True:
            await asyncio.sleep(self._pace.beat)
            fresh = min(stream.fresh for stream in streams)
            try:
                await self._tell(epoch, fresh)
                if self._clock() - max(fresh, self._probed) > self._pace.probe:
                    await self._probe()
            except (errors.ClusterError, RedisError, TimeoutError) as error:
                outage.lasts("no word about freshness", kind=self._kind.id, error=str(error))
            else:
                outage.over("freshness is told again", kind=self._kind.id)

    async def _probe(self) -> None:
        """Lists a single object, only to see that the server answers."""
        started = self._clock()
        async with asyncio.timeout(self._pace.probe):
            pages = self._cluster.pages(self._kind, self._namespaces[0], limit=1)
            async with aclosing(pages):
                await anext(pages)
        self._probed = started

    async def _tell(self, epoch: int, fresh: float | None) -> None:
        """Tells the store that everything before `fresh` (our clock; None: nothing) is in it."""
        moment = None
        if fresh is not None and self._offset is not None:
            moment = round((fresh + self._offset) * 1e6)
        now = await self._store.touch(self._kind, epoch, moment)
        # Read after the answer, the offset between the broker's clock and ours is too small by the answer's way back,
        # even if this process was stopped meanwhile: we never claim to be fresher than we are.
        self._offset = now / 1e6 - self._clock()


async def _first_to_fail(*endless: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side; when one raises, ends the others and raises that."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in endless]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
