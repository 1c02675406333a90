"""port-forward: connections of a client's machine to ports of a pod, over channels or over SPDY in WebSocket.

Python's client speaks the first, with two channels per port, for data and for an error; each begins with the port.
kubectl speaks the second: every connection is a pair of streams with the same ``requestid``.
"""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from aiohttp import WSMsgType, web

from deploy.local.kubelet.streams import spdy
from deploy.local.kubelet.streams.channels import Channels
from workers.cancellation import cancelled

SPDY = "SPDY/3.1+portforward.k8s.io"
CHANNELS = "v4.channel.k8s.io"
#: Bytes passed on at once.
BLOCK = 32 * 1024
#: Ports of one connection: their channels are numbered in one byte.
_MOST = 100


def ports(asked: Iterable[str]) -> list[int]:
    """Returns the ports of a request, each parameter naming one or several. Raises ValueError."""
    found = [_port(text) for texts in asked for text in texts.split(",")]
    if not found:
        raise ValueError('query parameter "ports" is required')
    if len(found) > _MOST:
        raise ValueError(f"at most {_MOST} ports can be forwarded over one connection")
    return found


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text) < 2**16:
        return int(text)
    raise ValueError(f'port "{text}" must be between 1 and 65535')


class Tunnel:
    """One connection to a port of a pod. send: takes what the pod says."""

    def __init__(self, pod: str, address: str, port: int, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._pod = pod
        self._address = address
        self._port = port
        self._send = send
        self._opened: asyncio.Future[asyncio.StreamWriter | None] = asyncio.get_running_loop().create_future()

    async def run(self) -> str:
        """Connects, and passes on until the pod has ended the connection. Returns why it failed, or nothing."""
        try:
            reader, writer = await asyncio.open_connection(self._address, self._port)
            self._opened.set_result(writer)
        except OSError as error:
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            place = f"{self._address}:{self._port}"
            return f"error forwarding port {self._port} to pod {self._pod}: dial tcp {place}: connect: {why}"
        finally:
            if not self._opened.done():
                self._opened.set_result(None)
        try:
            while data := await reader.read(BLOCK):
                await self._send(data)
        except OSError as error:
            return f"error forwarding port {self._port} to pod {self._pod}: {error.strerror or error}"
        finally:
            writer.close()
        return ""

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Passes data of the client on, waiting while the pod is behind. last: the client sends no more."""
        writer = await asyncio.shield(self._opened)
        if writer is not None and not writer.is_closing():
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
                if last:
                    writer.write_eof()


async def over_channels(client: Channels, pod: str, address: str, wanted: Sequence[int]) -> None:
    """Forwards ports until the client leaves or the pod has ended all connections."""

    def data_to(channel: int) -> Callable[[bytes], Awaitable[None]]:
        return lambda data: client.send(channel, data)

    tunnels = [Tunnel(pod, address, port, data_to(2 * index)) for index, port in enumerate(wanted)]

    async def run(index: int) -> None:
        if failure := await tunnels[index].run():
            await client.send(2 * index + 1, failure.encode())

    async def take() -> None:
        async for channel, data in client.receive():
            if channel % 2 == 0 and channel // 2 < len(tunnels):
                await tunnels[channel // 2].write(data)

    for index, port in enumerate(wanted):
        for channel in (2 * index, 2 * index + 1):
            await client.send(channel, struct.pack("<H", port))
    taking = asyncio.ensure_future(take())
    running = asyncio.gather(*(run(index) for index in range(len(tunnels))))
    try:
        await asyncio.wait((taking, running), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancelled(taking, running)
    await client.close()


class SpdyForwarding:
    """Forwards ports over one connection of kubectl."""

    def __init__(self, socket: web.WebSocketResponse, pod: str, address: str) -> None:
        self._socket = socket
        self._pod = pod
        self._address = address
        self._spdy = spdy.Connection()
        #: the stream for the error of each request, by the request's id
        self._errors: dict[str, int] = {}
        #: the connection of each stream for data
        self._tunnels: dict[int, tuple[Tunnel, asyncio.Task[None]]] = {}

    async def serve(self) -> None:
        """Serves until the client leaves, or sends what is not SPDY."""
        try:
            with suppress(ValueError):
                async for message in self._socket:
                    if message.type is WSMsgType.BINARY:
                        for frame in self._spdy.read(message.data):
                            await self._take(frame)
        finally:
            tasks = [task for _, task in self._tunnels.values()]
            await cancelled(*tasks)
        await self._socket.close()

    async def _take(self, frame: spdy.Frame) -> None:
        match frame.type:
            case spdy.SYN_STREAM:
                await self._open(frame)
            case spdy.DATA if frame.stream in self._tunnels:
                tunnel, _ = self._tunnels[frame.stream]
                await tunnel.write(frame.payload, last=bool(frame.flags & spdy.FIN))
            case spdy.RST_STREAM if frame.stream in self._tunnels:
                self._tunnels[frame.stream][1].cancel()
            case spdy.PING:
                await self._send(self._spdy.echo(frame))

    async def _open(self, frame: spdy.Frame) -> None:
        stream, request = frame.stream, frame.headers.get("requestid", "")
        try:
            port = _port(frame.headers.get("port", ""))
        except ValueError:
            await self._send(self._spdy.refuse(stream))
            return
        await self._send(self._spdy.accept(stream))
        if frame.headers.get("streamtype") == "error":
            self._errors[request] = stream
            return
        tunnel = Tunnel(self._pod, self._address, port, lambda data: self._send(self._spdy.data(stream, data)))
        self._tunnels[stream] = tunnel, asyncio.create_task(self._run(tunnel, stream, request))

    async def _run(self, tunnel: Tunnel, stream: int, request: str) -> None:
        try:
            failure = await tunnel.run()
            await self._send(self._spdy.data(stream, b"", last=True))
            if (error := self._errors.get(request)) is not None:
                await self._send(self._spdy.data(error, failure.encode(), last=True))
        finally:
            self._errors.pop(request, None)
            del self._tunnels[stream]

    async def _send(self, data: bytes) -> None:
        with suppress(ConnectionError):
            await self._socket.send_bytes(data)
