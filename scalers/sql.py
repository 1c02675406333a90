"""One number out of a relational database: the first column of a query's first row."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any, Self

from scalers.scaler import Connections, Measure, Scaler, SourceError


class SQLSource(Scaler):
    """What triggers that run a query have in common. A subclass defines `query`, `_using` and `_rows`."""

    query: str

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """All queries of one database, one after the other on one connection."""
        first = scalers[0]
        answers: list[float | Exception] = []
        async with first._using(connections) as link:
            for scaler in scalers:
                try:
                    answers.append(scaler.number(await link.first(scaler.query)))
                except SourceError as error:
                    answers.append(error)
        return answers

    @abstractmethod
    def _using(self, connections: Connections) -> AbstractAsyncContextManager[Any]:
        """This process's connection to the database. Its `first` answers the first row of a query, None without rows.

        `first` raises SourceError for a query that is refused; anything else that goes wrong is raised as the
        database's failure.
        """

    def number(self, row: Sequence[Any] | None) -> float:
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
