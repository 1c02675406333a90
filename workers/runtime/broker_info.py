"""The broker as a process finds it: its user's rights and its limit on memory, read once, its INFO now and then."""

import logging

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from scheduler import shared_ticks
from scheduler.broker import permissions
from scheduler.broker.address import BrokerAddress
from scheduler.keys import Keys
from workers.metrics import servers

log = logging.getLogger(__name__)

#: Seconds between two readings: a scrape is rarely more frequent.
EVERY = 10.0


async def report_problems(client: Redis, keys: Keys, address: BrokerAddress) -> None:
    """Logs what the broker's user may not do, what is missing therefore, and that the broker may evict keys."""
    try:
        found = await permissions.lacking(client, keys, address.database)
        policy = await _eviction(client)
    except (RedisError, OSError):
        return
    if found.needed:
        extra = {"user": address.user, "commands": ", ".join(found.needed)}
        log.error("the broker's user may not do what Penstock needs (docs/brokers.md)", extra=extra)
    for name in found.optional:
        missing = permissions.OPTIONAL[name][1]
        extra = {"user": address.user, "command": name, "missing": missing}
        log.warning("the broker's user may not run a command", extra=extra)
    if policy:
        log.warning("the broker forgets work when it is full: its maxmemory-policy must be noeviction", extra=policy)


async def _eviction(client: Redis) -> dict[str, str]:
    """Returns the limit and the policy of a broker that evicts keys; empty for one that does not, or does not say."""
    try:
        memory = await client.info("memory")
    except ResponseError:
        return {}
    policy, limit = memory.get("maxmemory_policy"), memory.get("maxmemory")
    if policy in (None, "noeviction") or not limit:
        return {}
    return {"maxmemory-policy": str(policy), "maxmemory": str(limit)}


async def export_forever(client: Redis, every: float = EVERY) -> None:
    """Exports the broker's INFO until cancelled. An ACL may forbid it: then there are no such metrics."""
    while True:
        try:
            servers.export_broker(await client.info())
        except RedisError as error:
            log.debug("the broker's INFO was not read", extra={"error": str(error)})
        await shared_ticks.tick(every)
