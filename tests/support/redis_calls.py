"""The commands that a Redis server was sent, by its own count."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redis.asyncio as redis


@asynccontextmanager
async def commands_of(client: redis.Redis) -> AsyncIterator[dict[str, int]]:
    """Counts the commands of everybody meanwhile: the number of each, once the context has ended."""
    found: dict[str, int] = {}
    before = await _counted(client)
    yield found
    for name, number in (await _counted(client)).items():
        if (more := number - before.get(name, 0)) and name != "info":
            found[name] = more


async def _counted(client: redis.Redis) -> dict[str, int]:
    stats = await client.info("commandstats")
    return {name.removeprefix("cmdstat_"): int(each["calls"]) for name, each in stats.items()}
