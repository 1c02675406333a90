"""The broker's INFO, read now and then for the metrics of every process of a lane."""

import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError

from scheduler import shared_ticks
from workers.metrics import servers

log = logging.getLogger(__name__)

#: Seconds between two readings: a scrape is rarely more frequent.
EVERY = 10.0


async def export_forever(client: Redis, every: float = EVERY) -> None:
    """Exports the broker's INFO until cancelled. An ACL may forbid it: then there are no such metrics."""
    while True:
        try:
            servers.export_broker(await client.info())
        except RedisError as error:
            log.debug("the broker's INFO was not read", extra={"error": str(error)})
        await shared_ticks.tick(every)
