"""The embedded broker: loopback, a password, and data that outlives a kill."""

import random
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis.asyncio as redis
from redis.exceptions import AuthenticationError

from deploy.local import broker
from tests.support.conditions import eventually
from tests.support.tables import cases

#: Starts a broker; its process, and the file with its URL.
Start = Callable[[], tuple["subprocess.Popen[bytes]", Path]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run() -> tuple[subprocess.Popen[bytes], Path]:
        url_file = tmp_path / f"url-{len(started)}"
        command = [sys.executable, "-m", "deploy.local.broker", "--data", str(tmp_path / "data")]
        started.append(subprocess.Popen([*command, "--url-file", str(url_file)], stdout=subprocess.DEVNULL))
        return started[-1], url_file

    yield run
    for process in started:
        process.kill()
        process.wait()


async def ready(url_file: Path) -> redis.Redis:
    await eventually(url_file.exists)
    await eventually(lambda: url_file.read_text())
    url = url_file.read_text()
    client = redis.Redis.from_url(url)
    one = broker.EmbeddedBroker(url, ())
    await eventually(one.ready)
    return client


async def test_a_killed_broker_comes_back_with_its_data_and_its_url(start: Start) -> None:
    process, url_file = start()
    async with await ready(url_file) as client:
        await client.set("kept", "yes")
        await client.waitaof(1, 0, 5000)
    process.kill()
    process.wait()
    _, again = start()
    async with await ready(again) as client:
        assert await client.get("kept") == b"yes"
    assert again.read_text() == url_file.read_text()


async def test_it_wants_the_password_and_never_evicts(start: Start) -> None:
    _, url_file = start()
    async with await ready(url_file) as client:
        answer = await client.config_get("bind", "maxmemory-policy", "appendonly")
        assert answer == {"bind": "127.0.0.1", "maxmemory-policy": "noeviction", "appendonly": "yes"}
        port = client.connection_pool.connection_kwargs["port"]
        assert client.connection_pool.connection_kwargs["username"] == "default", "redis-cli -u needs it"
    async with redis.Redis(port=port) as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.ping()
    assert url_file.stat().st_mode & 0o077 == 0


@cases(
    ("list", ("rpush", "k", "v"), b"rpush"),
    ("set", ("sadd", "k", "v"), b"sadd"),
    ("sorted set", ("zadd", "k", "1", "v"), b"zadd"),
    ("hash", ("hset", "k", "f", "v"), b"hset"),
    ("stream", ("xadd", "k", "*", "f", "v"), b"xadd"),
    ("generic", ("copy", "other", "k"), b"copy_to"),
)
async def test_a_push_is_announced(command: tuple[str, ...], event: bytes, start: Start) -> None:
    _, url_file = start()
    async with await ready(url_file) as client, client.pubsub() as listener:
        await client.set("other", "1")
        await listener.subscribe("__keyspace@0__:k")
        assert await listener.get_message(timeout=60)
        await client.execute_command(*command)
        message = await listener.get_message(ignore_subscribe_messages=True, timeout=60)
        assert message is not None
        assert message["data"] == event


def test_a_given_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    import socket

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        with pytest.raises(OSError, match="in use"):
            broker.prepare(tmp_path, holder.getsockname()[1])


def test_programs_that_seed_their_generators_alike_look_for_different_ports() -> None:
    found = []
    for _ in range(2):
        random.seed(7)
        # The first is free again: only another order of ports finds another one.
        found.append([broker.free_or_any(0) for _ in range(4)])
    assert found[0] != found[1]


def test_a_port_is_none_that_an_outgoing_connection_may_get(tmp_path: Path) -> None:
    first = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
    port = urlsplit(broker.prepare(tmp_path).url).port
    assert port is not None
    assert 1024 <= port < int(first)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        another = urlsplit(broker.prepare(tmp_path).url).port
    assert another not in (None, port)
