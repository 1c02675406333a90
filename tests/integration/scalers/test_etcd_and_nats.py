"""The `etcd` and `nats-jetstream` triggers against real servers."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import nats
import pytest

from scalers.connections import Connections
from scalers.etcd import Etcd
from scalers.nats_jetstream import NATSJetStream
from scalers.parameters import SettingsError, Trigger
from tests.integration.scalers.daemons import free_port, listens, needs, running


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    opened = Connections()
    yield opened
    await opened.close()


async def test_a_real_etcd(tmp_path: Path, connections: Connections) -> None:
    program, port, peer = needs("etcd", "etcd-server"), free_port(), free_port()
    client = f"http://127.0.0.1:{port}"
    command = [program, "--data-dir", str(tmp_path / "data"), "--listen-client-urls", client]
    command += ["--advertise-client-urls", client, "--listen-peer-urls", f"http://127.0.0.1:{peer}"]
    command += ["--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
    command += ["--initial-cluster", f"default=http://127.0.0.1:{peer}"]

    def put(key: str, value: str) -> None:
        pair = {name: base64.b64encode(text.encode()).decode() for name, text in (("key", key), ("value", value))}
        urlopen(f"{client}/v3/kv/put", data=json.dumps(pair).encode()).close()

    def asking(key: str, endpoints: str = f"127.0.0.1:{port}") -> Etcd:
        return Etcd.parse(Trigger(0, "etcd", metadata={"endpoints": endpoints, "watchKey": key, "value": "5"}))

    async with running(command, tmp_path, listens(port)):
        await asyncio.to_thread(put, "work", "12.5")
        await asyncio.to_thread(put, "words", "many")
        await asyncio.to_thread(put, "odd", "NaN")
        answers: list[Any] = list(
            await Etcd.read([asking("work"), asking("none"), asking("words"), asking("odd")], connections)
        )
        assert answers[0] == 12.5
        assert "there is no key none" in str(answers[1])
        assert "is no number" in str(answers[2])
        assert "is nan" in str(answers[3])
        dead = f"127.0.0.1:{free_port()},127.0.0.1:{port}"
        assert await Etcd.read([asking("work", dead)], connections) == [12.5]


async def test_a_real_nats(tmp_path: Path, connections: Connections) -> None:
    program, port, monitoring = needs("nats-server", "nats-server"), free_port(), free_port()
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-m", str(monitoring), "-js", "-sd", str(tmp_path / "js")]

    def asking(stream: str = "WORK", consumer: str = "crunchers") -> NATSJetStream:
        metadata = {"natsServerMonitoringEndpoint": f"127.0.0.1:{monitoring}", "stream": stream, "consumer": consumer}
        return NATSJetStream.parse(Trigger(0, "nats-jetstream", metadata=metadata))

    async def read() -> list[Any]:
        asked = [asking(), asking(stream="NONE"), asking(consumer="nobody")]
        return list(await NATSJetStream.read(asked, connections))

    async with running(command, tmp_path, listens(monitoring)):
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = client.jetstream()
        await stream.add_stream(name="WORK", subjects=["work"])
        subscription = await stream.pull_subscribe("work", durable="crunchers")
        for number in range(7):
            await stream.publish("work", str(number).encode())
        assert (await read())[0] == 7.0
        taken = await subscription.fetch(3)
        assert (await read())[0] == 7.0
        for message in taken[:2]:
            await message.ack_sync()
        answers = await read()
        assert answers[0] == 5.0
        assert "there is no stream NONE" in str(answers[1])
        assert "has no consumer nobody" in str(answers[2])
        await client.close()


@pytest.mark.parametrize(
    ("metadata", "authentication", "field"),
    [
        pytest.param({"endpoints": ""}, {}, "endpoints", id="no endpoints"),
        pytest.param({"endpoints": "a:1,,b:2"}, {}, "endpoints", id="an empty endpoint"),
        pytest.param({"value": "0"}, {}, "value", id="target 0"),
        pytest.param({"value": "inf"}, {}, "value", id="infinite"),
        pytest.param({"watchKey": " "}, {}, "watchKey", id="no key"),
        pytest.param({}, {"username": "u"}, "username", id="a user without a password"),
        pytest.param({}, {"tls": "enable", "cert": "x"}, "cert, key", id="a certificate without a key"),
        pytest.param({}, {"tls": "maybe"}, "tls", id="neither enabled nor disabled"),
    ],
)
def test_etcd_refuses(metadata: dict[str, str], authentication: dict[str, str], field: str) -> None:
    base = {"endpoints": "127.0.0.1:2379", "watchKey": "k", "value": "5"}
    with pytest.raises(SettingsError) as error:
        Etcd.parse(Trigger(0, "etcd", metadata={**base, **metadata}, authentication=authentication))
    assert error.value.field == field


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({"natsServerMonitoringEndpoint": ""}, "natsServerMonitoringEndpoint", id="no endpoint"),
        pytest.param({"stream": ""}, "stream", id="no stream"),
        pytest.param({"lagThreshold": "0"}, "lagThreshold", id="target 0"),
        pytest.param({"lagThreshold": "1.5"}, "lagThreshold", id="half a message"),
        pytest.param({"useHttps": "si"}, "useHttps", id="no truth"),
    ],
)
def test_nats_refuses(metadata: dict[str, str], field: str) -> None:
    base = {"natsServerMonitoringEndpoint": "127.0.0.1:8222", "stream": "s", "consumer": "c"}
    with pytest.raises(SettingsError) as error:
        NATSJetStream.parse(Trigger(0, "nats-jetstream", metadata={**base, **metadata}))
    assert error.value.field == field
