"""Sources that are the first column of the first row of an SQL query."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from decimal import Decimal
from typing import Any

from pydantic import SecretStr

from penstock.scaler import Connections, Scaler, Source, SourceError, Unreached, parameter

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

#: Seconds that each attempt to end a cancelled query may take.
_GRACE = 1.0


class ConnectionLost(Exception):  # noqa: N818 - what happened
    """The database does not answer, refuses the login, or broke the connection off."""


class SqlLink(ABC):
    """A connection to one database, opened when it is first needed; one query at a time."""

    _connection: Any = None

    @abstractmethod
    async def connect(self) -> Any:
        """Returns a new connection of the library. Raises ConnectionLost."""

    async def open(self) -> None:
        """Connects, unless the connection works. Raises ConnectionLost."""
        if self._connection is None or self._connection.closed:
            self._connection = await self.connect()

    @abstractmethod
    async def first(self, query: str) -> Sequence[Any] | None:
        """Returns the first row, None without rows. Raises SourceError for a refused query, else ConnectionLost."""

    @abstractmethod
    async def stop(self) -> None:
        """Makes the server end the query whose task was cancelled. May raise any exception."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connection."""


class Pool:
    """Connections to one database: as many as there were queries at a time, each for one query at a time.

    make: returns a connection that sends nothing before it is opened.
    """

    def __init__(self, make: Callable[[], SqlLink]) -> None:
        self._make = make
        self._idle: list[SqlLink] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def first(self, query: str) -> Sequence[Any] | None:
        """Returns the first row, as `SqlLink.first`. A cancellation takes effect at once, even if the database hangs.

        The query is then stopped and its connection closed in the background.
        """
        link = self._idle.pop() if self._idle else self._make()
        asking = asyncio.create_task(_ask(link, query))
        try:
            row = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._end(_abandon(link, asking))
            raise
        except SourceError:
            self._idle.append(link)
            raise
        except Exception:
            # A server that broke one connection has rarely kept the others.
            lost, self._idle = [link, *self._idle], []
            for each in lost:
                self._end(_close(each))
            raise
        self._idle.append(link)
        return row

    async def close(self) -> None:
        """Closes all connections, those of cancelled queries included."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*map(_close, idle), *self._ending, return_exceptions=True)

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()


async def _ask(link: SqlLink, query: str) -> Sequence[Any] | None:
    await link.open()
    return await link.first(query)


async def _abandon(link: SqlLink, asking: "asyncio.Task[Sequence[Any] | None]") -> None:
    """Ends a cancelled query, in the server too if that still answers, and its connection."""
    try:
        # Libraries wait for the server on the first cancellation, and end on the second.
        for _ in range(2):
            asking.cancel()
            await asyncio.wait({asking}, timeout=_GRACE)
        if asking.done() and not asking.cancelled():
            # Retrieved, lest asyncio logs it.
            asking.exception()
        async with asyncio.timeout(_GRACE):
            await link.stop()
    finally:
        await _close(link)


async def _close(link: SqlLink) -> None:
    async with asyncio.timeout(_GRACE):
        await link.close()


class SQLSource(Scaler):
    """The base of triggers that run a query."""

    query: str = parameter(sources=(_M,), description="query whose first column of the first row is the number")
    host: str | None = parameter(None, sources=(_M, _A), description="host of the server")
    port: str | None = parameter(None, sources=(_M, _A), description="port of the server")
    db_name: str | None = parameter(None, sources=(_M, _A), description="database to connect to")
    password: SecretStr | None = parameter(None, sources=(_A, _E), description="password of the login")

    @abstractmethod
    def link(self) -> SqlLink:
        """Returns a connection to the trigger's database, which sends nothing before it is opened."""

    async def answer(self, connections: Connections) -> float:
        """Returns the query's number, over a connection of its own."""
        server = self.server
        async with connections.use(server, lambda: Pool(self.link), Pool.close) as pool:
            try:
                return _number(await pool.first(self.query))
            except ConnectionLost as error:
                raise Unreached(f"{server}: {error}") from error
            except SourceError as error:
                raise SourceError(f"{server}: {error}") from None


def _number(row: Sequence[Any] | None) -> float:
    """Returns the number in a first row. Raises SourceError without a row or a number."""
    if not row:
        raise SourceError("the query answers no row")
    value = row[0]
    if value is None:
        raise SourceError("the query answers NULL")
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    try:
        number = float(value) if isinstance(value, int | float | Decimal | str) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SourceError("the query answers no finite number")
    return number
