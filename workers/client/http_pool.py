"""HTTP/1.1 to one server: whole requests and whole answers over kept connections.

A worker makes thousands of small calls to one server that it knows. A general client pays for each with redirects,
cookies, tracing and streamed bodies, none of which these calls have (docs/performance.md). The parser is httptools'.
Streams and proxies are left to aiohttp (`workers.client.transport`).
"""

import asyncio
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import httptools
from multidict import CIMultiDict, CIMultiDictProxy

#: Seconds for which a connection without a request is kept, and those of all but a few: after a burst of requests a
#: hundred of them would hold their buffers of TLS, about 100 KB each.
KEEP, KEEP_MANY = 60.0, 10.0
FEW = 8
#: Seconds until the next address of a name is tried; the last one has all the time that is left. Less than a lease's
#: margin (`workers.runtime.leases`): a request is sent after its lease was checked, and after it was connected.
NEXT_ADDRESS = 0.5
#: Methods that may be sent again when a kept connection ends before a byte of the answer came: the server may have
#: closed it in the moment in which the request was sent.
REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """An answer and its whole body."""

    status: int
    headers: CIMultiDict[str] | CIMultiDictProxy[str]
    body: bytes


class ConnectionEnded(ConnectionError):  # noqa: N818 - what happened
    """The connection ended before the answer was whole. began: a part of it had arrived."""

    def __init__(self, text: str, *, began: bool) -> None:
        super().__init__(text)
        self.began = began


class _HttpConnection(asyncio.Protocol):
    """One connection; one request at a time. context: the TLS context it was opened with. address: of the server."""

    def __init__(self, context: ssl.SSLContext | None, address: Any) -> None:
        self.context = context
        self.address = address
        self.idle_since = 0.0
        #: True while a further request may be sent on it.
        self.usable = True
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[ApiAnswer] | None = None
        self._bodiless = False
        self._start()

    def _start(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        #: True once a byte of an answer to the last request came.
        self.heard = self._headed = False

    async def exchange(self, data: bytes, *, bodiless: bool) -> ApiAnswer:
        """Sends a request and returns its answer. bodiless: the answer has no body, also if its head says so."""
        assert self._transport is not None
        self._start()
        self._bodiless = bodiless
        self._answer = asyncio.get_running_loop().create_future()
        if not self.usable:
            raise ConnectionEnded("the server closed the connection", began=False)
        self._transport.write(data)
        try:
            return await self._answer
        finally:
            self._answer = None

    def close(self) -> None:
        """Closes it; nothing is under way."""
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends it at once; a TLS shutdown would wait for the server's answer."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Is called once the connection, with its TLS, stands."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Takes in a part of the answer."""
        if self._answer is None or self._answer.done():
            # Nothing was asked: what comes belongs to no request.
            self.abort()
            return
        self.heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, zlib.error) as error:
            self._fail(ConnectionEnded(f"the answer is not HTTP/1.1: {error}", began=True))
            self.abort()

    def eof_received(self) -> None:
        """Takes the end of the stream in: it ends an answer without a length."""
        self.usable = False
        if self._headed and not self._has_length() and self._answer is not None and not self._answer.done():
            try:
                self._complete()
            except zlib.error as error:
                self._fail(ConnectionEnded(f"the answer is not HTTP/1.1: {error}", began=True))
                self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Is called when the connection is closed."""
        self.usable = False
        if isinstance(error, ssl.SSLError):
            self._fail(error)
        else:
            text = f"the server closed the connection{f': {error}' if error else ''}"
            self._fail(ConnectionEnded(text, began=self.heard))
        # They refer to this object, too: together they would keep the buffers of TLS until a collection finds them.
        del self._parser
        self._transport = None

    # httptools

    def on_message_begin(self) -> None:
        """Ends the use of a connection on which more comes than was asked for: the next request would be given it."""
        if self._answer is not None and self._answer.done():
            self.usable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes one header in."""
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Ends the answer if it has no body by its request's method."""
        if self._parser.get_status_code() < 200:
            return
        self._headed = True
        if self._bodiless:
            # The parser would wait for the body that the headers speak of.
            self.usable = False
            self._complete()

    def on_body(self, data: bytes) -> None:
        """Takes a part of the body in."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Ends the answer."""
        if self._parser.get_status_code() < 200:
            # An interim answer; the final one follows.
            self._headers.clear()
            return
        if self._answer is not None and not self._answer.done():
            self.usable = self.usable and self._parser.should_keep_alive()
            self._complete()

    def _complete(self) -> None:
        assert self._answer is not None
        headers = CIMultiDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if headers.get("Content-Encoding", "identity").lower() in ("gzip", "deflate") and body:
            # Was not asked for; servers in between may compress all the same.
            body = _decompressed(body)
        # A connection that waits for its next request keeps no answer.
        self._headers, self._body = [], []
        self._answer.set_result(ApiAnswer(self._parser.get_status_code(), headers, body))

    def _has_length(self) -> bool:
        return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self._headers)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _decompressed(body: bytes) -> bytes:
    """Returns the text of all members: gzip's format allows several. Raises zlib.error for what is neither format."""
    texts = []
    while body:
        # 47: gzip or deflate, by its header.
        member = zlib.decompressobj(wbits=47)
        texts += [member.decompress(body), member.flush()]
        if not member.eof:
            raise zlib.error("a compressed answer ends too early")
        body = member.unused_data
    return b"".join(texts)


