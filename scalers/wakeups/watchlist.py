"""Which objects wait on sources that can wake them, shared by every scaler process through the broker.

Only keys and spec versions are shared. Where the servers are and how to log in, each process works out for itself
from the object, so that no credential is ever copied into the broker.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from redis.asyncio import Redis

from scheduler.keys import Keys


class Watchlist:
    """A hash of tags by object key, and a version that changes with it.

    A tag tells one spec of one object from all others. Every call raises redis.exceptions.RedisError when the broker
    refuses or cannot be reached.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._hash = f"{keys.tag}:wakeups"
        self._version = f"{keys.tag}:wakeups:version"
        self._seen: bytes | None = None

    async def add(self, tags: Mapping[str, str]) -> None:
        """These objects wait on something that can wake them."""
        if tags:
            await self._change("hset", *(part for item in tags.items() for part in item))

    async def remove(self, keys: Iterable[str]) -> None:
        """These objects no longer do."""
        if unwanted := list(keys):
            await self._change("hdel", *unwanted)

    async def news(self) -> Mapping[str, str] | None:
        """All tags by key, or None when nothing changed since the last call; an emptied broker is a change."""
        version: Any = await self._client.get(self._version)
        if version is not None and version == self._seen:
            return None
        tags: Mapping[Any, Any] = await self._client.hgetall(self._hash)
        self._seen = version
        return {key.decode(): tag.decode() for key, tag in tags.items()}

    async def _change(self, command: str, *args: str) -> None:
        # A random version rather than a count, which would start again after the broker was emptied.
        pipeline = self._client.pipeline(transaction=True)
        pipeline.execute_command(command, self._hash, *args)
        pipeline.set(self._version, uuid.uuid4().hex)
        await pipeline.execute()
