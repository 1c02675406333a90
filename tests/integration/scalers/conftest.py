"""Fixtures of the tests of polling, wake-ups and triggers."""

import gc
import warnings
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from tests.integration.scalers.servers import port_of
from tests.integration.scalers.world import World, build


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    opened = Connections()
    yield opened
    await opened.close()


@pytest.fixture
def port(redis_url: str) -> int:
    """The port of the real server, which is empty."""
    return port_of(redis_url)


@pytest.fixture
async def world(real_redis: Redis) -> World:
    return await build(real_redis)


@pytest.fixture
def sockets_of_pymongo() -> Iterator[None]:
    """pymongo leaves the socket of a monitor that it cancelled to the garbage collector: not to the next test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
