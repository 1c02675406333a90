"""uvicorn's configuration for HTTPS servers: bounded heads, no proxy headers, a listening socket, no server header."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from functools import partial
from itertools import chain
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from deploy.processes.request_parser import RequestParser
from scalers.gateway.whole_answer import WHOLE_ANSWER
from workers.errors import UserError

#: Seconds of idle time between two requests of a connection, and for active responses when the server stops.
_RESTS, _GRACE = 120, 5
#: The most bytes before the end of a request's headers, its first line included, and the seconds they may take. They
#: come before any token, so every process of the machine can send them.
HEAD_BYTES, HEAD_SECONDS = 64 * 1024, 30.0

Headers = Sequence[tuple[bytes, bytes]]


class JoinedWrites:
    """A connection's transport that sends a head and the body after it at once, a head alone at the end of the turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Sends what is held with these bytes; holds them if nothing is."""
        if self._held is None:
            self._held = data
            self._loop.call_soon(self.flush)
        else:
            held, self._held = self._held, None
            self._transport.write(b"".join((held, data)))

    def flush(self) -> None:
        """Sends what is held."""
        held, self._held = self._held, None
        if held is not None and not self._transport.is_closing():
            self._transport.write(held)

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        self.flush()
        self._transport.close()


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol with these limits: 431 for a head that is too long, the end for one that is late."""

    _size = 0
    _in_head, _refused = True, False
    _late: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None
    _rests_since = 0.0
    _number = 0
    _answers: JoinedWrites

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.parser: Any = RequestParser(self, self.parser)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._answers = JoinedWrites(transport, self.loop)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        if self._rest is not None:
            self._rest.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._size += len(data)
        super().data_received(data)
        if not self._in_head or self._refused:
            return
        # The parser keeps an unfinished header to itself, so what has come is counted here.
        if self._size > HEAD_BYTES:
            self._refuse()
        elif self._late is None:
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # The first bytes of a further request on the same connection. Most heads come at once and need no timer.
        if not self._in_head:
            self._in_head, self._size = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._cancel()
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > HEAD_BYTES:
            self._refuse()
        else:
            super().on_headers_complete()
            if self.cycle is not None:
                self.cycle.transport = self._answers  # type: ignore[assignment]
                extensions: Any = self.scope.setdefault("extensions", {})
                # By number: a request that its own scope leads to would stay until the next garbage collection.
                self._number += 1
                extensions[WHOLE_ANSWER] = partial(self.answer_whole, self._number)

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        # The end of a body that has not been read, see RequestParser.
        if not self._refused and not self.parser.should_upgrade():
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if not self._refused:
            # The connection is the stream's from now on: the rest after an earlier answer is over.
            if self._rest is not None:
                self._rest.cancel()
                self._rest = None
            super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        # One timer per connection that looks from time to time: uvicorn's is made and cancelled with each request.
        self._rests_since = self.loop.time()
        if self._rest is None:
            self._rest = self.loop.call_later(self.timeout_keep_alive, self._end_rest)

    def _end_rest(self) -> None:
        self._rest = None
        if self.transport.is_closing():
            return
        # A request that is under way begins a new rest with its answer; an unfinished head has a timer of its own.
        if not self.cycle.response_complete or self._in_head:
            return
        left = self._rests_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._rest = self.loop.call_later(left, self._end_rest)
        else:
            self.timeout_keep_alive_handler()

    def answer_whole(self, number: int, status: int, headers: Headers, body: bytes) -> bool:
        """Answers the connection's request of this number with one write; see `WHOLE_ANSWER`."""
        cycle = self.cycle
        if number != self._number or cycle.response_started or not cycle.keep_alive or self.flow.write_paused:
            return False
        if cycle.disconnected:
            return True
        cycle.response_started = cycle.response_complete = True
        lines = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            lines += (name, b": ", value, b"\r\n")
        lines += (b"\r\n", body)
        self._answers.flush()
        self.transport.write(b"".join(lines))
        cycle.message_event.set()
        cycle.on_response()
        return True

    def shutdown(self) -> None:
        self._answers.flush()
        super().shutdown()

    def accepts_upgrade(self) -> bool:
        """Returns true if the connection goes on in the protocol that the head offers."""
        return self._should_upgrade()

    def _should_upgrade(self) -> bool:
        # What speaks WebSocket explains itself to the clients of SPDY, which kubectl tries next.
        return self._get_upgrade() in (b"websocket", b"spdy/3.1") and self._should_upgrade_to_ws()

    def _await_head(self) -> None:
        # Not close(): a client that does not answer TLS's goodbye would keep the connection.
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self) -> None:
        self._cancel()
        self._refused = True
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        self.transport.close()
        # The client has a second to read it.
        self.loop.call_later(1.0, self.transport.abort)


class _DatedState(ServerState):
    """uvicorn's state, whose headers of every answer are rendered when an answer needs them."""

    def __init__(self, config: uvicorn.Config) -> None:
        self._config = config
        self._second = -1
        self._headers: list[tuple[bytes, bytes]] = []
        super().__init__()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The Date, which changes once a second, and the configured headers."""
        if (second := int(time.time())) != self._second:
            date = [(b"date", formatdate(second, usegmt=True).encode())] if self._config.date_header else []
            self._second, self._headers = second, [*date, *self._config.encoded_headers]
        return self._headers

    @default_headers.setter
    def default_headers(self, _: list[tuple[bytes, bytes]]) -> None:
        """Ignores what uvicorn sets when it starts."""


class EventDrivenServer(uvicorn.Server):
    """A uvicorn server that wakes up for its connections alone.

    uvicorn's own loop looks ten times a second whether it should exit, and renders the Date once a second.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        self._exiting = False
        self._exit = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(config)
        self.server_state = _DatedState(config)

    @property
    def should_exit(self) -> bool:
        """True once the server is to end. Setting it wakes the loop, from threads and signal handlers too."""
        return self._exiting

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        self._exiting = value
        if value and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._exit.set)

    async def main_loop(self) -> None:
        """Returns when the server is to end."""
        self._loop = asyncio.get_running_loop()
        if not self._exiting:
            await self._exit.wait()


class SignalFreeServer(EventDrivenServer):
    """A server that leaves signals to its caller, and says when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(address: str, flag: str) -> socket.socket:
    """Returns a listening socket at ``HOST:PORT``. Raises UserError, naming the flag, if that fails."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=1024)
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"{flag}: {address} cannot be listened on: {error}") from error
    # Connections inherit it. asyncio sets it only for sockets that name their protocol, which create_server() leaves
    # open: an answer on a kept connection would take 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


def configured(
    app: Any,
    upgrade: Callable[..., asyncio.Protocol] | None = None,
    *,
    http: type[BoundedHttp] = BoundedHttp,
    **certificate: Any,
) -> uvicorn.Config:
    """Returns uvicorn's configuration for an app. certificate: uvicorn's own settings for TLS.

    upgrade: makes the protocol of a connection whose request asks for WebSocket or SPDY. http: the protocol of HTTP.
    """
    return uvicorn.Config(
        app,
        loop="none",
        http=http,
        # uvicorn calls it for every such connection; a class is what it has in mind.
        ws=upgrade or "none",  # type: ignore[arg-type]
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_RESTS,
        timeout_graceful_shutdown=_GRACE,
        **certificate,
    )
