"""The commands that a Redis server was sent, by its own count."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import redis.asyncio as redis
from redis.asyncio.connection import AbstractConnection

from scheduler.broker.fast_path import FastConnection


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


async def at_rest(client: redis.Redis, connections: int = 8) -> None:
    """Opens so many connections of the client's pool: opening one is a round by itself.

    How many are open otherwise depends on which answers came before which commands.
    """
    pool = client.connection_pool
    taken = [await pool.get_connection() for _ in range(connections)]
    for connection in taken:
        await pool.release(connection)


@contextmanager
def rounds_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts how often in a row this process waits for a server: the commands of each round, sent before an answer.

    What is sent side by side, on however many connections, is one round.
    """
    rounds: list[int] = []
    answered = True
    # Connections of the product; those that a test opens itself are not counted.
    send, read = FastConnection.send_packed_command, AbstractConnection.read_response

    async def sending(self: FastConnection, command: object, check_health: bool = True) -> None:
        nonlocal answered
        if answered:
            rounds.append(0)
        answered = False
        rounds[-1] += 1
        await send(self, command, check_health)  # type: ignore[arg-type]

    async def reading(self: AbstractConnection, *args: Any, **options: Any) -> Any:
        nonlocal answered
        try:
            return await read(self, *args, **options)
        finally:
            answered = True

    with monkeypatch.context() as patched:
        patched.setattr(FastConnection, "send_packed_command", sending)
        patched.setattr(AbstractConnection, "read_response", reading)
        yield rounds
