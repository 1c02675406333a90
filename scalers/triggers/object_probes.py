"""The probes of every polled kind: triggers of KEDA's kinds, pods of JobFlows, the deliveries of EventJobs."""

import asyncio
from dataclasses import replace

from scalers.deliveries.event_ledger import DEFAULTS, EventLedger
from scalers.deliveries.eventjob_scaler import EventJobScaler
from scalers.sources.events.intake import Intake
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.own_broker import own_broker
from scalers.triggers import flow_probes
from scalers.triggers.parse import Parsed, SourceKey, TriggerProbe, Triggers, is_polled
from scheduler.keys import Keys
from workers.api import conditions
from workers.api.kinds import EVENT_JOB, JOB_FLOW, SCALED_JOB, SCALED_OBJECT, Kind, Object, Ref
from workers.api.penstock_dev import eventjob, taken_channels
from workers.api.penstock_dev.eventjob import EventJobSpec
from workers.cache import codec
from workers.cache.store import Store
from workers.errors import UserError
from workers.events import routing
from workers.newest_entries import TurnCache

#: Specs of EventJobs that are kept, and entries of a channel that are no events and are kept.
_SPECS, _MALFORMED = 20_000, 1_000
#: Kinds with triggers; nearly all polls are theirs. `in` finds them without comparing fields.
BY_TRIGGERS = (SCALED_JOB, SCALED_OBJECT)
#: Bodies of ScaledJobs, None for one that does not exist.
ScaledJobs = tuple[Object | None, ...]
#: Why an EventJob is not Ready whose channel is the intake of a ScaledJob.
TAKEN = "ChannelTaken"


class ObjectProbes:
    """Returns the probes of objects.

    triggers: parses the triggers of KEDA's kinds, and knows Penstock's own broker. store: has the objects that others
    depend on.
    """

    def __init__(self, triggers: Triggers, store: Store) -> None:
        self._triggers = triggers
        self._store = store
        self._server: RedisServer | None = None
        self._specs: TurnCache[str, tuple[int, EventJobSpec | None]] = TurnCache(_SPECS)

    def known(self, ref: Ref, body: Object) -> Parsed | None:
        """Returns the probes that `parse` would return without waiting for anything, or None."""
        return self._triggers.known(body) if ref.kind in BY_TRIGGERS else None

    async def rivals(self, ref: Ref) -> ScaledJobs:
        """Returns the ScaledJobs that may have the channel named like this EventJob, for `parse`."""
        return await self._rivals(ref.namespace, ref.name)

    async def parse(self, ref: Ref, body: Object, rivals: ScaledJobs | None = None) -> Parsed:
        """Returns the probes of an object, or its problem. rivals: of an EventJob, if the caller has read them."""
        if ref.kind == JOB_FLOW:
            return await flow_probes.parse(body, self._store)
        if ref.kind == EVENT_JOB:
            return await self._event_job(ref, body, rivals)
        return await self._triggers.parse(ref, body)

    async def _event_job(self, ref: Ref, body: Object, rivals: ScaledJobs | None) -> Parsed:
        """Returns the probe of an EventJob. With a spec that cannot be used its claims are settled all the same."""
        try:
            server = self._server = self._server or own_broker(self._triggers.broker, self._triggers.prefix)
        except ValueError as error:
            return Parsed(problem=f"Penstock's own broker: {error}")
        spec, keys = self._spec(body), Keys(self._triggers.prefix)
        channel = str((body.get("spec") or {}).get("channel") or ref.name)
        if rivals is None or channel != ref.name:
            rivals = await self._rivals(ref.namespace, channel)
        taken = taken_channels.taker(rivals, ref.namespace, channel) is not None
        settings = spec if channel == ref.name else await self._spec_of(replace(ref, name=channel))
        spec = None if taken else spec
        if (conditions.find(body, "Ready") or {}).get("reason") == TAKEN:
            spec = None
        dead_letters = spec.dead_letter.channel if spec else None
        ledger = EventLedger(
            server=str(server),
            owner=f"{ref.namespace}/{ref.name}",
            keys=keys.deliveries(body["metadata"]["uid"]),
            intake=_intake(keys.channel(ref.namespace, channel), settings),
            spec=spec,
            dead_letters=keys.channel(ref.namespace, dead_letters) if dead_letters else None,
            deleting="deletionTimestamp" in body["metadata"],
        )
        scaler = EventJobScaler(broker=server, ledger=ledger)
        return Parsed((TriggerProbe("s0-events", "events", scaler, SourceKey.of(scaler, ref)),))

    async def _rivals(self, namespace: str, channel: str) -> ScaledJobs:
        """Returns the ScaledJob that is named like a channel, and those that name any."""
        index = codec.referrers_of(taken_channels.named(namespace).key)
        [namesake], others = await asyncio.gather(
            self._store.get_many([taken_channels.by_name(namespace, channel)]), self._store.children(SCALED_JOB, index)
        )
        return (namesake.body if namesake else None, *(entry.body for entry in others))

    async def _spec_of(self, ref: Ref) -> EventJobSpec | None:
        """Returns the typed spec of the EventJob that a channel is named like, None without one."""
        [entry] = await self._store.get_many([ref])
        return self._spec(entry.body) if entry and entry.body else None

    def _spec(self, body: Object) -> EventJobSpec | None:
        """Returns the typed spec, None for one that cannot be used."""
        uid, generation = body["metadata"]["uid"], body["metadata"].get("generation", 0)
        known = self._specs.used(uid)
        if known and known[0] == generation:
            return known[1]
        try:
            spec: EventJobSpec | None = eventjob.parse(body).spec
        except UserError:
            spec = None
        if spec and any(routing.problems(spec)):
            spec = None
        self._specs.keep(uid, (generation, spec))
        return spec


def is_asked(kind: Kind, body: Object) -> bool:
    """Returns whether an object of a polled kind is polled now.

    EventJobs are until they are gone, for their claims to be settled.
    """
    if kind in BY_TRIGGERS:
        return is_polled(body)
    return kind == EVENT_JOB or flow_probes.is_probed(body)


def _intake(stream: str, spec: EventJobSpec | None) -> Intake:
    """Returns the intake of a channel with the settings of the EventJob that is named like it, else the defaults."""
    settings = spec or DEFAULTS
    return Intake(
        stream=stream,
        group="",
        limit=settings.max_events,
        window=settings.dedup.window_seconds * 1000,
        remembered=settings.dedup.limit,
        parked=_MALFORMED,
        held=True,
    )
