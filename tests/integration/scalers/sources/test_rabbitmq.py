"""The `rabbitmq` trigger: the arithmetic of its modes, what it refuses, and a real broker over both protocols."""

from pathlib import Path
from typing import Any

import aio_pika
import orjson
import pytest

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.messaging.amqp import AmqpLink
from scalers.sources.messaging.rabbitmq import Depth, RabbitMQ, measure
from scalers.sources.tls import TLS
from tests.integration.scalers.daemons import rabbitmq
from tests.integration.scalers.servers import ask, reading, refusing
from tests.support.certificates import certificates
from tests.support.conditions import eventually
from tests.support.links import relay
from tests.support.tables import cases, for_each


def scaler(host: str, **metadata: str) -> RabbitMQ:
    return RabbitMQ.parse(Trigger(0, "rabbitmq", metadata={"host": host, "queueName": "work", **metadata}))


@cases(
    ("length", Depth(5, 0, 0), "QueueLength", 0, 5, True),
    ("length, not above the activation value", Depth(5, 0, 0), "QueueLength", 5, 5, False),
    ("publish rate", Depth(0, 2, 0), "MessageRate", 0, 2, True),
    ("publish rate, messages activate too", Depth(9, 0, 0), "MessageRate", 0, 0, True),
    ("deliver rate", Depth(9, 0, 3), "DeliverGetRate", 3, 3, False),
    ("ratio", Depth(0, 6, 3), "PublishedToDeliveredRatio", 1, 2, True),
    ("ratio, nothing published", Depth(0, 0, 3), "PublishedToDeliveredRatio", 1, 0, False),
    ("ratio, nothing delivered", Depth(0, 6, 0), "PublishedToDeliveredRatio", 1, 1, True),
    ("ratio, nothing at all", Depth(0, 0, 0), "PublishedToDeliveredRatio", 1, 1, False),
    ("time", Depth(8, 6, 2), "ExpectedQueueConsumptionTime", 1, 6, True),
    ("time, nothing delivered", Depth(8, 6, 0), "ExpectedQueueConsumptionTime", 1, 1, True),
)
def test_modes(depth: Depth, mode: Any, activation: float, value: float, active: bool) -> None:
    assert measure(depth, mode, activation) == Measure(value, active)


def test_several_queues_as_one() -> None:
    depths = [Depth(1, 2, 3), Depth(3, 2, 1)]
    assert Depth.together(depths, "sum") == Depth(4, 4, 4)
    assert Depth.together(depths, "avg") == Depth(2, 2, 2)
    assert Depth.together(depths, "max") == Depth(3, 2, 3)
    assert Depth.together([], "avg") == Depth(0, 0, 0)


@for_each(((), 3.5), (("integer-average",), 3.0))
def test_kedas_average_is_a_whole_number_of_messages(quirks: tuple[str, ...], messages: float) -> None:
    asked = scaler("http://rabbit/", useRegex="true", operation="avg").model_copy(update={"quirks": quirks})
    queues = [{"messages": count, "message_stats": {"publish_details": {"rate": 1.0}}} for count in (3, 4)]
    assert asked.depth(orjson.dumps({"items": [*queues]})) == Depth(messages, 1.0, 0.0)


NEW = {"name": "fresh", "state": "running"}


@for_each(({}, NEW), ({"useRegex": "true"}, {"items": [NEW]}))
def test_a_new_queue_that_was_not_counted_yet_is_unknown_and_named(metadata: dict[str, str], body: Any) -> None:
    with pytest.raises(SourceError, match="queue fresh: the management plugin has not counted its messages yet"):
        scaler("http://rabbit/", **metadata).depth(orjson.dumps(body))


@for_each(("sum", 8), ("avg", 4), ("max", 5))
def test_a_new_queue_does_not_hide_those_that_were_counted(operation: str, messages: float) -> None:
    queues = [{"name": "a", "messages": 3}, NEW, {"name": "b", "messages": 5}]
    asked = scaler("http://rabbit/", useRegex="true", operation=operation)
    assert asked.depth(orjson.dumps({"items": queues})).messages == messages


@for_each(b"[]", b'{"page": 1}', b'{"items": [7]}')
def test_another_answer_is_refused(body: bytes) -> None:
    with pytest.raises(SourceError, match="is not one of the management plugin"):
        scaler("http://rabbit/", useRegex="true").depth(body)


def of(**authentication: str) -> RabbitMQ:
    return RabbitMQ.parse(
        Trigger(
            0,
            "rabbitmq",
            metadata={"host": "https://rabbit:15671/", "queueName": "work"},
            authentication=authentication,
        )
    )


