"""The webhook's process: what it answers while it ends."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deploy.certificate_authority import Authority
from deploy.processes import https
from deploy.webhook import certificate_keeper, serve
from workers.settings import Settings


class Cluster:
    """An API server of a version."""

    async def request(self, *_: Any) -> Any:
        return {"minor": "30"}


async def answer(address: tuple[str, int], trusted: ssl.SSLContext) -> bytes:
    """The first line of the answer to a request on a new connection."""
    reader, writer = await asyncio.open_connection(*address, ssl=trusted)
    writer.write(b"POST /validate HTTP/1.1\r\nHost: webhook\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return line


async def test_reviews_are_answered_until_the_service_has_forgotten_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that meets a closed port refuses the object."""
    now = datetime.now(UTC)
    authority = Authority("authority", now - timedelta(days=1), now + timedelta(days=1))
    signed = authority.sign("webhook", ["127.0.0.1"])
    trusted = ssl.create_default_context(cadata=authority.certificate)

    async def keep(keeper: Any, _now: datetime) -> None:
        certificate_keeper.load(keeper._context, signed.certificate, signed.key)

    monkeypatch.setattr(certificate_keeper.Keeper, "keep", keep)
    stop, registered = asyncio.Event(), asyncio.Event()
    listener = https.listen("127.0.0.1:0", "--webhook-listen")
    address: tuple[str, int] = listener.getsockname()[:2]
    settings = Settings(webhook_drain=600)
    cluster: Any = Cluster()
    serving = asyncio.create_task(serve.serve(settings, cluster, listener, stop, announce=registered.set))
    try:
        await asyncio.wait_for(registered.wait(), 10)
        assert (await answer(address, trusted)).startswith(b"HTTP/1.1 400")
        stop.set()
        # A server that ends closes its sockets within a few turns.
        await asyncio.wait({serving}, timeout=0.5)
        assert (await answer(address, trusted)).startswith(b"HTTP/1.1 400")
        assert await serve.finding(registered, stop) == "it is about to end"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(address, timeout=1):
        pass
