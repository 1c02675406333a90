"""The `etcd` and `nats-jetstream` triggers against real servers."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import nats
import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.parameters import Trigger
from scalers.sources.http.etcd import Etcd, EtcdServer, WatchedKey, encoded
from scalers.sources.http.web import HttpAnswer, Session
from scalers.sources.messaging.nats_jetstream import NATSJetStream
from scalers.wakeups.stream_listener import EtcdListener
from tests.integration.scalers.daemons import listens, needs, running
from tests.integration.scalers.servers import refusing
from tests.integration.scalers.test_wakeups import connected, settled, wakeups_of, woken
from tests.integration.scalers.test_wakeups import running as listening
from tests.integration.scalers.world import build, scaled_job
from tests.support.conditions import eventually
from tests.support.ports import free_port


@dataclass(frozen=True)
class EtcdLab:
    """A real etcd on loopback."""

    port: int

    def _post(self, path: str, body: dict[str, Any], token: str = "") -> Any:
        headers = {"Authorization": token} if token else {}
        with urlopen(
            Request(f"http://127.0.0.1:{self.port}/v3/{path}", json.dumps(body).encode(), headers)
        ) as response:
            return json.load(response)

    async def put(self, key: str, value: str, login: tuple[str, str] | None = None) -> None:
        token = ""
        if login:
            answer = await asyncio.to_thread(self._post, "auth/authenticate", {"name": login[0], "password": login[1]})
            token = answer["token"]
        await asyncio.to_thread(self._post, "kv/put", {"key": encoded(key), "value": encoded(value)}, token)

    async def with_users(self) -> None:
        """Whoever asks must log in from now on."""
        for path, body in (
            ("user/add", {"name": "root", "password": "hush"}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            await asyncio.to_thread(self._post, f"auth/{path}", body)

    async def forget_tokens(self) -> None:
        """The tokens of a user end with a change of the password, here to the same one."""
        login = {"name": "root", "password": "hush"}
        answer = await asyncio.to_thread(self._post, "auth/authenticate", login)
        await asyncio.to_thread(self._post, "auth/user/changepw", login, answer["token"])

    def asking(self, key: str, endpoints: str = "", **authentication: str) -> Etcd:
        metadata = {"endpoints": endpoints or f"127.0.0.1:{self.port}", "watchKey": key, "value": "5"}
        return Etcd.parse(Trigger(0, "etcd", metadata=metadata, authentication=authentication))


@pytest.fixture
async def etcd(tmp_path: Path) -> AsyncIterator[EtcdLab]:
    program, port, peer = needs("etcd", "etcd-server"), free_port(), free_port()
    client = f"http://127.0.0.1:{port}"
    command = [program, "--data-dir", str(tmp_path / "data"), "--listen-client-urls", client]
    command += ["--advertise-client-urls", client, "--listen-peer-urls", f"http://127.0.0.1:{peer}"]
    command += ["--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
    command += ["--initial-cluster", f"default=http://127.0.0.1:{peer}"]
    async with running(command, tmp_path, listens(port)):
        yield EtcdLab(port)


async def test_a_real_etcd(etcd: EtcdLab, connections: Connections) -> None:
    await etcd.put("work", "12.5")
    await etcd.put("words", "many")
    await etcd.put("odd", "NaN")
    asked = [etcd.asking(key) for key in ("work", "none", "words", "odd")]
    answers: list[Any] = list(await Etcd.read(asked, connections))
    assert answers[0] == 12.5
    assert "there is no key none" in str(answers[1])
    assert "is no number" in str(answers[2])
    assert "is nan" in str(answers[3])
    dead = f"127.0.0.1:{free_port()},127.0.0.1:{etcd.port}"
    assert await Etcd.read([etcd.asking("work", dead)], connections) == [12.5]


async def test_a_login_lasts_until_its_token_is_refused(
    etcd: EtcdLab, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    await etcd.put("work", "1")
    await etcd.put("more", "2")
    await etcd.with_users()
    logins: list[str] = []
    request = Etcd.request

    async def counted(self: Etcd, session: Session, path: str, *args: Any, **more: Any) -> HttpAnswer:
        logins.extend([path] if path == "/v3/auth/authenticate" else [])
        return await request(self, session, path, *args, **more)

    monkeypatch.setattr(Etcd, "request", counted)
    asked = [etcd.asking(key, username="root", password="hush") for key in ("work", "more")]
    for _ in range(2):
        assert await Etcd.read(asked, connections) == [1.0, 2.0]
    assert len(logins) == 1
    await etcd.forget_tokens()
    assert await Etcd.read(asked, connections) == [1.0, 2.0]
    assert len(logins) == 2
    [wrong] = await Etcd.read([etcd.asking("work", username="root", password="false")], connections)
    assert "answered 400" in str(wrong)
    assert "false" not in str(wrong)


async def test_changes_in_etcd_wake_and_others_do_not(etcd: EtcdLab, connections: Connections) -> None:
    await etcd.with_users()
    dead = f"127.0.0.1:{free_port()},127.0.0.1:{etcd.port}"
    asking = etcd.asking("work", dead, username="root", password="hush")
    heard: list[str] = []
    listener = EtcdListener(asking.server, lambda names: heard.extend(name.key for name in names))
    listener.follow([*asking.watched, WatchedKey("other", 60.0)])
    task = asyncio.create_task(listener.run())
    try:
        await eventually(lambda: sorted(heard) == ["other", "work"])
        assert listener.status().connected
        await etcd.put("elsewhere", "1", login=("root", "hush"))
        await etcd.put("work", "1", login=("root", "hush"))
        await eventually(lambda: sorted(heard) == ["other", "work", "work"])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_watch_that_breaks_is_told_and_made_anew(etcd: EtcdLab) -> None:
    lost = EtcdServer("http://127.0.0.1:1", endpoints=(f"http://127.0.0.1:{refusing()}",))
    listener = EtcdListener(lost, lambda names: None, backoff=(0.01, 0.01))
    refused = EtcdListener(
        replace(lost, endpoints=(f"http://127.0.0.1:{etcd.port}",), username="nobody", password="hush"),
        lambda names: None,
        backoff=(0.01, 0.01),
    )
    tasks = [asyncio.create_task(each.run()) for each in (listener, refused)]
    try:
        for each, reason in ((listener, "Cannot connect"), (refused, "login is refused")):
            each.follow([WatchedKey("work", 60.0)])
            await eventually(lambda each=each: each.status().detail is not None)  # type: ignore[misc]
            status = each.status()
            assert not status.connected
            assert reason in str(status.detail)
            assert "hush" not in str(status)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_changed_key_wakes_its_object(real_redis: Redis, etcd: EtcdLab) -> None:
    await etcd.put("work", "1")
    world = await build(real_redis)
    async with listening(wakeups_of(world)) as wakeups, world.polling(wakeups=wakeups) as polling:
        metadata = {"endpoints": f"127.0.0.1:{etcd.port}", "watchKey": "work", "value": "5"}
        await world.apply(scaled_job("work", {"type": "etcd", "metadata": metadata}))
        await polling.once()
        await connected(wakeups)
        await settled(world)
        await etcd.put("work", "2")
        assert await woken(world) == {"work"}


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


async def test_a_login_in_the_url_goes_to_the_leader_too(
    monkeypatch: pytest.MonkeyPatch, connections: Connections
) -> None:
    consumer = {"name": "c", "cluster": {"leader": "n1"}, "num_pending": 1, "num_ack_pending": 2}
    streams = [{"name": "WORK", "consumer_detail": [consumer]}]
    bases: list[str] = []

    async def get(self: NATSJetStream, session: Session, path: str, query: Any, *, base: str) -> HttpAnswer:
        bases.append(base)
        return HttpAnswer(200, json.dumps({"account_details": [{"stream_detail": streams}]}).encode())

    monkeypatch.setattr(NATSJetStream, "get", get)
    metadata = {"natsServerMonitoringEndpoint": "ops:hush@nats.team:8222", "stream": "WORK", "consumer": "c"}
    assert await NATSJetStream.parse(Trigger(0, "nats-jetstream", metadata=metadata)).answer(connections) == 3.0
    assert bases == ["http://ops:hush@nats.team:8222", "http://ops:hush@n1.nats.team:8222"]


def test_a_login_in_an_endpoint_is_not_sent_to_etcd() -> None:
    etcd = EtcdLab(0).asking("k", "http://u:hush@a:1,u:hush@b:2")
    assert etcd.bases == ("http://a:1", "http://b:2")
    assert "hush" not in str(etcd.server)
