"""An EventJob's ledger on a server, polled by hand."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import redis.asyncio as redis

from scalers.claimable import ClaimableItems, ClaimRequest
from scalers.deliveries.deliveries import Deliveries
from scalers.deliveries.delivery import DeliveryFilter, DeliveryState
from scalers.deliveries.event_ledger import EventLedger
from scalers.sources.events.intake import Intake
from scalers.sources.redis.connection import RedisLink
from scheduler.keys import Keys
from workers.api import times
from workers.api.penstock_dev import eventjob
from workers.api.penstock_dev.eventjob import EventJobSpec
from workers.decision.claims import DELIVERIES, ClaimedItem, ClaimOrder, ClaimSettlement, How

KEYS = Keys("penstock")
_TEMPLATE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none"}]}}}}


def spec_of(**fields: Any) -> EventJobSpec:
    """The spec with these fields, spelt as in a manifest."""
    body = {"metadata": {"name": "orders"}, "spec": {"jobTemplate": _TEMPLATE, **fields}}
    return eventjob.parse(body).spec


#: A `notbefore` that does not come while a test runs.
MUCH_LATER = times.render(datetime.now(UTC) + timedelta(days=300))


def event_of(id: str, **attributes: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "placed", **attributes}


@dataclass
class PolledEventJob:
    """An EventJob called `orders` that takes the events of a channel, and its decisions. last: what its poll found."""

    client: redis.Redis
    spec: EventJobSpec = field(default_factory=spec_of)
    uid: str = "u1"
    channel: str = "orders"
    deleting: bool = False
    usable: bool = True
    orders: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    last: ClaimableItems | None = None

    @property
    def deliveries(self) -> Deliveries:
        return Deliveries(self.client, KEYS)

    @property
    def intake(self) -> str:
        return KEYS.channel("default", self.channel)

    @property
    def ledger(self) -> EventLedger:
        channel = self.spec.dead_letter.channel
        dedup = self.spec.dedup
        return EventLedger(
            server="broker",
            owner="default/orders",
            keys=KEYS.deliveries(self.uid),
            intake=Intake(self.intake, "", self.spec.max_events, dedup.window_seconds * 1000, dedup.limit, 10, True),
            spec=self.spec if self.usable else None,
            dead_letters=KEYS.channel("default", channel) if channel else None,
            deleting=self.deleting,
        )

    async def push(self, *ids: str, **attributes: str) -> None:
        """Adds events to the intake, as any client may."""
        for id in ids:
            event: Mapping[Any, Any] = event_of(id, **attributes)
            await self.client.xadd(self.intake, dict(event))

    async def carry_out(self, order: ClaimOrder | None) -> ClaimableItems:
        request = ClaimRequest("default/orders", self.uid, order)
        self.last = await self.ledger.carry_out(RedisLink(self.client), request)
        return self.last

    async def poll(self, limit: int = 0, *settlements: ClaimSettlement, bound: Iterable[str] = ()) -> ClaimableItems:
        """Carries the next order out."""
        return await self.carry_out(ClaimOrder(next(self.orders), DELIVERIES, limit, False, settlements, tuple(bound)))

    async def settle(self, how: How, *ids: str, limit: int = 0, **fields: Any) -> ClaimableItems:
        """Settles the claims of these events."""
        claims = self.claims
        ends = [ClaimSettlement(claims[id].id, how, job=f"job-{id}", **fields) for id in ids]
        return await self.poll(limit, *ends)

    @property
    def claims(self) -> dict[str, ClaimedItem]:
        """The claims by the id of their event."""
        assert self.last is not None
        return {orjson.loads(each.item or "{}").get("id", each.id): each for each in self.last.claims}

    async def ids(self, *states: DeliveryState) -> list[str]:
        """The ids of the events whose deliveries are in one of these states, the newest first."""
        page = await self.deliveries.page(self.uid, DeliveryFilter(frozenset(states)))
        return [each.attributes["id"] for each in page.deliveries]

    async def entry(self, id: str) -> str:
        return (await self.deliveries.of_event(self.uid, id))[0].entry
