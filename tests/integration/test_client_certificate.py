"""Client certificates over real TLS: the application sees the verified one, and no other client reaches it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from deploy.certificate_authority import CLIENT, SERVER, Authority, Signed
from deploy.processes import client_certificate, https
from deploy.processes.client_certificate import CertificateHttp
from scalers.gateway import asgi_app
from scalers.gateway.auth.certificate_names import names_of
from workers.errors import UserError

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


def authority(name: str, begin: datetime = NOW - HOUR, end: datetime = NOW + HOUR) -> Authority:
    return Authority(name, begin, end)


def files(folder: Path, name: str, signed: Signed) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_text(signed.certificate)
    key.write_text(signed.key)
    return certificate, key


@asynccontextmanager
async def serving(folder: Path, pushers: Authority, seen: list[bytes | None]) -> AsyncIterator[tuple[int, Path]]:
    """A server that takes certificates of `pushers`; yields its port and its own authority."""
    own = authority("own")
    (folder / "own.crt").write_text(own.certificate)
    (folder / "pushers.crt").write_text(pushers.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files(folder, "server", own.sign("server", ["127.0.0.1"])))
    client_certificate.ask_for(context, folder / "pushers.crt")

    async def app(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        seen.append(asgi_app.client_certificate(scope))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = https.configured(app, http=CertificateHttp, ssl_context_factory=lambda _config, _default: context)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    task = asyncio.create_task(server._serve([listener]))
    try:
        yield listener.getsockname()[1], folder / "own.crt"
    finally:
        server.should_exit = True
        await task


async def get(port: int, trusted: Path, own: tuple[Path, Path] | None = None, times: int = 1) -> list[int]:
    """The statuses of so many requests on one connection."""
    context = ssl.create_default_context(cafile=str(trusted))
    if own:
        context.load_cert_chain(*own)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    statuses = []
    try:
        for _ in range(times):
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            statuses.append(int(head.split()[1]))
    finally:
        writer.transport.abort()
    return statuses


async def test_the_application_sees_the_certificate_of_each_request(tmp_path: Path) -> None:
    pushers, seen = authority("pushers"), list[bytes | None]()
    signed = files(tmp_path, "builder", pushers.sign("builder", ["ci.example.com"], purpose=CLIENT))
    async with serving(tmp_path, pushers, seen) as (port, trusted):
        assert await get(port, trusted, signed, times=2) == [204, 204]
        assert await get(port, trusted) == [204]
    first, second, none = seen
    assert none is None
    assert first is not None
    assert first == second
    names = names_of(first)
    assert names is not None
    assert (names.common_name, names.dns_names) == ("builder", {"ci.example.com"})


async def test_other_certificates_never_reach_the_application(tmp_path: Path) -> None:
    pushers, seen = authority("pushers"), list[bytes | None]()
    wrong = {
        # Of the same name, with another key.
        "foreign": authority("pushers").sign("builder", purpose=CLIENT),
        "expired": authority("pushers", NOW - 2 * HOUR, NOW - HOUR).sign("builder", purpose=CLIENT),
        "a server's": pushers.sign("builder", purpose=SERVER),
    }
    async with serving(tmp_path, pushers, seen) as (port, trusted):
        for name, signed in wrong.items():
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await get(port, trusted, files(tmp_path, name, signed))
    assert seen == []


def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.crt").write_text("")
    for file in ("missing.crt", "empty.crt"):
        with pytest.raises(UserError, match=f"--client-ca: .*{file}"):
            client_certificate.ask_for(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tmp_path / file)


def test_a_request_without_tls_has_no_certificate() -> None:
    assert asgi_app.client_certificate({"type": "http"}) is None
