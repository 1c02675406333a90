"""Lists and streams on a real cluster of three masters."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis import exceptions
from redis.crc import key_slot

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.polling.batched import Answer, BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.sources.redis.lists import RedisClusterLists
from scalers.sources.redis.streams import RedisClusterStreams
from tests.integration.scalers.servers import ask, count_writes, refusing
from tests.support.conditions import eventually
from tests.support.valkeys import LONG, SLOTS, Cluster, Server, cluster

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240), pytest.mark.broker]

NAMES = [f"list{number}" for number in range(60)]
LENGTHS = [float(number % 5) for number in range(60)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path_factory.mktemp("cluster")) as made:
        for name, length in zip(NAMES, LENGTHS, strict=True):
            for _ in range(int(length)):
                await owner(made, name).ask("RPUSH", name, "x")
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def connections() -> AsyncIterator[Connections]:
    connections = Connections(patience=2.0)
    yield connections
    await connections.close()


def owner(servers: Cluster, name: str) -> Server:
    """The master that the slot of this key was given to at first."""
    return servers.masters[next(n for n in (0, 1, 2) if key_slot(name.encode()) < SLOTS * (n + 1) // 3)]


def lists(addresses: str, *names: str, **metadata: str) -> list[RedisClusterLists]:
    return [
        RedisClusterLists.parse(
            Trigger(0, "redis-cluster", metadata={"addresses": addresses, "listName": name, **metadata})
        )
        for name in names
    ]


def sources(connections: Connections, timeout: float = 20.0) -> BatchedReader:
    return BatchedReader(connections, CircuitBreakers(BreakerPolicy(threshold=1000)), timeout=timeout)


async def poll(sources: BatchedReader, scalers: list[Any]) -> list[Answer]:
    """Measured as polling does it: what fails is asked once more."""
    return await ask(sources, *scalers)


async def test_every_list_is_measured_where_it_is(servers: Cluster, connections: Connections) -> None:
    assert len({owner(servers, name).port for name in NAMES}) == 3
    assert await RedisClusterLists.read(lists(servers.addresses, *NAMES), connections) == LENGTHS


async def test_lists_are_one_round_trip_per_node(
    servers: Cluster, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    scalers = lists(servers.addresses, *NAMES)
    await RedisClusterLists.read(scalers, connections)
    sent = count_writes(monkeypatch)
    assert await RedisClusterLists.read(scalers, connections) == LENGTHS
    assert len(sent) == 3


async def test_streams_are_counted_in_every_mode(servers: Cluster, connections: Connections) -> None:
    scalers = []
    for name in ("stream-a", "stream-b", "stream-c"):
        node = owner(servers, name).client
        for number in range(4):
            await node.xadd(name, {"n": number})
        await node.xgroup_create(name, "group", id="0")
        await node.xreadgroup("group", "c", {name: ">"}, count=1)
        for more in ({}, {"consumerGroup": "group"}, {"consumerGroup": "group", "lagCount": "1"}):
            metadata = {"addresses": servers.addresses, "stream": name, **more}
            scalers.append(RedisClusterStreams.parse(Trigger(0, "redis-cluster-streams", metadata=metadata)))
    assert await RedisClusterStreams.read(scalers, connections) == [4.0, 1.0, 3.0] * 3


async def test_one_node_is_enough_to_find_the_others(servers: Cluster, connections: Connections) -> None:
    addresses = f"127.0.0.1:{refusing()},127.0.0.1:{servers.replica.port}"
    assert await RedisClusterLists.read(lists(addresses, *NAMES), connections) == LENGTHS


async def test_nodes_that_are_not_there_are_all_named(connections: Connections) -> None:
    addresses = [f"127.0.0.1:{refusing()}" for _ in range(2)]
    with pytest.raises(SourceError) as caught:
        await RedisClusterLists.read(lists(",".join(addresses), "list1"), connections)
    assert all(address in str(caught.value) for address in addresses)


async def test_a_server_that_is_no_cluster_says_so(redis_server: str, connections: Connections) -> None:
    address = redis_server.removeprefix("redis://").rpartition("/")[0]
    with pytest.raises(SourceError, match="cluster support disabled"):
        await RedisClusterLists.read(lists(address, "list1"), connections)


async def test_a_refused_login_is_an_error_without_secrets(servers: Cluster, connections: Connections) -> None:
    with pytest.raises(SourceError, match="login refused") as caught:
        await RedisClusterLists.read(lists(servers.addresses, "list1", username="me", password="hunter2"), connections)
    assert "hunter2" not in f"{caught.value!r}"


async def test_a_wrong_type_says_nothing_about_the_others(servers: Cluster, connections: Connections) -> None:
    await owner(servers, "text").ask("SET", "text", "x")
    wrong, right = await RedisClusterLists.read(lists(servers.addresses, "text", "list1"), connections)
    assert isinstance(wrong, SourceError)
    assert "text: WRONGTYPE" in str(wrong)
    assert right == 1.0


async def test_a_node_that_hangs_says_nothing_about_the_others(servers: Cluster) -> None:
    connections = Connections(patience=0.3)
    stopped = servers.masters[2]
    try:
        measuring = sources(connections)
        await poll(measuring, lists(servers.addresses, *NAMES))
        stopped.pause()
        answers = await poll(measuring, lists(servers.addresses, *NAMES))
    finally:
        stopped.resume()
        await connections.close()
    for name, length, answer in zip(NAMES, LENGTHS, answers, strict=True):
        if owner(servers, name) is stopped:
            assert answer == f"127.0.0.1:{stopped.port}: no answer within 0.3 s"
        else:
            assert answer == Measure(length)
    await servers.agree()


async def test_a_node_that_is_asked_alone_and_hangs_is_not_the_cluster(servers: Cluster) -> None:
    connections = Connections(patience=0.3)
    stopped, [lost, *_] = servers.masters[2], [name for name in NAMES if owner(servers, name) is servers.masters[2]]
    try:
        measuring = BatchedReader(connections, CircuitBreakers(BreakerPolicy(threshold=1, base=3600)), timeout=20.0)
        assert await poll(measuring, lists(servers.addresses, *NAMES)) == [Measure(length) for length in LENGTHS]
        stopped.pause()
        assert await poll(measuring, lists(servers.addresses, lost)) == [
            f"127.0.0.1:{stopped.port}: no answer within 0.3 s"
        ]
        [other, *_] = [name for name in NAMES if owner(servers, name) is servers.masters[0]]
        [answer] = await poll(measuring, lists(servers.addresses, other))
    finally:
        stopped.resume()
        await connections.close()
    assert answer == Measure(LENGTHS[NAMES.index(other)])
    await servers.agree()


async def test_a_list_is_right_while_and_after_its_slot_moves(servers: Cluster, connections: Connections) -> None:
    measuring = sources(connections)
    # Two lists of one slot, on the second master: the first one is moved, the second stays until the slot is given.
    moved, stays = "{moving}:moved", "{moving}:stays"
    slot, source = key_slot(b"{moving}"), owner(servers, moved)
    [target] = [master for master in servers.masters[1:] if master is not source][:1]
    for name, length in ((moved, 3), (stays, 2)):
        await source.ask("RPUSH", name, *range(length))
    source_id, target_id = [await node.ask("CLUSTER", "MYID") for node in (source, target)]
    scalers = lists(servers.addresses, moved, stays, "{moving}:none")
    right = [Measure(3.0), Measure(2.0), Measure(0.0)]
    assert await poll(measuring, scalers) == right

    await target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    await source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    await source.ask("MIGRATE", "127.0.0.1", target.port, moved, 0, 5000)
    with pytest.raises(exceptions.AskError):
        await source.ask("LLEN", moved)
    assert await RedisClusterLists.read(scalers, connections) == [3.0, 2.0, 0.0], "in one attempt"

    await source.ask("MIGRATE", "127.0.0.1", target.port, stays, 0, 5000)
    for node in (target, source, *servers.masters):
        await node.ask("CLUSTER", "SETSLOT", slot, "NODE", target_id)
    with pytest.raises(exceptions.MovedError):
        await source.ask("LLEN", moved)
    assert await poll(measuring, scalers) == right, "at the second attempt of the same poll"


async def test_when_a_master_dies_its_lists_are_unknown_and_then_right_again(
    servers: Cluster, connections: Connections
) -> None:
    """The last test of this cluster."""
    measuring, scalers = sources(connections), lists(servers.addresses, *NAMES)
    dead = servers.masters[0]
    assert await poll(measuring, scalers) == [Measure(length) for length in LENGTHS]
    await servers.agree()
    dead.kill()
    unknown = 0

    async def right_again() -> bool:
        nonlocal unknown
        answers = await poll(measuring, scalers)
        for name, length, answer in zip(NAMES, LENGTHS, answers, strict=True):
            # Never a wrong number, such as nothing; and no other master's lists are touched before the election.
            assert answer == Measure(length) or isinstance(answer, str), name
            unknown += isinstance(answer, str)
        return all(isinstance(answer, Measure) for answer in answers)

    assert not await right_again(), "a dead master's lists cannot be known"
    await eventually(right_again, LONG)
    assert unknown
