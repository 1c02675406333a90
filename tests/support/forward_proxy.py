"""A forward proxy that tunnels (CONNECT), and remembers to where and with which credentials."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ForwardProxy:
    """url: of the proxy. targets: of every tunnel. credentials: the headers Proxy-Authorization."""

    url: str = ""
    targets: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


@asynccontextmanager
async def forward_proxy(address: tuple[str, int]) -> AsyncIterator[ForwardProxy]:
    """Runs the proxy. address: where every tunnel leads, so that names need not resolve."""
    found = ForwardProxy()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, target, _ = head[0].split()
            assert method == "CONNECT", head[0]
            found.targets.append(target)
            found.credentials += [line.partition(": ")[2] for line in head if line.lower().startswith("proxy-auth")]
            upstream, downstream = await asyncio.open_connection(*address)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pump(reader, downstream), _pump(upstream, writer))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()