class HttpPool:
    """The connections to one server, for one event loop. Callers bound how many requests are under way.

    host_header: what requests name as their host. prefix: of every target. make_socket: an unconnected socket for an
    entry of getaddrinfo. clock: monotonic seconds.
    """

    def __init__(
        self,
        host: str,
        port: int,
        host_header: str,
        prefix: str,
        make_socket: Callable[[Any], socket.socket],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._port = host, port
        self._rest_of_line = f" HTTP/1.1\r\nHost: {host_header}\r\n"
        self._prefix = prefix
        self._make_socket = make_socket
        self._clock = clock
        # The youngest last: those that are not needed grow old, and are closed.
        self._idle: list[_HttpConnection] = []
        self._busy: set[_HttpConnection] = set()
        self._closing: asyncio.TimerHandle | None = None
        self._closed = False
        # The address that answered last, and the one that did not.
        self._answering: Any = None
        self._silent: Any = None

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> ApiAnswer:
        """Sends a request and returns its whole answer; cancelling ends its connection.

        target: path and query, quoted. context: of TLS, None for none; a connection of another context is not used
        again. server_name: that the certificate must have, if not the host's. Raises OSError (and ssl.SSLError, which
        is one) without an answer, ValueError for a header with a line break.
        """
        if self._closed:
            raise ConnectionError("the client is closed")
        data = self._encoded(method, target, headers, body)
        if (kept := self._take(context)) is not None:
            try:
                return await self._exchange(kept, method, data)
            except ConnectionEnded as error:
                if error.began or self._closed or method not in REPEATABLE:
                    raise
            except ssl.SSLError as error:
                # The server had accepted us: it may have carried the request out, whatever ended the connection.
                if method not in REPEATABLE:
                    raise ConnectionError(f"the connection broke: {error}") from error
                raise
        return await self._exchange(await self._connect(context, server_name), method, data)

    async def close(self) -> None:
        """Ends all connections; requests under way fail."""
        self._closed = True
        if self._closing is not None:
            self._closing.cancel()
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()

    def _encoded(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {self._prefix}{target}{self._rest_of_line}"]
        for name, value in headers.items():
            line = f"{name}: {value}"
            if "\r" in line or "\n" in line:
                raise ValueError(f"a line break in the header {name!r}")
            lines.append(f"{line}\r\n")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}\r\n")
        elif method in ("POST", "PUT", "PATCH"):
            lines.append("Content-Length: 0\r\n")
        lines.append("\r\n")
        return "".join(lines).encode() + (body or b"")

    def _take(self, context: ssl.SSLContext | None) -> _HttpConnection | None:
        """Returns the youngest connection without a request."""
        oldest = self._clock() - KEEP
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.context is context and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _exchange(self, connection: _HttpConnection, method: str, data: bytes) -> ApiAnswer:
        if self._closed:
            connection.abort()
            raise ConnectionError("the client was closed meanwhile")
        self._busy.add(connection)
        try:
            answer = await connection.exchange(data, bodiless=method == "HEAD")
        except BaseException:
            # An answer that is not read would be taken for that of the next request.
            connection.abort()
            if not connection.heard:
                self._silent = connection.address
            raise
        finally:
            self._busy.discard(connection)
        self._answering = connection.address
        if self._silent == connection.address:
            self._silent = None
        if connection.usable and not self._closed:
            connection.idle_since = self._clock()
            self._idle.append(connection)
            if self._closing is None:
                self._closing = asyncio.get_running_loop().call_later(KEEP_MANY, self._close_old)
        else:
            connection.close()
        return answer

    def _close_old(self) -> None:
        """Closes the connections that were not needed for as long as they are kept."""
        self._closing = None
        now = self._clock()
        self._idle = [connection for connection in self._idle if connection.usable]
        while self._idle:
            keep = KEEP if len(self._idle) <= FEW else KEEP_MANY
            wait = self._idle[0].idle_since + keep - now
            if wait > 0:
                self._closing = asyncio.get_running_loop().call_later(max(1.0, wait), self._close_old)
                break
            self._idle.pop(0).close()

    async def _connect(self, context: ssl.SSLContext | None, server_name: str) -> _HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectionError(f"{self._host}: {error}") from error
        sock = None
        # The one that answered last is tried first. One that did not is tried last: a server that is frozen still has a
        # kernel that takes connections.
        found.sort(key=lambda address: (address[4] == self._silent, address[4] != self._answering))
        for place, address in enumerate(found):
            last, sock = place + 1 == len(found), None
            try:
                sock = self._make_socket(address)
                sock.setblocking(False)
                async with asyncio.timeout(None if last else NEXT_ADDRESS):
                    await loop.sock_connect(sock, address[4])
                break
            except OSError as error:
                if sock is not None:
                    sock.close()
                if last:
                    # Python takes a peer that does not answer for TimeoutError, which here means the caller's.
                    raise ConnectionError(f"cannot connect to {self._host}:{self._port}: {error}") from error
            except BaseException:
                if sock is not None:
                    sock.close()
                raise
        if sock is None:
            raise ConnectionError(f"{self._host} has no address")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _HttpConnection(context, address[4])
        try:
            await loop.create_connection(
                lambda: connection,
                sock=sock,
                ssl=context,
                server_hostname=(server_name or self._host) if context is not None else None,
            )
        except BaseException:
            # asyncio would wait for the server's goodbye, on a descriptor that belongs to another socket by then.
            connection.abort()
            sock.close()
            self._silent = connection.address
            raise
        return connection
