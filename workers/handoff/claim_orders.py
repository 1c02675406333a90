"""The claim orders, by object, in the broker: a reconciler stores one, and every poll carries it out until replaced."""

import logging
from collections.abc import Iterable
from typing import Any

import orjson
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from scheduler.scripts import Script, load, readable
from workers.decision import claims
from workers.decision.claims import ClaimOrder

log = logging.getLogger(__name__)

_STORE = Script(load("workers", "order"), ours=True)


class ClaimOrders:
    """One hash of orders, by the object's key. A lost order is stored again by the next decision.

    Every call raises redis.exceptions.RedisError when the broker refuses or cannot be reached.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._hash = f"{keys.tag}:orders"

    async def put(self, key: str, order: ClaimOrder, lane: Lane) -> int:
        """Stores the order unless a later one is stored, and marks the object. Returns the notifications to send."""
        args = ("", lane.slots, key, order.id, orjson.dumps(order))
        notifications: int = await _STORE(self._client, (self._hash, *lane.keys.all()), args)
        return notifications

    async def get_many(self, keys: Iterable[str]) -> list[ClaimOrder | None]:
        """Returns the orders of these objects in their sequence, None for a missing one; one round trip."""
        wanted = list(keys)
        if not wanted:
            return []
        values: list[Any] = await readable(self._client, [self._hash], lambda: self._client.hmget(self._hash, wanted))
        return [_decoded(key, value) if value else None for key, value in zip(wanted, values, strict=True)]

    async def drop(self, keys: Iterable[str]) -> None:
        """Deletes the orders of these objects."""
        if unwanted := list(keys):
            await self._client.hdel(self._hash, *unwanted)


def _decoded(key: str, value: bytes) -> ClaimOrder | None:
    """Decodes an order; None for one in the format of another version."""
    try:
        return claims.order(orjson.loads(value.partition(b" ")[2]))
    except (AttributeError, KeyError, TypeError, ValueError):
        log.warning("an order that cannot be read counts as none", extra={"key": key})
        return None
