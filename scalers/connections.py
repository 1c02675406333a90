"""Connections to measured servers, shared by everything one process measures."""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from scalers.errors import Unreached
from workers.cluster import Cluster

log = logging.getLogger(__name__)

Client = TypeVar("Client")


@dataclass
class _Open:
    client: Any
    close: Callable[[Any], Awaitable[None]]
    users: int = 0
    retired: bool = False


class Connections:
    """At most so many clients, one per server; the longest unused one makes room for a new one.

    A retired client is closed when its last user is done with it, so that nobody loses a connection that works.
    patience: seconds that one server of a source may take that consists of several, so that one which hangs leaves
    time for the others and for a second attempt. timeout: seconds that each of several scalers may take that are asked
    side by side; set by `scalers.sources.Sources`. cluster: the API server that the measured objects come from.
    """

    def __init__(self, limit: int = 256, *, patience: float = 0.75, cluster: Cluster | None = None) -> None:
        self._limit = limit
        self.patience = patience
        self.timeout = math.inf
        self.cluster = cluster
        self._open: OrderedDict[Hashable, _Open] = OrderedDict()

    @asynccontextmanager
    async def use(
        self, server: Hashable, make: Callable[[], Client], close: Callable[[Client], Awaitable[None]]
    ) -> AsyncIterator[Client]:
        """The client of this server, made now if there is none. make must not wait for anything.

        A client by which the server was not reached is retired.
        """
        if server not in self._open:
            self._open[server] = _Open(make(), close)
        entry = self._open[server]
        self._open.move_to_end(server)
        entry.users += 1
        try:
            await self._make_room()
            yield entry.client
        except Unreached:
            await self.retire(server, entry.client)
            raise
        finally:
            entry.users -= 1
            await _close_unused(entry)

    async def retire(self, server: Hashable, client: object = None) -> None:
        """Give this server's client up; the next use makes a fresh one. client: unless it is another one by now."""
        entry = self._open.get(server)
        if entry is not None and (client is None or entry.client is client):
            del self._open[server]
            entry.retired = True
            await _close_unused(entry)

    async def close(self) -> None:
        """Retire every client."""
        for server in tuple(self._open):
            await self.retire(server)

    async def _make_room(self) -> None:
        for server in tuple(self._open)[: max(0, len(self._open) - self._limit)]:
            if not self._open[server].users:
                await self.retire(server)


async def _close_unused(entry: _Open) -> None:
    if not entry.retired or entry.users:
        return
    try:
        # Shielded: a deadline that has just passed must not leave the socket open.
        await asyncio.shield(entry.close(entry.client))
    except Exception as error:
        log.warning("a connection did not close cleanly", extra={"error": str(error)})
