"""Fixtures that every tier shares: brokers (fake and real) with a fresh, empty keyspace per test."""

import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator

import fakeredis
import pytest
import redis.asyncio as redis_async
from hypothesis import HealthCheck, settings

from tests.support.valkeys import ValkeyServer
from workers.logs import JsonLines
from workers.runtime import redis_client

# A slow machine is no defect of the code, and a run must be repeatable: the examples come from the test alone.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# For hunting: HYPOTHESIS_PROFILE=hunt draws new examples, ten times as many.
settings.register_profile("hunt", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


# A shell ignores SIGINT for what it starts in the background, and so would every process that a test starts and stops.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """No test leaves its log handlers and levels to the next: handlers write to a stream that is closed by then."""
    yield
    for package in ("scheduler", "workers", "scalers", "deploy"):
        logging.getLogger(package).setLevel(logging.NOTSET)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler.formatter, JsonLines)]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a real server: PENSTOCK_TEST_REDIS names one (it will be flushed!), else the bundled Valkey."""
    if url := os.environ.get("PENSTOCK_TEST_REDIS"):
        yield url
        return
    with ValkeyServer(config={"notify-keyspace-events": "KEA", "save": ""}) as server:
        yield f"{server.connection_url}/0"


@pytest.fixture
async def redis_url(redis_server: str) -> AsyncIterator[str]:
    """The real server's URL, emptied before and after the test."""
    async with redis_async.Redis.from_url(redis_server, client_name="tests") as client:
        await client.flushall()
        yield redis_server
        await client.flushall()


@pytest.fixture
async def real_redis(redis_url: str) -> AsyncIterator[redis_async.Redis]:
    """A client of the real server (bytes in, bytes out)."""
    async with redis_client.client(redis_url, client_name="tests") as client:
        yield client


@pytest.fixture
async def fake_redis() -> AsyncIterator[redis_async.Redis]:
    """A client of a private in-memory server that runs Lua."""
    # Without the time-out, whose implementation forgets cancellations; workers/runtime/redis_client.py tells more.
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client:
        yield client
