"""Servers that misbehave, and counting what a well-behaved one is asked."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Scaler
from scalers.polling.batched import Answer, BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.sources.redis.lists import RedisLists
from scalers.sources.redis.streams import RedisStreams
from scalers.triggers.parse import SourceKey
from scheduler.broker.fast_path import FastConnection
from tests.support.ports import free_port
from tests.support.servers import behaving, hang


def port_of(url: str) -> int:
    """The port of a server on loopback."""
    return urlsplit(url).port or 6379


def work_list(port: int, name: str = "work", **metadata: str) -> RedisLists:
    """The scaler of one list on a local server."""
    return RedisLists.parse(
        Trigger(0, "redis", metadata={"address": f"127.0.0.1:{port}", "listName": name, **metadata})
    )


def hanging() -> AbstractAsyncContextManager[int]:
    """A server that accepts connections and never answers; yields its port."""
    return behaving(hang)


def work_stream(port: int, name: str = "work", **metadata: str) -> RedisStreams:
    """The scaler of one stream on a local server."""
    metadata = {"address": f"127.0.0.1:{port}", "stream": name, **metadata}
    return RedisStreams.parse(Trigger(0, "redis-streams", metadata=metadata))


@asynccontextmanager
async def reading(
    timeout: float, connections: Connections | None = None, **policy: Any
) -> AsyncIterator[BatchedReader]:
    """A reader with that time-out (seconds) and breaker policy; closed, with its connections, at the end."""
    made = BatchedReader(connections or Connections(), CircuitBreakers(BreakerPolicy(**policy)), timeout=timeout)
    try:
        yield made
    finally:
        await made.close()


async def ask(reader: BatchedReader, *scalers: Scaler) -> list[Answer]:
    """The answers of scalers of one server, each of which is another object's."""
    askers = [(f"{place}", repr(scaler)) for place, scaler in enumerate(scalers)]
    return await reader.read(SourceKey.of(scalers[0], 1), scalers, 1, askers)


def refusing() -> int:
    """A port on which nobody listens, nor will."""
    return free_port()


async def commands(client: Redis) -> dict[str, int]:
    """How often each command was called so far."""
    stats = await client.info("commandstats")
    return {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}


async def rejected(client: Redis, command: str) -> int:
    """How often the server refused this command so far."""
    stats = await client.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("rejected_calls", 0))


async def kill_measuring(client: Redis) -> int:
    """Cut the connections that measure or listen: those without a name that are younger than the test's own."""
    own = await client.client_id()
    others = [other for other in await client.client_list() if not other["name"] and int(other["id"]) > own]
    for other in others:
        await client.client_kill_filter(_id=other["id"])
    return len(others)


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record each time a client of this process sends something."""
    sent: list[int] = []
    original = FastConnection.send_packed_command

    async def send(self: FastConnection, command: object, check_health: bool = True) -> None:
        sent.append(1)
        await original(self, command, check_health)  # type: ignore[arg-type]

    monkeypatch.setattr(FastConnection, "send_packed_command", send)
    return sent
