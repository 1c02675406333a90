"""Connections that change their protocol (WebSocket), whose bytes are passed on to the kubelet and back."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deploy.local import kubelet_socket
from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.http.request import ApiRequest, Response, Upgrade, refusal
from workers.cancellation import cancelled

#: Bytes passed on at once.
BLOCK = 64 * 1024
#: Headers that are for this server alone.
_OWN = frozenset({"authorization", "cookie"})


class Upgrades:
    """The connections of one server. socket: the kubelet's. answer: decides about a request, with `Upgrade` or else."""

    def __init__(self, socket: Path, answer: Callable[[ApiRequest], Awaitable[Upgrade | Response]]) -> None:
        self._socket = socket
        self._answer = answer
        self._tasks: set[asyncio.Task[Any]] = set()

    def protocol(self, **_: object) -> asyncio.Protocol:
        """Returns the protocol of one connection, to which uvicorn writes the head of the request again."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(BLOCK), self._serve)

    async def close(self) -> None:
        """Ends all connections."""
        await cancelled(*self._tasks)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Connections that break, on either side, end; there is nobody left to tell.
            with suppress(OSError, EOFError):
                await self._pass_on(client, to_client)
        finally:
            self._tasks.discard(task)
            to_client.close()

    async def _pass_on(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        head = (await client.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        scope = {
            "method": method,
            "path": unquote(path),
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        }
        answer = await self._answer(ApiRequest.of(scope))
        if isinstance(answer, Upgrade):
            kept = "".join(f"{name}: {value}\r\n" for name, value in headers if name.lower() not in _OWN)
            try:
                kubelet, to_kubelet = await self._dial()
            except OSError as error:
                why = f"error dialing backend: the kubelet does not answer: {error.strerror or error}"
                answer = refusal(ApiError(500, "InternalError", why))
            else:
                to_kubelet.write(f"{method} {answer.path}?{query} HTTP/1.1\r\n{kept}\r\n".encode("latin-1"))
                # A TLS record of its own: Python's port-forward waits for the socket, and overlooks frames that have
                # come in the record of the head.
                to_client.write(await kubelet.readuntil(b"\r\n\r\n"))
                await _relay(client, to_client, kubelet, to_kubelet)
                return
        to_client.write(_rendered(answer))
        await to_client.drain()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        with kubelet_socket.address(self._socket) as address:
            return await asyncio.open_unix_connection(address)


async def _relay(
    client: asyncio.StreamReader,
    to_client: asyncio.StreamWriter,
    kubelet: asyncio.StreamReader,
    to_kubelet: asyncio.StreamWriter,
) -> None:
    """Passes bytes on in both directions until either side closes its connection."""
    work: tuple[Coroutine[Any, Any, None], ...] = (
        _copy(client, to_kubelet),
        _copy(kubelet, to_client),
        # A client may go while the kubelet takes no more of what it sent.
        kubelet_socket.hung_up(to_client.transport),
    )
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancelled(*tasks)
        # What a client sent that is gone is of no use: closing would wait until the kubelet has taken it.
        to_kubelet.transport.abort()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(BLOCK):
        sink.write(data)
        await sink.drain()


def _rendered(response: Response) -> bytes:
    """The response as the last one of its connection."""
    headers = {
        **response.headers,
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {response.code} {HTTPStatus(response.code).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + response.body
