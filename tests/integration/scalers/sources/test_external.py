"""The `external` and `external-push` triggers against a real gRPC server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.scaler import Measure, SourceError
from scalers.sources.external.grpc_client import ExternalClient
from scalers.sources.external.trigger import External
from scalers.wakeups.stream_listener import PushListener
from tests.integration.scalers.external_server import ExternalServer, asking, external
from tests.integration.scalers.servers import ask, hanging, reading, refusing
from tests.integration.scalers.test_wakeups import connected, running, settled, until, wakeups_of, woken
from tests.integration.scalers.world import build, scaled_job
from tests.support.certificates import certificates
from tests.support.servers import relayed
from tests.support.tables import cases, for_each


@pytest.fixture
async def server() -> AsyncIterator[ExternalServer]:
    async with external() as running:
        yield running


SPEC, VALUE = {"metricName": "depth", "targetSize": 5}, {"metricName": "depth", "metricValue": 12}


@cases(
    ("whole numbers", [SPEC], [VALUE], True, Measure(12, True, target=5)),
    ("activity is the server's to say", [SPEC], [VALUE], False, Measure(12, False, target=5)),
    ("no metric: nothing to measure, and not active", [], [VALUE], True, Measure(0, False, target=0)),
    ("no value is nothing, and still active", [SPEC], [], True, Measure(0, True, target=5)),
    ("several values are added", [SPEC], [VALUE, VALUE], True, Measure(24, True, target=5)),
    (
        "fractions come first",
        [{**SPEC, "targetSizeFloat": 2.5}],
        [{**VALUE, "metricValueFloat": 0.5}],
        True,
        Measure(0.5, True, target=2.5),
    ),
    (
        "unless they are not above 0",
        [{**SPEC, "targetSizeFloat": -1.0}],
        [{**VALUE, "metricValueFloat": -0.5}],
        True,
        Measure(12, True, target=5),
    ),
    (
        "two metrics: the mean target, the value of the first",
        [SPEC, {"metricName": "age", "targetSize": 15}],
        [VALUE],
        True,
        Measure(12, True, target=10),
    ),
    ("two metrics of one name: both values", [SPEC, SPEC], [VALUE], True, Measure(24, True, target=5)),
)
async def test_what_the_answers_mean(
    specs: list[dict[str, Any]],
    values: list[dict[str, Any]],
    active: bool,
    expected: Measure,
    server: ExternalServer,
    connections: Connections,
) -> None:
    server.specs, server.values, server.active = specs, values, active
    assert await External.read([asking(server.address)], connections) == [expected]


async def test_what_the_server_is_told(server: ExternalServer, connections: Connections) -> None:
    trigger = asking(
        server.address, {"TOKEN": "hush"}, tokenFromEnv="TOKEN", lostFromEnv="NONE", anything="goes", unsafeSsl="false"
    )
    await External.read([trigger], connections)
    [first, second, third] = server.asked
    assert [first[0], second[0], third[0]] == ["GetMetricSpec", "GetMetrics", "IsActive"]
    for reference in (first[1], second[1].scaledObjectRef, third[1]):
        assert (reference.namespace, reference.name) == ("team", "work")
        assert dict(reference.scalerMetadata) == {
            "scalerAddress": server.address,
            "tokenFromEnv": "hush",
            "anything": "goes",
            "unsafeSsl": "false",
        }
    assert second[1].metricName == "depth"
    assert "hush" not in repr(trigger) + repr(trigger.server)


@for_each("GetMetricSpec", "GetMetrics", "IsActive")
async def test_a_call_that_fails_is_an_error_of_its_trigger(
    method: str, server: ExternalServer, connections: Connections
) -> None:
    server.failing[method] = "no disk for hush-hush"
    trigger = asking(server.address, {"TOKEN": "hush-hush"}, tokenFromEnv="TOKEN")
    [answer] = await External.read([trigger], connections)
    assert isinstance(answer, SourceError)
    assert str(answer) == f"{server.address}: {method}: INTERNAL: no disk for ***"


async def test_a_metric_that_fails_leaves_the_others_of_a_scaledobject(
    server: ExternalServer, connections: Connections
) -> None:
    server.specs = [SPEC, {"metricName": "age", "targetSize": 4}]
    server.failing["GetMetrics age"] = "no disk for hush-hush"
    trigger = asking(server.address, {"TOKEN": "hush-hush"}, tokenFromEnv="TOKEN", kind="ScaledObject")
    reason = f"{server.address}: GetMetrics: INTERNAL: no disk for ***"
    assert await External.read([trigger], connections) == [Measure(12, True, target=5, incomplete=reason)]


async def test_all_triggers_of_an_address_share_a_channel(server: ExternalServer, connections: Connections) -> None:
    scalers = [asking(server.address, owner=f"work-{number}") for number in range(20)]
    assert len({one.server for one in scalers}) == 1
    assert await External.read(scalers, connections) == [Measure(12, True, target=5)] * 20
    assert {reference.name for reference in server.named("IsActive")} == {f"work-{number}" for number in range(20)}
    assert len(server.peers) == 1


async def test_tls_both_ways(connections: Connections) -> None:
    ours, theirs = certificates(), certificates("others")
    async with external(tls=ours) as server:
        shown = {"tlsClientCert": ours.client, "tlsClientKey": ours.client_key}
        good = asking(server.address, caCert=ours.authority, **shown)
        assert await External.read([good], connections) == [Measure(12, True, target=5)]
        strangers = (
            asking(server.address, caCert=theirs.authority, **shown),
            asking(server.address, caCert=ours.authority),
            asking(server.address),
        )
        for stranger in strangers:
            with pytest.raises(SourceError, match="UNAVAILABLE"):
                await External.read([stranger], connections)


async def test_a_server_that_is_not_there_or_silent_is_unknown() -> None:
    async with hanging() as port, reading(1.0, threshold=9) as sources:
        for each, said in ((refusing(), "UNAVAILABLE"), (port, "")):
            [answer] = await ask(sources, asking(f"127.0.0.1:{each}"))
            assert isinstance(answer, str)
            assert answer.startswith(f"127.0.0.1:{each}: ")
            assert said in answer


async def test_a_connection_without_an_answer_is_given_up() -> None:
    opened = Connections()
    async with hanging() as port, reading(0.5, opened) as sources:
        probe = asking(f"127.0.0.1:{port}")
        address = probe.server
        async with opened.use(address, lambda: ExternalClient(address), ExternalClient.close) as silent:
            await ask(sources, probe)
        async with opened.use(address, lambda: ExternalClient(address), ExternalClient.close) as client:
            assert client is not silent


async def test_a_server_that_comes_back_is_measured_again(connections: Connections) -> None:
    port = refusing()
    trigger = asking(f"127.0.0.1:{port}")
    with pytest.raises(SourceError, match="UNAVAILABLE"):
        await External.read([trigger], connections)
    async with external(port):
        connections.retire(trigger.server)
        assert await External.read([trigger], connections) == [Measure(12, True, target=5)]


async def test_a_push_wakes_its_object_at_once(real_redis: Redis, server: ExternalServer) -> None:
    world = await build(real_redis)
    async with running(wakeups_of(world)) as wakeups, world.polling(wakeups=wakeups) as polling:
        trigger = {"type": "external-push", "metadata": {"scalerAddress": server.address}}
        await world.apply(scaled_job("work", trigger))
        await polling.once()
        reading = await world.reading("work")
        assert [(one.value, one.target, one.active) for one in reading.samples] == [(12, 5, True)]
        await connected(wakeups)
        await settled(world)
        for _ in range(2):
            server.pushes.put_nowait(True)
            assert await woken(world) == {"work"}
        await world.delete(scaled_job("work", trigger))
        await polling.again("work")
        await until(lambda: asyncio.sleep(0, server.streams == 0))


async def listen(address: str, heard: list[str], backoff: tuple[float, float]) -> tuple[PushListener, Any]:
    trigger = asking(address)
    listener = PushListener(trigger.server, lambda woken: heard.extend(one.name for one in woken), backoff=backoff)
    listener.follow([trigger._reference])
    return listener, asyncio.create_task(listener.run())


async def test_a_server_that_pushes_that_nothing_is_active_wakes_nothing(server: ExternalServer) -> None:
    heard: list[str] = []
    _, task = await listen(server.address, heard, (0.01, 0.1))
    try:
        await until(lambda: asyncio.sleep(0, heard == ["work"]))
        for push in (False, False, True):
            server.pushes.put_nowait(push)
        await until(lambda: asyncio.sleep(0, len(heard) > 1))
        assert heard == ["work", "work"]
    finally:
        await ended(task)


@for_each("ended by the server", "broken by the server", "lost with the server")
async def test_a_stream_is_opened_again(how: str) -> None:
    heard: list[str] = []
    async with external() as server:
        listener, task = await listen(server.address, heard, (0.01, 0.1))
        try:
            await until(lambda: asyncio.sleep(0, server.streams == 1))
            if how != "lost with the server":
                server.pushes.put_nowait(None if how.startswith("ended") else RuntimeError("disk"))
                await until(lambda: asyncio.sleep(0, len(server.named("StreamIsActive")) == 2))
            port = server.port
        finally:
            if how != "lost with the server":
                server.pushes.put_nowait(True)
                await until(lambda: asyncio.sleep(0, len(heard) >= 3))
                assert listener.status().connected
                await ended(task)
    if how == "lost with the server":
        await until(lambda: asyncio.sleep(0, listener.status().detail))
        assert not listener.status().connected
        async with external(port) as again:
            await until(lambda: asyncio.sleep(0, again.streams == 1))
            again.pushes.put_nowait(True)
            await until(lambda: asyncio.sleep(0, listener.status().connected))
            await ended(task)


async def test_a_connection_that_the_network_lost_without_a_word_ends_its_stream(server: ExternalServer) -> None:
    async with relayed(server.port) as way:
        trigger = asking(f"127.0.0.1:{way.port}")
        client = ExternalClient(trigger.server, keepalive=(0.5, 0.5))
        pushes = client.pushes(trigger._reference.message())
        try:
            assert not await anext(pushes)
            way.going.clear()
            with pytest.raises(SourceError, match="StreamIsActive: UNAVAILABLE"):
                await asyncio.wait_for(anext(pushes), 60)
        finally:
            way.going.set()
            await client.close()


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_any_certificate_is_trusted_where_that_is_asked_for(connections: Connections) -> None:
    ours, theirs = certificates(), certificates("others")
    shown = {"tlsClientCert": ours.client, "tlsClientKey": ours.client_key}
    async with external(tls=ours) as server:
        unsafe = asking(server.address, enableTLS="true", unsafeSsl="true", **shown)
        assert await External.read([unsafe], connections) == [Measure(12, True, target=5)]
        elsewhere = asking(server.address.replace("127.0.0.1", "localhost"), unsafeSsl="true", **shown)
        assert await External.read([elsewhere], connections) == [Measure(12, True, target=5)]
        other = asking(server.address, unsafeSsl="true", caCert=theirs.authority, **shown)
        assert await External.read([other], connections) == [Measure(12, True, target=5)]
        safe = asking(server.address, enableTLS="true", **shown)
        with pytest.raises(SourceError, match="UNAVAILABLE"):
            await External.read([safe], connections)
    plain = asking(f"127.0.0.1:{refusing()}", enableTLS="true", unsafeSsl="true")
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:\d+: .*Connect call failed"):
        await External.read([plain], connections)
