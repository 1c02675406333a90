"""What tests of controllers share: a client of the running cluster, the broker behind it, and a source of work."""

from collections.abc import AsyncIterator, Iterator

import pytest
import redis.asyncio as redis

from tests.support.house import House
from tests.support.valkeys import ValkeyServer
from workers.client.rest import Cluster


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


@pytest.fixture
async def broker(running: House) -> AsyncIterator[redis.Redis]:
    async with redis.Redis.from_url((running.home / "broker.url").read_text().strip()) as client:
        yield client


@pytest.fixture(scope="module")
def source() -> Iterator[ValkeyServer]:
    """A server that notifies of pushes to lists and streams and of deleted keys."""
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "Klgt"}) as server:
        yield server


@pytest.fixture
async def queue(source: ValkeyServer) -> AsyncIterator[redis.Redis]:
    """A client of the source."""
    async with redis.Redis(port=source.port) as client:
        yield client
