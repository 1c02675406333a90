"""The scaler of EventJobs: the ledger of one EventJob in Penstock's own broker."""

from typing import ClassVar

from pydantic import InstanceOf

from penstock.client import beside
from penstock.scaler import Connections
from scalers.claimable import ClaimableItems, Claiming, ClaimRequest
from scalers.deliveries.event_ledger import EventLedger
from scalers.sources.redis.connection import RedisServer


class EventJobScaler(Claiming):
    """The deliveries of one EventJob."""

    broker: InstanceOf[RedisServer]
    ledger: InstanceOf[EventLedger]

    metric: ClassVar[str] = "events"
    target: ClassVar[float] = 1.0

    @property
    def server(self) -> RedisServer:
        """Penstock's own broker."""
        return self.broker

    @property
    def watched(self) -> tuple[str, ...]:
        """The streams that events are added to, and what users change."""
        intake = self.ledger.intake.stream
        return (intake, beside(intake, "accepted"), self.ledger.keys.of("asked"))

    async def carry_out(self, request: ClaimRequest, connections: Connections) -> ClaimableItems:
        """Takes pushed events in and routes them, then carries the order out."""
        async with self.broker.using(connections) as link:
            return await self.ledger.carry_out(link, request)
