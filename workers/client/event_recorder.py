"""Kubernetes Events about our objects: aggregated, bounded, and never in the way of the work they tell of."""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from workers.api import times
from workers.api.kinds import EVENT, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, ClusterError, NotFound
from workers.metrics import process
from workers.reconcile.plan import RecordEvent

log = logging.getLogger(__name__)

#: As client-go's spam filter: an object may say 25 things at once, then one more every five minutes.
BURST = 25
REFILL_SECONDS = 300.0
#: Objects whose allowance is remembered.
REMEMBERED = 4096
#: Sayings that wait to be written at most, should the API server be away.
WAITING = 1000
#: Seconds that writing what is left may take at the end.
LAST_WORDS = 5.0

COMPONENT = "penstock"


def event_name(regarding: Object, record: RecordEvent) -> str:
    """The same saying about the same object always has the same name, in every process: that aggregates it."""
    metadata = regarding["metadata"]
    text = "\0".join((metadata.get("uid", ""), record.type, record.reason, record.message))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{metadata['name'][:200]}.{digest}"


def new_event(kind: Kind, regarding: Object, record: RecordEvent, *, count: int, now: datetime) -> Object:
    """A core/v1 Event, as `kubectl describe` looks for it."""
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
class _Allowance:
    tokens: float
    filled: float


class Recorder:
    """Collects what is recorded and writes it a few times a second; equal sayings become one Event with a count."""

    def __init__(self, cluster: Cluster, *, clock: Callable[[], datetime], every: float = 0.25) -> None:
        self._cluster = cluster
        self._clock = clock
        self._every = every
        self._pending: dict[str, _Pending] = {}
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self._writer = asyncio.create_task(self._write_forever(), name="events")

    async def close(self) -> None:
        """Write what is collected, once and not for long, and stop."""
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._flush()

    def record(self, kind: Kind, regarding: Object, record: RecordEvent) -> None:
        """Note an Event. Returns at once; too many about one object are counted and dropped."""
        now = self._clock()
        name = event_name(regarding, record)
        known = self._pending.get(name)
        if known is not None:
            known.count += 1
            known.last = now
        elif len(self._pending) < WAITING and self._allowed(regarding["metadata"].get("uid", ""), now.timestamp()):
            self._pending[name] = _Pending(kind, regarding, record, 1, now)
        else:
            process.EVENTS_DROPPED.labels("too many").inc()

    def _allowed(self, uid: str, now: float) -> bool:
        allowance = self._allowances.pop(uid, None) or _Allowance(BURST, now)
        tokens = min(float(BURST), allowance.tokens + (now - allowance.filled) / REFILL_SECONDS)
        allowed = tokens >= 1
        self._allowances[uid] = _Allowance(tokens - 1 if allowed else tokens, now)
        while len(self._allowances) > REMEMBERED:
            self._allowances.popitem(last=False)
        return allowed

    async def _write_forever(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self._flush()

    async def _flush(self) -> None:
        pending, self._pending = self._pending, {}
        for entry in pending.values():
            try:
                await self._write(entry)
            except ClusterError as error:
                # An Event is a courtesy: its namespace may be going, or the quota for events be used up.
                process.EVENTS_DROPPED.labels("refused").inc()
                log.debug("an event was not written", extra={"reason": entry.record.reason, "error": str(error)})
            except Exception:
                # One that nobody foresaw must not silence all that follow.
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
            # Two processes may raise the count at once; one of the two is lost, and nobody minds.
            count = int(known.get("count") or 1) + entry.count
            await self._cluster.patch(ref, {"count": count, "lastTimestamp": body["lastTimestamp"]})
