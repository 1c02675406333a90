"""Redis clients whose calls can be cancelled.

redis-py sends every command under `asyncio.wait_for`. Before Python 3.12 that swallows a cancellation that arrives in
the moment its inner task is done: the call returns normally, and the cancelled task runs on for ever. These connections
detect that and raise the cancellation after all.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import redis.asyncio as redis
from redis.asyncio.connection import BlockingConnectionPool, Connection, SSLConnection, UnixDomainSocketConnection

#: Seconds a call waits for a connection when all are taken.
PATIENCE = 10.0


class _Cancellable:
    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        await super().send_packed_command(command, check_health)  # type: ignore[misc]
        if task and task.cancelling() > before:
            # The command was sent; its answer must not be read as the next command's.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError


class _Plain(_Cancellable, Connection):
    pass


class _Tls(_Cancellable, SSLConnection):
    pass


class _Socket(_Cancellable, UnixDomainSocketConnection):
    pass


_CANCELLABLE: dict[type[Any], type[Any]] = {
    Connection: _Plain,
    SSLConnection: _Tls,
    UnixDomainSocketConnection: _Socket,
}


def client(url: str, **options: Any) -> redis.Redis:
    """Returns a client with a pool of its own; options are those of `redis.asyncio.Redis.from_url`.

    A call that finds all `max_connections` taken waits up to `PATIENCE` for one instead of failing at once.
    """
    pool = BlockingConnectionPool.from_url(url, timeout=PATIENCE, **options)
    pool.connection_class = _CANCELLABLE[pool.connection_class]
    return redis.Redis.from_pool(pool)
