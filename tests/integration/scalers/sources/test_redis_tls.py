"""The redis family over TLS: certificates from the authentication, shown and checked.

The bundled Valkey speaks no TLS, so something in front of it does.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import SourceError
from scalers.sources.redis.lists import RedisLists
from scalers.wakeups.redis_listener import RedisListener
from tests.integration.scalers.servers import port_of
from tests.support.certificates import certificates
from tests.support.conditions import eventually

OURS, THEIRS = certificates("ours"), certificates("theirs")
CLIENT = {"tls": "enable", "ca": OURS.authority, "cert": OURS.client, "key": OURS.client_key}


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    connections = Connections()
    yield connections
    await connections.close()


@pytest.fixture
async def port(redis_url: str, tmp_path: Path) -> AsyncIterator[int]:
    """A port that speaks TLS, asks for a client's certificate, and passes on to the server what it hears."""
    (tmp_path / "server.pem").write_text(OURS.server + OURS.server_key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=OURS.authority)
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port_of(redis_url))
        for source, sink in ((reader, outer), (inner, writer)):
            tasks.add(asyncio.create_task(pass_on(source, sink)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()
    finally:
        sink.transport.abort()


def work(port: int, authentication: dict[str, str], **metadata: str) -> RedisLists:
    metadata = {"address": f"127.0.0.1:{port}", "listName": "work", **metadata}
    return RedisLists.parse(Trigger(0, "redis", metadata=metadata, authentication=authentication))


@pytest.mark.parametrize(
    ("authentication", "metadata"),
    [
        pytest.param(CLIENT, {}, id="by the authentication"),
        pytest.param({**CLIENT, "tls": ""}, {"enableTLS": "true"}, id="by the metadata"),
        pytest.param({**CLIENT, "ca": ""}, {"unsafeSsl": "true"}, id="unchecked"),
    ],
)
async def test_a_list_is_measured_over_tls(
    real_redis: Redis,
    port: int,
    connections: Connections,
    authentication: dict[str, str],
    metadata: dict[str, str],
) -> None:
    await real_redis.rpush("work", 1, 2)
    assert await RedisLists.read([work(port, authentication, **metadata)], connections) == [2.0]


@pytest.mark.parametrize(
    ("authentication", "complaint"),
    [
        pytest.param({**CLIENT, "ca": THEIRS.authority}, "CERTIFICATE_VERIFY_FAILED", id="a server nobody vouches for"),
        pytest.param({"tls": "enable", "ca": OURS.authority}, ".", id="no certificate of ours"),
        pytest.param(
            {**CLIENT, "cert": THEIRS.client, "key": THEIRS.client_key}, ".", id="a certificate of somebody else"
        ),
        pytest.param({"tls": "disable"}, ".", id="no TLS"),
    ],
)
async def test_what_does_not_fit_is_an_error(
    port: int, connections: Connections, authentication: dict[str, str], complaint: str
) -> None:
    with pytest.raises(SourceError, match=rf"^127\.0\.0\.1:{port}/0: .*{complaint}") as caught:
        await RedisLists.read([work(port, authentication)], connections)
    assert OURS.client_key not in f"{caught.value!r}"


async def test_pushes_are_heard_over_tls(real_redis: Redis, port: int) -> None:
    heard: list[str] = []
    listener = RedisListener(work(port, CLIENT).server, heard.extend)
    listener.follow(["work"])
    listening = asyncio.create_task(listener.run())
    try:
        await eventually(lambda: heard == ["work"])
        await real_redis.rpush("work", 1)
        await eventually(lambda: heard == ["work", "work"])
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
