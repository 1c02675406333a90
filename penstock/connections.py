"""Connections to measured servers, shared by everything one process measures."""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import PenstockError, Unreached

log = logging.getLogger(__name__)

Client = TypeVar("Client")

#: Seconds that closing a client may take, and after which an unused client is closed. The latter is longer than any
#: sensible polling interval, because clients remember offsets and answers from one poll to the next.
CLOSING, IDLE = 5.0, 3600.0


@dataclass
class _Open:
    """An open client. used: the instant at which its last user released it (seconds, the loop's clock)."""

    client: Any
    close: Callable[[Any], Awaitable[None]]
    users: int = 0
    retired: bool = False
    used: float = 0.0


class Connections:
    """At most `limit` clients, one per server; the least recently used one gives way to a new one.

    A retired client is closed after its last user has released it, in the background: closing may hang with its
    server.
    patience: seconds that one server of a source with several may take, so that one which hangs leaves time for the
    others and for a second attempt. timeout: seconds that each of several scalers may take that are asked side by
    side; set by the poller. cluster: client of the API server that the measured objects come from, for
    the built-in scalers alone (its type is no part of this interface), or None. idle: seconds after which an unused
    client is closed. closing: seconds that closing one may take.
    """

    def __init__(
        self,
        limit: int = 256,
        *,
        patience: float = 0.75,
        cluster: Any = None,
        idle: float = IDLE,
        closing: float = CLOSING,
    ) -> None:
        self._limit = limit
        self.patience = patience
        self.timeout = math.inf
        self.cluster = cluster
        self._idle = idle
        self._time_to_close = closing
        self._open: OrderedDict[Hashable, _Open] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._look: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def use(
        self, server: Hashable, make: Callable[[], Client], close: Callable[[Client], Awaitable[None]]
    ) -> AsyncIterator[Client]:
        """Yields the client of this server, and makes it first if there is none. make: must not block.

        A client that did not reach the server is retired, and so is one that raised an error of a library, but for a
        time-out: nothing says what state it is in.
        """
        if server not in self._open:
            self._open[server] = _Open(make(), close)
        entry = self._open[server]
        self._open.move_to_end(server)
        entry.users += 1
        try:
            self._make_room()
            yield entry.client
        except Exception as error:
            if isinstance(error, Unreached) or not isinstance(error, PenstockError | TimeoutError):
                self.retire(server, entry.client)
            raise
        finally:
            entry.users -= 1
            entry.used = asyncio.get_running_loop().time()
            self._close_unused(entry)
            self._look_later()

    def retire(self, server: Hashable, client: object = None) -> None:
        """Retires this server's client; the next use makes a new one. client: retires this one only."""
        entry = self._open.get(server)
        if entry is not None and (client is None or entry.client is client):
            del self._open[server]
            entry.retired = True
            self._close_unused(entry)

    async def close(self) -> None:
        """Retires every client, and waits until the unused ones are closed or their time for it is over."""
        for server in tuple(self._open):
            self.retire(server)
        if self._look:
            self._look.cancel()
        await asyncio.gather(*self._closing)

    def _make_room(self) -> None:
        for server in tuple(self._open)[: max(0, len(self._open) - self._limit)]:
            if not self._open[server].users:
                self.retire(server)

    def _look_later(self) -> None:
        """Schedules the next search for idle clients."""
        if self._look is None and self._open:
            self._look = asyncio.get_running_loop().call_later(self._idle, self._retire_idle)

    def _retire_idle(self) -> None:
        before = asyncio.get_running_loop().time() - self._idle
        for server, entry in tuple(self._open.items()):
            if not entry.users and entry.used <= before:
                self.retire(server)
        self._look = None
        self._look_later()

    def _close_unused(self, entry: _Open) -> None:
        if entry.retired and not entry.users:
            closing = asyncio.create_task(self._close(entry))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close(self, entry: _Open) -> None:
        try:
            async with asyncio.timeout(self._time_to_close):
                await entry.close(entry.client)
        except Exception as error:
            log.warning("a connection did not close cleanly", extra={"error": str(error) or type(error).__name__})
