"""The clock of a broker, which dates everything in it."""

import redis.asyncio as redis


async def now(client: redis.Redis) -> int:
    """Microseconds since the epoch."""
    seconds, micros = await client.time()
    return int(seconds) * 1_000_000 + int(micros)
