"""The event recorder: Kubernetes Events, aggregated and bounded, written in the background."""

import asyncio
import hashlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from workers.api import times
from workers.api.kinds import EVENT, Kind, Object, Ref
from workers.cancellation import cancelled
from workers.client.request_limiter import Priority, requests
from workers.client.rest import Cluster
from workers.decision.plan import RecordEvent
from workers.errors import AlreadyExists, ClusterError, NotFound, Throttled
from workers.metrics import process
from workers.newest_entries import remember

log = logging.getLogger(__name__)

#: As client-go's spam filter: 25 Events about an object at once, then one more every five minutes. Warnings are counted
#: by themselves: an object whose work is routine every second must not use up what tells of its faults.
BURST = 25
REFILL_SECONDS = 300.0
#: Token buckets that are kept, one or two for each object.
REMEMBERED = 4096
#: Most Events that wait to be written while the API server is away, of all namespaces and of each.
WAITING, OF_ONE = 1000, 250
#: Namespaces whose Events are written side by side: one that hangs in an admission webhook stops no other.
WRITERS = 8
#: Seconds that the last write may take on closing.
CLOSING = 5.0

COMPONENT = "penstock"


def event_name(regarding: Object, record: RecordEvent) -> str:
    """Returns a name that equal Events about one object share in all processes, so that they become one Event."""
    metadata = regarding["metadata"]
    text = "\0".join((metadata.get("uid", ""), record.type, record.reason, record.message))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{metadata['name'][:200]}.{digest}"


def new_event(kind: Kind, regarding: Object, record: RecordEvent, *, count: int, now: datetime) -> Object:
    """Returns a core/v1 Event with the fields that `kubectl describe` selects by."""
    metadata = regarding["metadata"]
    namespace = metadata.get("namespace") or "default"
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": event_name(regarding, record), "namespace": namespace},
        "involvedObject": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata.get("uid", ""),
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "type": record.type,
        "reason": record.reason,
        # The API server refuses longer ones.
        "message": record.message[:1024],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": times.render(now),
        "lastTimestamp": times.render(now),
        "count": count,
    }


@dataclass
class _Pending:
    kind: Kind
    regarding: Object
    record: RecordEvent
    count: int
    last: datetime


@dataclass
class _TokenBucket:
    tokens: float
    filled: float


class Recorder:
    """Collects Events and writes them every `every` seconds; equal ones become one Event with a count."""

    def __init__(self, cluster: Cluster, *, clock: Callable[[], datetime], every: float = 0.25) -> None:
        self._cluster = cluster
        self._clock = clock
        self._every = every
        self._pending: dict[str, _Pending] = {}
        self._waiting: Counter[str] = Counter()
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._recorded = asyncio.Event()
        self._writer = asyncio.create_task(self._write_forever(), name="events")

    async def close(self) -> None:
        """Writes the collected Events, within `CLOSING` seconds, and stops."""
        await cancelled(self._writer)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._flush()
        for task in self._writing.values():
            task.cancel()

    def record(self, kind: Kind, regarding: Object, record: RecordEvent) -> None:
        """Collects an Event and returns at once; too many about one object are counted and dropped."""
        now = self._clock()
        name = event_name(regarding, record)
        known = self._pending.get(name)
        if known is not None:
            known.count += 1
            known.last = now
        elif self._has_room(regarding) and self._allowed(regarding, record.type, now.timestamp()):
            self._pending[name] = _Pending(kind, regarding, record, 1, now)
            self._waiting[_namespace(regarding)] += 1
            self._recorded.set()
        else:
            process.EVENTS_DROPPED.labels("too many").inc()

    def _has_room(self, regarding: Object) -> bool:
        return len(self._pending) < WAITING and self._waiting[_namespace(regarding)] < OF_ONE

    def _allowed(self, regarding: Object, type_: str, now: float) -> bool:
        key = f"{type_}/{regarding['metadata'].get('uid', '')}"
        bucket = self._buckets.get(key) or _TokenBucket(BURST, now)
        tokens = min(float(BURST), bucket.tokens + max(0.0, now - bucket.filled) / REFILL_SECONDS)
        allowed = tokens >= 1
        remember(self._buckets, key, _TokenBucket(tokens - 1 if allowed else tokens, now), REMEMBERED)
        return allowed

    async def _write_forever(self) -> None:
        while True:
            if not self._waiting:
                await self._recorded.wait()
            self._recorded.clear()
            await asyncio.sleep(self._every)
            self._start()

    def _start(self) -> None:
        """Begins to write the Events of further namespaces, as many as have writers."""
        self._writing = {namespace: task for namespace, task in self._writing.items() if not task.done()}
        for namespace in tuple(self._waiting):
            if len(self._writing) >= WRITERS:
                return
            if namespace not in self._writing:
                entries = self._take(namespace)
                self._writing[namespace] = asyncio.create_task(self._write_all(entries), name="events")

    def _take(self, namespace: str) -> list[_Pending]:
        """Returns what waits of a namespace; what comes now is the next."""
        names = [name for name, entry in self._pending.items() if _namespace(entry.regarding) == namespace]
        self._waiting.pop(namespace, None)
        return [self._pending.pop(name) for name in names]

    async def _flush(self) -> None:
        """Writes everything that was collected."""
        await asyncio.gather(*self._writing.values(), *(self._write_all(self._take(each)) for each in [*self._waiting]))

    async def _write_all(self, entries: Iterable[_Pending]) -> None:
        for entry in entries:
            try:
                with requests(Priority.REPORT):
                    await self._write(entry)
            except Throttled:
                process.EVENTS_DROPPED.labels("throttled").inc()
            except ClusterError as error:
                # Expected: its namespace is being deleted, or the quota for Events is used up.
                process.EVENTS_DROPPED.labels("refused").inc()
                log.debug("an event was not written", extra={"reason": entry.record.reason, "error": str(error)})
            except Exception:
                # An unexpected error must not end the writer.
                process.EVENTS_DROPPED.labels("error").inc()
                log.exception("an event was not written", extra={"reason": entry.record.reason})

    async def _write(self, entry: _Pending) -> None:
        body = new_event(entry.kind, entry.regarding, entry.record, count=entry.count, now=entry.last)
        try:
            await self._cluster.create(EVENT, body)
        except AlreadyExists:
            ref = Ref(EVENT, body["metadata"]["namespace"], body["metadata"]["name"])
            try:
                known = await self._cluster.get(ref)
            except NotFound:
                return
            # Two processes may raise the count at once and lose one; a conflict check is not worth it.
            count = int(known.get("count") or 1) + entry.count
            await self._cluster.patch(ref, {"count": count, "lastTimestamp": body["lastTimestamp"]})


def _namespace(regarding: Object) -> str:
    return str(regarding["metadata"].get("namespace") or "")
