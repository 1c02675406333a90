"""The objects that take pushes over HTTP, read from the store; a change of one is seen within a second."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.client import beside
from scalers.gateway.push_request import ChannelLimits, PushTarget
from scalers.sources.events.push import Push
from scalers.sources.redis.connection import RedisServer
from scalers.triggers.parse import Triggers
from scalers.ttl_cache import TTLCache
from scheduler.keys import Keys
from workers.api.keda import scaledjob
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Object, Ref
from workers.api.penstock_dev import eventjob, taken_channels
from workers.cache.store import Store
from workers.decision.snapshot import CachedObject
from workers.errors import Unavailable, UserError

log = logging.getLogger(__name__)

#: Seconds that an answer about one name is kept, and the most names.
SECONDS, NAMES = 0.9, 10_000
#: The part of the time that reading all EventJobs may take.
_SHARE = 0.05
#: Names that an object and a namespace may have.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Channel:
    """The channel that events are pushed to.

    stream: the intake. limits: see ChannelLimits. group: the consumer group of a ScaledJob's Jobs; '' for EventJobs.
    takers: the keys of the objects that take the events, marked for a poll. server: None for our own broker.
    """

    stream: str
    limits: ChannelLimits
    group: str = ""
    takers: tuple[str, ...] = ()
    server: RedisServer | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the push script, before those of the poll lane."""
        parts = ("accepted", "seen", "counts", "unfinished", "signed")
        return (self.stream, *(beside(self.stream, part) for part in parts))


@dataclass(frozen=True, slots=True)
class Destination:
    """A target of pushes and its channel. problem: why nothing can be pushed there now, told to known senders alone."""

    target: PushTarget
    channel: Channel
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class EventJobOf:
    """One EventJob of a channel."""

    ref: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class _Found:
    """destination: None if the name takes no pushes. A value of its own, because the cache keeps no None."""

    destination: Destination | None


