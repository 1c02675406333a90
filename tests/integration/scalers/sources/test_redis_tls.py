"""The redis family over TLS: certificates from the authentication, shown and checked.

The bundled Valkey speaks no TLS, so something in front of it does.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import SourceError
from scalers.sources.redis.lists import RedisLists
from scalers.wakeups.redis_listener import RedisListener
from tests.support.certificates import certificates
from tests.support.conditions import eventually
from tests.support.servers import relayed, with_certificates_both_ways
from tests.support.tables import cases

OURS, THEIRS = certificates("ours"), certificates("theirs")
CLIENT = {"tls": "enable", "ca": OURS.authority, "cert": OURS.client, "key": OURS.client_key}


@pytest.fixture
async def secure(port: int) -> AsyncIterator[int]:
    """A port that speaks TLS, asks for a client's certificate, and passes on to the server what it hears."""
    async with relayed(port, context=with_certificates_both_ways(OURS)) as relay:
        yield relay.port


def work(port: int, authentication: dict[str, str], **metadata: str) -> RedisLists:
    metadata = {"address": f"127.0.0.1:{port}", "listName": "work", **metadata}
    return RedisLists.parse(Trigger(0, "redis", metadata=metadata, authentication=authentication))


@cases(
    ("by the authentication", CLIENT, {}),
    ("by the metadata", {**CLIENT, "tls": ""}, {"enableTLS": "true"}),
    ("unchecked", {**CLIENT, "ca": ""}, {"unsafeSsl": "true"}),
)
async def test_a_list_is_measured_over_tls(
    authentication: dict[str, str], metadata: dict[str, str], real_redis: Redis, secure: int, connections: Connections
) -> None:
    await real_redis.rpush("work", 1, 2)
    assert await RedisLists.read([work(secure, authentication, **metadata)], connections) == [2.0]


@cases(
    ("a server nobody vouches for", {**CLIENT, "ca": THEIRS.authority}, "CERTIFICATE_VERIFY_FAILED"),
    ("no certificate of ours", {"tls": "enable", "ca": OURS.authority}, "."),
    ("a certificate of somebody else", {**CLIENT, "cert": THEIRS.client, "key": THEIRS.client_key}, "."),
    ("no TLS", {"tls": "disable"}, "."),
)
async def test_what_does_not_fit_is_an_error(
    authentication: dict[str, str], complaint: str, secure: int, connections: Connections
) -> None:
    with pytest.raises(SourceError, match=rf"^127\.0\.0\.1:{secure}/0: .*{complaint}") as caught:
        await RedisLists.read([work(secure, authentication)], connections)
    assert OURS.client_key not in f"{caught.value!r}"


async def test_pushes_are_heard_over_tls(real_redis: Redis, secure: int) -> None:
    heard: list[str] = []
    listener = RedisListener(work(secure, CLIENT).server, heard.extend)
    listener.follow(["work"])
    listening = asyncio.create_task(listener.run())
    try:
        await eventually(lambda: heard == ["work"])
        await real_redis.rpush("work", 1)
        await eventually(lambda: heard == ["work", "work"])
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
