"""Small servers on loopback: over TCP any behaviour, over HTTP any answer, and another way to a server."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web

from tests.support.certificates import Certificates

LOOPBACK = "127.0.0.1"

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def behaving(behaviour: Behaviour, *, port: int = 0, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that does that with every connection, over TLS with a context; yields its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        tasks.add(task)
        with suppress(OSError, EOFError, asyncio.CancelledError):
            try:
                await behaviour(reader, writer)
            finally:
                writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Sockets are let go in the loop's next turns.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads everything and answers nothing."""
    while await reader.read(1 << 16):
        pass


@dataclass
class Relay:
    """port: where it listens. going: nothing is passed on while it is not set. connections: made so far."""

    port: int = 0
    going: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0


@asynccontextmanager
async def relayed(to: int, *, port: int = 0, context: ssl.SSLContext | None = None) -> AsyncIterator[Relay]:
    """Another way to the server at a port of loopback."""
    relay = Relay()
    relay.going.set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while piece := await reader.read(1 << 16):
                    await relay.going.wait()
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay.connections += 1
        inside, outside = await asyncio.open_connection(LOOPBACK, to)
        await asyncio.gather(copy(reader, outside), copy(inside, writer))

    async with behaving(pass_on, port=port, context=context) as relay.port:
        yield relay


def with_certificates_both_ways(of: Certificates) -> ssl.SSLContext:
    """The TLS of a server that shows a certificate and wants one of the same authority from its clients."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=of.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{of.server}\n{of.server_key}\n")
        file.flush()
        context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def answering(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """An HTTP server that answers every request with that; yields its URL."""
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    try:
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