def test_what_the_authentication_says_of_tls_and_tokens() -> None:
    ours = certificates()
    ca, cert, key = ours.authority.strip(), ours.client.strip(), ours.client_key.strip()
    shown = {"ca": ca, "cert": cert, "key": key}
    assert of(**shown, tls="enable").material == TLS(ca, cert, key)
    assert of(ca=ca).material == TLS(ca)
    assert of(**shown, tls="disable").material == TLS(ca)
    assert of(oauthTokenURI="http://t", clientID="c", clientSecret="s").modes == ("oauth",)
    assert of(username="u", password="p").modes == ()


def test_a_target_of_nothing_is_not_the_default_one() -> None:
    assert scaler("amqp://rabbit", mode="QueueLength", value="0").target == 0
    assert scaler("amqp://rabbit", queueLength="3").target == 3
    assert scaler("amqp://rabbit").target == 20


async def test_a_real_broker(tmp_path: Path, connections: Connections) -> None:
    async with rabbitmq(tmp_path) as (amqp, http):
        over_amqp, over_http = f"amqp://guest:guest@127.0.0.1:{amqp}/", f"http://guest:guest@127.0.0.1:{http}/"
        client = await aio_pika.connect(over_amqp)
        channel = await client.channel()
        await channel.set_qos(prefetch_count=2)
        work = await channel.declare_queue("work")
        await channel.declare_queue("work/2")
        for number in range(7):
            message = aio_pika.Message(str(number).encode())
            await channel.default_exchange.publish(message, "work")
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "work/2")

        async def read(*scalers: RabbitMQ) -> list[Any]:
            return [
                answer.value if isinstance(answer, Measure) else answer
                for answer in await RabbitMQ.read(scalers, connections)
            ]

        missing = {"queueName": "none"}
        lengths = await read(scaler(over_amqp), scaler(over_amqp, queueName="work/2"), scaler(over_amqp, **missing))
        assert lengths[:2] == [7.0, 1.0]
        assert isinstance(lengths[2], SourceError)
        assert "no queue 'none'" in str(lengths[2])
        taken = [await work.get(), await work.get()]
        assert await read(scaler(over_amqp)) == [5.0]

        async def counted() -> bool:
            return await read(scaler(over_http), scaler(over_http, excludeUnacknowledged="true")) == [7.0, 5.0]

        await eventually(counted, within=30)
        every = scaler(over_http, queueName="^work", useRegex="true")
        paged = scaler(over_http, queueName="^work", useRegex="true", pageSize="1")

        async def both_counted() -> bool:
            # Each queue tells its numbers at a time of its own.
            return await read(every, scaler(over_http, queueName="work/2")) == [8.0, 1.0]

        await eventually(both_counted, within=30)
        (answer,) = await read(scaler(over_http, **missing))
        assert "answered 404" in str(answer)

        async def cut() -> bool:
            # The plugin sorts pages by statistics that it may not have yet, and answers 500 until then.
            return "pageSize=1" in str((await read(paged))[0])

        await eventually(cut, within=30)
        wrong = Trigger(
            0,
            "rabbitmq",
            metadata={"host": f"amqp://127.0.0.1:{amqp}/", "queueName": "work"},
            authentication={"username": "guest", "password": "wrong-one"},
        )
        with pytest.raises(SourceError, match=r"(?i)access.refused|login was refused") as refused:
            await read(RabbitMQ.parse(wrong))
        assert "wrong-one" not in str(refused.value)
        for each in taken:
            await each.ack()
        await client.close()
        # A connection that breaks is made anew by the second attempt of the same poll.
        with relay() as broken:
            link = broken.link("127.0.0.1", amqp)
            probe = scaler(f"amqp://guest:guest@127.0.0.1:{link.port}/")
            opened = Connections()
            async with reading(5.0, opened) as sources:
                assert await ask(sources, probe) == [Measure(5.0, active=True)]
                async with opened.use(probe.server, lambda: AmqpLink(probe.server), AmqpLink.close) as known:
                    link.cut()
                    await eventually(lambda: not known._connection.connected.is_set())
                link.heal()
                assert await ask(sources, probe) == [Measure(5.0, active=True)]


async def test_a_broker_that_is_not_there(connections: Connections) -> None:
    with pytest.raises(SourceError, match=r"amqp://127\.0\.0\.1:"):
        await RabbitMQ.read([scaler(f"amqp://guest:hush@127.0.0.1:{refusing()}/")], connections)
