"""One number out of a relational database: the first column of a query's first row."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from decimal import Decimal
from typing import Any

from penstock.scaler import Connections, Scaler, SourceError, Unreached

#: Seconds in which a query that is given up may end by itself, and again once that failed.
_GRACE = 1.0


class ConnectionLost(Exception):  # noqa: N818 - what happened
    """The database does not answer, refuses the login, or broke the connection off."""


class SqlLink(ABC):
    """A connection to one database, opened when it is first needed; one query at a time."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, unless there is a connection that works. Raises Lost."""

    @abstractmethod
    async def first(self, query: str) -> Sequence[Any] | None:
        """The first row, None without rows. Raises SourceError for a query that is refused, Lost for all else."""

    @abstractmethod
    async def stop(self) -> None:
        """Have the server end the query that was under way when its task was cancelled. Raises whatever it likes."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""


class Pool:
    """Connections to one database: a query has one for itself, and as many are open as there were queries at a time.

    make: a connection; nothing is sent before it is opened.
    """

    def __init__(self, make: Callable[[], SqlLink]) -> None:
        self._make = make
        self._idle: list[SqlLink] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def first(self, query: str) -> Sequence[Any] | None:
        """The first row, as `SqlLink.first`. Cancelled, it is over at once, whatever the database does.

        The query is then stopped and its connection thrown away; nobody waits for that.
        """
        link = self._idle.pop() if self._idle else self._make()
        asking = asyncio.create_task(_ask(link, query))
        try:
            row = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self._end(_give_up(link, asking))
            raise
        except SourceError:
            self._idle.append(link)
            raise
        except Exception:
            # A server that broke one connection off has rarely kept the others.
            lost, self._idle = [link, *self._idle], []
            for each in lost:
                self._end(_close(each))
            raise
        self._idle.append(link)
        return row

    async def close(self) -> None:
        """Close all connections, those that are being given up too."""
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


async def _give_up(link: SqlLink, asking: "asyncio.Task[Sequence[Any] | None]") -> None:
    """End a query that takes too long, at the server too if that still answers, and its connection."""
    try:
        # Libraries want to hear from the server before they let go; a second time they do not insist.
        for _ in range(2):
            asking.cancel()
            await asyncio.wait({asking}, timeout=_GRACE)
        if asking.done() and not asking.cancelled():
            # Nobody is interested in it any more.
            asking.exception()
        async with asyncio.timeout(_GRACE):
            await link.stop()
    finally:
        await _close(link)


async def _close(link: SqlLink) -> None:
    async with asyncio.timeout(_GRACE):
        await link.close()


class SQLSource(Scaler):
    """What triggers that run a query have in common."""

    query: str

    @abstractmethod
    def link(self) -> SqlLink:
        """A connection to the trigger's database; nothing is sent before it is opened."""

    async def answer(self, connections: Connections) -> float:
        """The query's number, on a connection that nobody else uses meanwhile."""
        server = self.server
        async with connections.use(server, lambda: Pool(self.link), Pool.close) as pool:
            try:
                return _number(await pool.first(self.query))
            except ConnectionLost as error:
                raise Unreached(f"{server}: {error}") from error
            except SourceError as error:
                raise SourceError(f"{server}: {error}") from None


def _number(row: Sequence[Any] | None) -> float:
    """The number in a first row; no row and no number are unknown."""
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
