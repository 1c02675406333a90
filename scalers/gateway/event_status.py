"""The state of one pushed event: its deliveries to EventJobs, and whether its channel remembers it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from redis.asyncio import Redis

from penstock import cloudevents
from penstock.client import beside
from scalers.deliveries.delivery import Delivery, DeliveryAttempt
from scalers.gateway.destinations import Destination, Destinations, EventJobOf
from workers.api import times
from workers.api.kinds import EVENT_JOB


class DeliveriesOfEvent(Protocol):
    """Reads the deliveries of one event."""

    async def of_event(self, uid: str, id: str, source: str | None = None) -> tuple[Delivery, ...]:
        """Returns the deliveries of an event to the EventJob of this uid."""
        ...


@dataclass(frozen=True, slots=True)
class EventStatus:
    """Reads the states of events. client_of: the client of a channel's server."""

    destinations: Destinations
    deliveries: DeliveriesOfEvent
    client_of: Callable[[Any], Redis]

    async def of(self, destination: Destination, id: str, source: str | None) -> dict[str, Any] | None:
        """Returns the state as JSON, None for an event that is not known (any more).

        source: None for that of all deliveries, or of events which are made of plain bodies. Raises
        redis.exceptions.RedisError.
        """
        target = destination.target
        deliveries = []
        if target.kind == EVENT_JOB:
            for job in await self.destinations.event_jobs(target.namespace, target.name):
                found = await self.deliveries.of_event(job.uid, id, source)
                deliveries += [_delivery(each, job) for each in found]
        found_sources = {each["source"] for each in deliveries}
        named = source if source is not None else found_sources.pop() if len(found_sources) == 1 else target.source
        accepted = await self._accepted(destination, named, id)
        if accepted is None and not deliveries:
            return None
        return {"id": id, "source": named, "accepted": accepted, "deliveries": deliveries}

    async def _accepted(self, destination: Destination, source: str, id: str) -> str | None:
        channel = destination.channel
        digest = cloudevents.digest(source, id)
        client = self.client_of(channel.server)
        milliseconds: Any = await client.zscore(beside(channel.stream, "seen"), digest)
        return _instant(float(milliseconds) * 1000) if milliseconds is not None else None


def _delivery(one: Delivery, of: EventJobOf) -> dict[str, Any]:
    return {
        "eventJob": of.ref.name,
        "source": one.attributes.get("source"),
        "state": one.state,
        "arrived": _instant(one.arrived),
        "due": _instant(one.due) if one.due else None,
        "job": one.job(of.ref.name, of.uid),
        "attempts": [_attempt(each) for each in one.attempts],
        "reason": one.reason or None,
        "replays": one.replays,
    }


def _attempt(one: DeliveryAttempt) -> dict[str, Any]:
    return {"job": one.job, "ended": _instant(one.ended), "outcome": one.outcome, "reason": one.reason or None}


def _instant(micros: float) -> str:
    return times.render_precisely(times.of_micros(micros))
