"""The reflector: lists one kind's objects, then watches them, and stores every change.

The scripts that store a change mark the keys it concerns (workers/lua/store_versions.lua). The reflector claims
freshness only when everything that arrived is stored and the server has proved to be alive: a stopped, backlogged or
disconnected reflector makes its kind stale, never silently old.
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

from scheduler import shared_ticks
from workers import errors
from workers.api.kinds import Kind, Object, ref_of
from workers.cache.codec import require_stored
from workers.cache.store import BATCH, LeadershipLost, Listing, ObjectVersion, Store, StoreLost
from workers.cancellation import cancelled
from workers.client.request_limiter import Priority, requests
from workers.client.rest import WatchEvent
from workers.client.transport import IdleWait
from workers.json_logs import Outage, outage_reason
from workers.metrics.objects import ObjectTable
from workers.runtime.leases import Notify

log = logging.getLogger(__name__)


class ReflectorApi(Protocol):
    """The part of `workers.client.rest.Cluster` that a reflector uses."""

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
        idle: IdleWait | None = None,
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. relist: between two full lists, with jitter. watch: duration of one watch request, with jitter.

    beat: between two claims of freshness. probe: silence of a watch after which a small list must prove that the server
    is alive. base, cap: first and longest pause after failures in a row. A quiet kind is up to probe + 2 * beat old,
    which must be well below the age at which it counts as stale. settle: after a probe that was asked for, until what
    happened before it must have arrived. gather: pause before a watch is read on while it shows nothing but what
    workers write.
    """

    relist: float = 1200.0
    watch: float = 300.0
    beat: float = 1.0
    probe: float = 3.0
    base: float = 0.2
    cap: float = 30.0
    settle: float = 0.1
    gather: float = 0.02

    def pause(self, failures: int) -> float:
        """Returns the pause after so many failures in a row: doubling, bounded, half of it jitter."""
        return min(self.cap, self.base * 2.0 ** min(failures - 1, 16)) * random.uniform(0.5, 1.0)


#: Stores in a row that no decision waited for, after which a watch shows nothing but what workers write, for now.
ECHOES = 8


class _Stream:
    """The progress of one namespace's watch."""

    def __init__(self, namespace: str, version: str, fresh: float, beat: float) -> None:
        self.namespace = namespace
        self.version = version
        # The moment on our monotonic clock up to which all changes are stored.
        self.fresh = fresh
        self.failures = 0
        # Stores since the last that a decision waited for.
        self.echoes = 0
        self.idle = IdleWait(beat)
        # Set whenever nothing more can be read.
        self.drained = asyncio.Event()


