"""A broker that returns with older data: after a restart from an older snapshot, or a fail-over that lost writes."""

from collections.abc import Mapping

import redis.asyncio as redis


async def saved(client: redis.Redis) -> Mapping[bytes, bytes]:
    """Returns all that the broker holds now."""
    return {key: await client.dump(key) for key in await client.keys()}


async def restore(client: redis.Redis, data: Mapping[bytes, bytes]) -> None:
    """Makes this all that the broker holds; the server stays the same one."""
    await client.flushall()
    for key, value in data.items():
        await client.restore(key, 0, value)


async def become_another_server(client: redis.Redis, prefix: str = "test") -> None:
    """Makes the broker's data that of another server, as a restart does."""
    key = f"{{{prefix}}}:generation"
    id_, _, began = (await client.get(key)).split(b" ")
    await client.set(key, b" ".join((id_, b"0123456789abcdef", began)))
