"""Lists and streams on a real master that a real sentinel watches."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.polling.batched import BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.sources.redis.lists import RedisSentinelLists
from scalers.sources.redis.streams import RedisSentinelStreams
from tests.integration.scalers.servers import ask, count_writes, hanging, refusing
from tests.support.conditions import eventually
from tests.support.tables import cases
from tests.support.valkeys import LONG, Watched, sentinel

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240), pytest.mark.broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    folder = tmp_path_factory.mktemp("sentinel")
    async with sentinel(folder, password="hunter2", own_password="swordfish") as made:
        await made.master.ask("RPUSH", "work", 1, 2, 3)
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def connections() -> AsyncIterator[Connections]:
    connections = Connections(patience=2.0)
    yield connections
    await connections.close()


def metadata(servers: Watched, **more: str) -> dict[str, str]:
    return {
        "addresses": f"127.0.0.1:{servers.sentinel.port}",
        "sentinelMaster": "mymaster",
        "sentinelPassword": "swordfish",
        "password": "hunter2",
        **more,
    }


def work(servers: Watched, **more: str) -> RedisSentinelLists:
    more = {"listName": "work", **more}
    return RedisSentinelLists.parse(Trigger(0, "redis-sentinel", metadata=metadata(servers, **more)))


async def test_a_list_is_measured_on_the_master(servers: Watched, connections: Connections) -> None:
    assert await RedisSentinelLists.read([work(servers)], connections) == [3.0]


async def test_many_lists_are_one_round_trip_to_each_server(
    servers: Watched, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    scalers = [work(servers, listName=f"list{number}") for number in range(100)]
    await RedisSentinelLists.read(scalers, connections)
    sent = count_writes(monkeypatch)
    assert await RedisSentinelLists.read(scalers, connections) == [0.0] * 100
    assert len(sent) == 2, "the sentinel and the master"


async def test_the_database_is_chosen(servers: Watched, connections: Connections) -> None:
    assert await RedisSentinelLists.read([work(servers, databaseIndex="5")], connections) == [0.0]


async def test_streams_are_counted(servers: Watched, connections: Connections) -> None:
    await servers.master.client.xadd("stream", {"a": 1})
    trigger = Trigger(0, "redis-sentinel-streams", metadata=metadata(servers, stream="stream"))
    assert await RedisSentinelStreams.read([RedisSentinelStreams.parse(trigger)], connections) == [1.0]


async def test_one_sentinel_that_answers_is_enough_and_is_asked_first_from_then_on(
    servers: Watched, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections.patience = 0.4
    async with hanging() as dead:
        addresses = f"127.0.0.1:{refusing()},127.0.0.1:{dead},127.0.0.1:{servers.sentinel.port}"
        scaler = work(servers, addresses=addresses)
        assert await RedisSentinelLists.read([scaler], connections) == [3.0]
        sent = count_writes(monkeypatch)
        assert await RedisSentinelLists.read([scaler], connections) == [3.0]
        assert len(sent) == 2


@cases(
    ("unknown master", {"sentinelMaster": "other"}, "knows no master other"),
    ("sentinel's", {"sentinelPassword": "wrong-one"}, "login refused|invalid username-password"),
    ("master's password", {"password": "wrong-one"}, "login refused|invalid username-password"),
)
async def test_what_is_wrong_is_named_without_secrets(
    more: Any, complaint: str, servers: Watched, connections: Connections
) -> None:
    with pytest.raises(SourceError, match=complaint) as caught:
        await RedisSentinelLists.read([work(servers, **more)], connections)
    for secret in ("hunter2", "swordfish", "wrong-one"):
        assert secret not in f"{caught.value!r} {caught.value.__cause__!r} {work(servers, **more).server!r}"


async def test_when_the_master_dies_the_length_is_unknown_and_then_right_again(
    servers: Watched, connections: Connections
) -> None:
    """The last test of these servers."""
    measuring = BatchedReader(connections, CircuitBreakers(BreakerPolicy(threshold=1000)), timeout=20.0)
    scaler = work(servers)

    async def poll() -> Measure | str:
        [answer] = await ask(measuring, scaler)
        assert answer == Measure(3.0) or isinstance(answer, str), "never a wrong number, such as nothing"
        return answer

    assert await poll() == Measure(3.0)

    async def copied() -> bool:
        return bool(await servers.replica.ask("LLEN", "work") == 3)

    await eventually(copied)
    servers.master.kill()
    assert isinstance(await poll(), str)

    async def right_again() -> bool:
        return await poll() == Measure(3.0)

    await eventually(right_again, LONG)
