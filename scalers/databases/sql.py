"""One number out of a relational database: the first column of a query's first row."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, Self

from scalers.scaler import Connections, Measure, Scaler, SourceError


class Lost(Exception):  # noqa: N818 - what happened
    """The database does not answer, refuses the login, or broke the connection off."""


class Link(ABC):
    """A connection to one database, opened when it is first needed; one query at a time."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()

    @abstractmethod
    async def open(self) -> None:
        """Connect, unless there is a connection that works. Raises Lost."""

    @abstractmethod
    async def first(self, query: str) -> Sequence[Any] | None:
        """The first row, None without rows. Raises SourceError for a query that is refused, Lost for all else."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""


class SQLSource(Scaler):
    """What triggers that run a query have in common."""

    query: str

    @abstractmethod
    def link(self) -> Link:
        """A connection to the trigger's database; nothing is sent before it is opened."""

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """All queries of one database, one after the other on one connection."""
        first = scalers[0]
        answers: list[float | Exception] = []
        async with _using(first.server, connections, first) as link:
            for scaler in scalers:
                try:
                    answers.append(_number(await link.first(scaler.query)))
                except SourceError as error:
                    answers.append(SourceError(f"{first.server}: {error}"))
        return answers


@asynccontextmanager
async def _using(server: Hashable, connections: Connections, source: SQLSource) -> AsyncIterator[Link]:
    """This process's connection to the database. Raises SourceError when it does not answer."""
    async with connections.use(server, source.link, lambda link: link.close()) as link:
        try:
            async with link.turn:
                await link.open()
                yield link
        except Lost as error:
            raise SourceError(f"{server}: {error}") from error


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