@dataclass
class Destinations:
    """Finds the destinations of pushes.

    triggers: parses those of ScaledJobs. Every method raises redis.exceptions.RedisError while the broker is away.
    """

    store: Store
    keys: Keys
    triggers: Triggers
    clock: Callable[[], float] = time.monotonic
    _cache: TTLCache = field(init=False)
    _index: "_EventJobs" = field(init=False)

    def __post_init__(self) -> None:
        self._cache = TTLCache(seconds=SECONDS, limit=NAMES, clock=self.clock)
        self._index = _EventJobs(self.store, self.clock)

    async def find(self, namespace: str, name: str) -> Destination | None:
        """Returns the destination of this name, None if no object of this name takes pushes.

        Raises Unavailable for a name that is not found while the objects were never listed, as in a new broker.
        """
        found: _Found | None = self._cache.known((namespace, name))
        if found is not None:
            return found.destination
        if not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
            return None
        found = await self._cache.get((namespace, name), lambda: self._look_up(namespace, name))
        return found.destination

    async def event_jobs(self, namespace: str, channel: str) -> tuple[EventJobOf, ...]:
        """Returns the EventJobs of a channel."""
        return (await self._index.by_channel()).get((namespace, channel), ())

    def stream(self, namespace: str, channel: str) -> str:
        """Returns the key of a channel's intake in our own broker."""
        return f"{self.keys.tag}:events:{namespace}/{channel}"

    async def _look_up(self, namespace: str, name: str) -> _Found:
        refs = [Ref(EVENT_JOB, namespace, name), Ref(SCALED_JOB, namespace, name)]
        # Side by side: an event that comes alone would wait for one after the other.
        entries, _ = await asyncio.gather(self.store.get_many(refs), self._index.by_channel())
        event_job, scaled_job = map(_living, entries)
        of_event_job = await self._of_event_job(namespace, name, event_job) if event_job else None
        of_scaled_job = await self._of_scaled_job(refs[1], scaled_job) if scaled_job else None
        # A ScaledJob that takes the channel keeps it: the EventJob is not ready then (ChannelTaken).
        if of_event_job and (of_scaled_job is None or not taken_channels.taker([scaled_job], namespace, name)):
            return _Found(of_event_job)
        if of_scaled_job is None and None in (await self.store.freshness((EVENT_JOB, SCALED_JOB))).values():
            raise Unavailable("the objects that take pushes are not known yet")
        return _Found(of_scaled_job)

    async def _of_event_job(self, namespace: str, name: str, body: Object) -> Destination | None:
        try:
            parsed = eventjob.parse(body)
        except UserError as error:
            log.warning("an EventJob takes no pushes", extra={"object": f"{namespace}/{name}", "error": str(error)})
            return None
        if parsed.channel != name:
            return None
        spec, stream = parsed.spec, self.stream(namespace, name)
        limits = ChannelLimits(spec.max_events, round(spec.dedup.window_seconds * 1000), spec.dedup.limit)
        uid = str(body["metadata"]["uid"])
        target = PushTarget(EVENT_JOB, namespace, name, uid, spec.push)
        takers = {Ref(EVENT_JOB, namespace, name).key}
        takers.update(each.ref.key for each in await self.event_jobs(namespace, name))
        return Destination(target, Channel(stream, limits, takers=tuple(sorted(takers))))

    async def _of_scaled_job(self, ref: Ref, body: Object) -> Destination | None:
        spec = body.get("spec") or {}
        if not spec.get("push") or not any(each.get("type") == "push" for each in spec.get("triggers") or ()):
            return None
        try:
            settings = scaledjob.parse(body).spec.push
        except UserError as error:
            log.warning("a ScaledJob takes no pushes", extra={"object": str(ref), "error": str(error)})
            return None
        if settings is None:
            return None
        target = PushTarget(SCALED_JOB, ref.namespace, ref.name, str(body["metadata"]["uid"]), settings)
        parsed = await self.triggers.parse(ref, body)
        push = next((probe.scaler for probe in parsed.probes if isinstance(probe.scaler, Push)), None)
        if push is None:
            channel = Channel(self.stream(ref.namespace, ref.name), ChannelLimits())
            return Destination(target, channel, "its triggers cannot be used; its status says why")
        intake = push.question
        limits = ChannelLimits(intake.limit, intake.window, intake.remembered)
        own = not push.places()
        takers, server = ((ref.key,), None) if own else ((), push.server)
        return Destination(target, Channel(intake.stream, limits, intake.group, takers, server))


class _EventJobs:
    """The EventJobs by their channel. Reading all of them takes a small part of the time at most."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._known: Mapping[tuple[str, str], tuple[EventJobOf, ...]] = {}
        self._until = float("-inf")

    async def by_channel(self) -> Mapping[tuple[str, str], tuple[EventJobOf, ...]]:
        """Returns the EventJobs by namespace and channel."""
        began = self._clock()
        if began >= self._until:
            # Concurrent callers go on with the last answer.
            self._until = began + SECONDS
            self._known = await self._read()
            ended = self._clock()
            self._until = ended + max(SECONDS, (ended - began) / _SHARE)
        return self._known

    async def _read(self) -> dict[tuple[str, str], tuple[EventJobOf, ...]]:
        found: dict[tuple[str, str], list[EventJobOf]] = {}
        async for entry in self._store.scan(EVENT_JOB):
            if (body := _living(entry)) is not None:
                metadata = body["metadata"]
                channel = (body.get("spec") or {}).get("channel") or metadata["name"]
                ref = Ref(EVENT_JOB, metadata["namespace"], metadata["name"])
                found.setdefault((ref.namespace, str(channel)), []).append(EventJobOf(ref, str(metadata["uid"])))
        return {key: tuple(sorted(jobs, key=lambda job: job.ref.name)) for key, jobs in found.items()}


def _living(entry: CachedObject | None) -> Object | None:
    if entry is None or entry.gone or entry.body is None or entry.body["metadata"].get("deletionTimestamp"):
        return None
    return entry.body
