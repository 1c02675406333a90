"""KEDA's `postgresql` trigger: the number that a query returns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from pydantic import SecretStr, model_validator

from penstock.extras import needed
from penstock.parameters import IGNORED_TRUST, ParameterError, require
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.databases.sql import ConnectionLost, SqlLink, SQLSource
from scalers.sources.field_properties import value_of

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT


#: Options of Go's drivers about preparing queries. Other words of libpq's errors may be parts of a password.
_GO_OPTIONS = frozenset(
    {"binary_parameters", "default_query_exec_mode", "description_cache_capacity", "statement_cache_capacity"}
)


@dataclass(frozen=True, slots=True)
class PostgreSQLDatabase:
    """A database with the login, as libpq's connection string, which may hold a password and is in no repr."""

    name: str
    conninfo: str = field(repr=False)

    def __str__(self) -> str:
        return self.name


class PostgreSQL(SQLSource):
    """A query on one PostgreSQL database."""

    target_query_value: float = parameter(sources=(_M,), gt=0, description="value that one Job is meant for")
    activation_target_query_value: float = parameter(
        0.0, sources=(_M,), description="the trigger is active above this value"
    )
    connection: SecretStr | None = parameter(
        None, sources=(_A, _E), description="connection string of libpq, instead of the other parameters"
    )
    user_name: str | None = parameter(None, sources=(_M, _A), description="user name of the login")
    sslmode: str | None = parameter(
        None, sources=(_M, _A), description="libpq's `sslmode`: `disable`, `require`, `verify-full` …"
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        psycopg = needed("psycopg", "postgresql")
        if self.connection is None:
            place = {"host": self.host, "port": self.port}
            login = {"userName": self.user_name, "dbName": self.db_name, "sslmode": self.sslmode}
            require({**place, **login}, "connection")
        elif self.sslmode is not None and IGNORED_TRUST not in self.quirks:
            # KEDA ignores it: the connection would be less secure than the trigger says.
            raise ParameterError("sslmode", "is of no use beside connection: write it into connection")
        try:
            self.server  # noqa: B018 - libpq reads it, and refuses what it does not understand
        except psycopg.ProgrammingError as error:
            problem = "is not a connection string of PostgreSQL"
            if (found := re.search(r'"(\w+)"', str(error))) and found[1] in _GO_OPTIONS:
                problem = f"has the option {found[1]}, which is none of libpq: it is needless here"
            raise ParameterError("connection", problem) from None
        return self

    @property
    def server(self) -> PostgreSQLDatabase:
        """The database with the login."""
        psycopg = needed("psycopg", "postgresql")
        parts = {
            "host": self.host,
            "port": self.port,
            "user": self.user_name,
            "password": self.password.get_secret_value() if self.password else None,
            "dbname": self.db_name,
            "sslmode": self.sslmode,
        }
        whole = self.connection.get_secret_value() if self.connection else ""
        # With a connection string KEDA ignores the other parameters.
        conninfo = psycopg.conninfo.make_conninfo(whole, **({} if whole else parts))
        found = psycopg.conninfo.conninfo_to_dict(conninfo)
        return PostgreSQLDatabase(
            f"postgresql://{found.get('host', '')}:{found.get('port', 5432)}/{found.get('dbname', '')}", conninfo
        )

    metric: ClassVar[str] = "postgresql"
    target: ClassVar[float] = value_of("target_query_value")
    activation: ClassVar[float] = value_of("activation_target_query_value")

    def link(self) -> "PostgreSQLConnection":
        """Returns a connection to the database."""
        return PostgreSQLConnection(self.server)


class PostgreSQLConnection(SqlLink):
    """A connection of psycopg."""

    def __init__(self, database: PostgreSQLDatabase) -> None:
        self._database = database

    async def connect(self) -> Any:
        psycopg = needed("psycopg", "postgresql")
        try:
            # A prepared statement is known to one connection of the server, and a pooler may use another.
            return await psycopg.AsyncConnection.connect(
                self._database.conninfo, autocommit=True, prepare_threshold=None
            )
        except psycopg.OperationalError as error:
            raise ConnectionLost(_said(error)) from None

    async def first(self, query: str) -> Sequence[Any] | None:
        psycopg = needed("psycopg", "postgresql")
        try:
            cursor = await self._connection.execute(query)
            row: Sequence[Any] | None = await cursor.fetchone()
        except psycopg.OperationalError as error:
            raise ConnectionLost(_said(error)) from None
        except psycopg.Error as error:
            raise SourceError(_said(error)) from None
        return row

    async def stop(self) -> None:
        """Does nothing: psycopg cancels the query itself."""

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())
