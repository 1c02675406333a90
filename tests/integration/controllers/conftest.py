"""What tests of controllers share: a client of the running cluster, the broker behind it, and a source of work."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import redis.asyncio as redis

from tests.integration.controllers import role_scenario
from tests.support.house import House
from tests.support.role_rig import Running
from tests.support.terminal import PATIENCE
from tests.support.valkeys import ValkeyServer
from workers.client.rest import Cluster


@pytest.fixture(scope="module")
def scenario(running: Running) -> Iterator[Mapping[str, "Future[None]"]]:
    """Everything of the scenario of the roles at once; by name, the proof that it works."""

    def happens(kind: Callable[[Running], Callable[[], bool]]) -> None:
        role_scenario.until(kind(running), kind.__name__, 2 * PATIENCE)

    with ThreadPoolExecutor(6) as pool:
        yield {kind.__name__: pool.submit(happens, kind) for kind in role_scenario.KINDS}


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