class Reflector:
    """The reflector of one kind; only the kind's leader calls `run`, with the epoch of its leadership.

    namespaces: the ones to follow, none for all. selector: labels the objects must have. table: the objects' metrics.
    asked: set when a decision waits for proof that the store has everything. clock: monotonic seconds.
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
        asked: asyncio.Event | None = None,
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
        self._asked = asked or asyncio.Event()
        self._probed = -math.inf
        self._offset: float | None = None

    async def run(self, epoch: int) -> None:
        """Follows the kind until cancelled. Raises `LeadershipLost` once a reflector of a later epoch writes."""
        require_stored(self._kind)
        try:
            await self._run(epoch)
        finally:
            if self._table:
                self._table.clear()

    async def _run(self, epoch: int) -> None:
        failures = 0
        while True:
            began, asked = self._clock(), 0.0
            try:
                streams = await self._list(epoch)
                follow = [self._follow(epoch, stream) for stream in streams]
                proving = self._prove_when_asked(epoch, streams)
                await _first_to_fail(*follow, self._beat(epoch, streams), proving, self._relist(epoch))
            except (errors.Gone, StoreLost) as error:
                log.info("listing again", extra={"kind": self._kind.id, "reason": str(error)})
            except (errors.ClusterError, RedisError) as error:
                asked = getattr(error, "retry_after", None) or 0.0
                log.warning("could not list", extra={"kind": self._kind.id, "error": self._reason(error)})
            except LeadershipLost:
                raise
            except Exception:
                # A fault of one kind must not end the informers of all the others.
                log.exception("the reflector failed; listing again", extra={"kind": self._kind.id})
            failures = 1 if self._clock() - began > self._pace.cap else failures + 1
            await asyncio.sleep(max(self._pace.pause(failures), min(asked, self._pace.cap)))

    async def _list(self, epoch: int) -> list[_Stream]:
        """Stores the whole kind. Returns the streams to watch on from."""
        listing = await self._store.begin(self._kind, epoch)
        await self._claim(epoch, None)
        if self._table:
            self._table.begin()
        started = self._clock()
        versions = {namespace: await self._list_one(listing, namespace) for namespace in self._namespaces}
        await self._notify(await self._store.finish(listing, versions))
        if self._table:
            self._table.finish()
        await self._claim(epoch, started)
        return [_Stream(namespace, version, started, self._pace.beat) for namespace, version in versions.items()]

    async def _list_one(self, listing: Listing, namespace: str) -> str:
        version = ""
        pages = self._cluster.pages(self._kind, namespace, label_selector=self._selector)
        async with aclosing(pages):
            async for objects, page_version in pages:
                changes = [ObjectVersion(body) for body in objects]
                await self._notify(await self._store.apply(self._kind, changes, listing=listing))
                if self._table:
                    self._table.listed(body for body in objects if (body.get("metadata") or {}).get("name"))
                version = page_version
        return version

    def _reason(self, error: errors.ClusterError | RedisError) -> str:
        """Returns why the kind could not be listed. A list is answered by 404 only where the kind is not served."""
        if not isinstance(error, errors.NotFound):
            return str(error)
        served = f"the API server does not serve {self._kind.plural} of {self._kind.api_version}"
        return f"{served}: their definition is missing, or its version of Kubernetes lacks them ({error})"

    async def _relist(self, epoch: int) -> None:
        """Relists beside the watch, so that an event that was missed is repaired."""
        failures = 0
        while True:
            pause = self._pace.pause(failures) if failures else self._pace.relist * random.uniform(0.9, 1.1)
            await asyncio.sleep(pause)
            try:
                await self._list(epoch)
                failures = 0
            except (errors.ClusterError, RedisError) as error:
                failures += 1
                log.warning("could not list", extra={"kind": self._kind.id, "error": self._reason(error)})

    async def _follow(self, epoch: int, stream: _Stream) -> None:
        """Watches one namespace for ever, resuming after every disconnect. Raises `errors.Gone`."""
        while True:
            opened = self._clock()
            try:
                await self._watch(epoch, stream)
            except errors.Gone:
                raise
            except errors.Silent:
                # Of a quiet kind servers of Kubernetes 1.20 send nothing until the watch ends.
                stream.failures = 0
            except (errors.ClusterError, RedisError) as error:
                log.warning("a watch broke off", extra={"kind": self._kind.id, "error": str(error)})
                stream.failures += 1
            else:
                # A server that ends every watch at once counts as failing: without a pause this would spin.
                stream.failures = 0 if self._clock() - opened > self._pace.beat else stream.failures + 1
            if stream.failures:
                await asyncio.sleep(self._pace.pause(stream.failures))

    async def _watch(self, epoch: int, stream: _Stream) -> None:
        opened, last_event, drained = math.inf, -math.inf, self._clock()
        bursts = self._cluster.follow(
            self._kind,
            stream.namespace,
            resource_version=stream.version,
            label_selector=self._selector,
            timeout=self._pace.watch * random.uniform(0.9, 1.1),
            idle=stream.idle,
        )
        async with aclosing(bursts):
            async for burst in bursts:
                now = self._clock()
                opened = min(opened, now)
                if burst:
                    last_event = now
                    await self._store_burst(epoch, stream, burst)
                    stream.failures = 0
                    if stream.echoes >= ECHOES and len(burst) < BATCH and now - drained < self._pace.beat:
                        # The decisions that follow from our own writes are made already, or wait for the plan that
                        # writes: what it shows can wait for more, and be compared with the store in one round trip.
                        # Freshness cannot: it is claimed when nothing more can be read, and while the pauses last there
                        # is always more.
                        await asyncio.sleep(self._pace.gather)
                else:
                    drained = now
                    # All that arrived is stored. That claims freshness up to the last proof that the server was alive
                    # while this connection was open: an event on it, or an answer to a probe. A probe from before the
                    # connection proves nothing: the watch may have missed what happened since.
                    proof = max(last_event, self._probed if self._probed > opened else -math.inf)
                    stream.fresh = max(stream.fresh, proof)
                    stream.drained.set()

    async def _store_burst(self, epoch: int, stream: _Stream, burst: Sequence[WatchEvent]) -> None:
        readable = [event for event in burst if self._is_readable(event)]
        moved = [event for event in readable if event.type != "BOOKMARK"]
        changes = [
            ObjectVersion.deleted(self._kind, event.object) if event.type == "DELETED" else ObjectVersion(event.object)
            for event in moved
        ]
        if changes:
            applied = await self._store.apply_counted(self._kind, changes, epoch=epoch)
            stream.echoes = 0 if applied.awaited else stream.echoes + 1
            await self._notify(applied.notifications)
        if self._table:
            for event in moved:
                self._table.update(event.object, deleted=event.type == "DELETED")
        if self._selector and await self._hides_one_of(moved):
            raise errors.Gone("an object that had stopped matching the selector matches it again")
        # Only now: a burst that could not be stored, or compared with the store, is watched again.
        if readable:
            stream.version = readable[-1].object["metadata"]["resourceVersion"]

    async def _hides_one_of(self, events: Sequence[WatchEvent]) -> bool:
        """Returns True if one of these living objects is a tombstone in the store.

        A watch with a selector shows an object that stops matching as deleted, and a deleted uid does not come back
        unless a list has it.
        """
        last = {ref_of(self._kind, event.object): event.type for event in events}
        living = [ref for ref, type in last.items() if type != "DELETED"]
        return any(entry is not None and entry.gone for entry in await self._store.get_many(living))

    def _is_readable(self, event: WatchEvent) -> bool:
        """Returns true if the event says what it is about; others are logged and left out."""
        needed = ("resourceVersion",) if event.type == "BOOKMARK" else ("resourceVersion", "name", "uid")
        metadata = event.object.get("metadata") if isinstance(event.object, dict) else None
        said = isinstance(metadata, dict) and all(isinstance(metadata.get(name), str) for name in needed)
        if metadata and said and metadata["resourceVersion"].isdecimal():
            return True
        quoted = repr(event.object)[:200]
        log.error("a watch event cannot be read", extra={"kind": self._kind.id, "type": event.type, "object": quoted})
        return False

    async def _beat(self, epoch: int, streams: Sequence[_Stream]) -> None:
        """Claims freshness every beat, in one round trip with other reflectors of this process.

        Raises `StoreLost` when the broker was flushed, `errors.Gone` when the API server was set back, or
        `LeadershipLost`."""
        outage = Outage(log)
        while True:
            await shared_ticks.tick(self._pace.beat)
            fresh = min(stream.fresh for stream in streams)
            try:
                await self._claim(epoch, fresh)
                if self._clock() - max(fresh, self._probed) > self._pace.probe:
                    await self._probe(streams)
            except errors.Gone:
                raise
            except (errors.ClusterError, RedisError, TimeoutError) as error:
                outage.lasts("freshness could not be claimed", kind=self._kind.id, error=outage_reason(error))
            else:
                outage.over("freshness is claimed again", kind=self._kind.id)

    async def _prove_when_asked(self, epoch: int, streams: Sequence[_Stream]) -> None:
        """Proves and claims freshness whenever it is asked for. Raises as `_beat` does."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._probe(streams)
                await asyncio.sleep(self._pace.settle)
                async with asyncio.timeout(self._pace.beat):
                    await asyncio.gather(*map(_drain, streams))
                await self._claim(epoch, min(stream.fresh for stream in streams))
            except errors.Gone:
                raise
            except (errors.ClusterError, RedisError, TimeoutError) as error:
                # It is asked for again, and claimed by `_beat` at the latest.
                log.info("freshness could not be proved", extra={"kind": self._kind.id, "error": outage_reason(error)})

    async def _probe(self, streams: Sequence[_Stream]) -> None:
        """Lists a single object, to prove that the server answers, and has what the watches showed.

        Raises `errors.Gone` for a server at an earlier version: it was restored from a backup, and a watch from a
        version to come shows nothing, without an error.
        """
        started, known = self._clock(), max(_number(stream.version) for stream in streams)
        async with asyncio.timeout(self._pace.probe):
            pages = self._cluster.pages(self._kind, self._namespaces[0], limit=1)
            async with aclosing(pages):
                # A kind that is not proved fresh stops every decision that needs it.
                with requests(Priority.FINISH):
                    _, version = await anext(pages)
        if version and _number(version) < known:
            raise errors.Gone(f"the API server is at version {version}, and was at {known} before", status=410)
        self._probed = started

    async def _claim(self, epoch: int, fresh: float | None) -> None:
        """Claims that all changes before `fresh` (our clock; None: none) are stored."""
        moment = None
        if fresh is not None and self._offset is not None:
            moment = round((fresh + self._offset) * 1e6)
        now = await self._store.touch(self._kind, epoch, moment)
        # Our clock is read after the answer: the offset to the broker's clock is too small by the answer's way back, or
        # by the time this process was stopped. The error makes the kind older, never fresher than it is.
        self._offset = now / 1e6 - self._clock()


def _number(version: str) -> int:
    """Returns a resourceVersion as a number; 0 for none."""
    return int(version) if version.isdecimal() else 0


async def _drain(stream: _Stream) -> None:
    """Returns once everything that has arrived on the stream is stored."""
    stream.drained.clear()
    stream.idle.cut()
    await stream.drained.wait()


async def _first_to_fail(*endless: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side; when one raises, cancels the others and raises its error."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in endless]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await cancelled(*tasks)
    for task in done:
        task.result()
