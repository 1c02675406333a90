"""KEDA's `mysql` trigger: the number that a query returns, on MySQL and MariaDB."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl

from pydantic import SecretStr, model_validator

from penstock.extras import needed
from penstock.parameters import TRUTHS, ParameterError, require
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.databases.sql import ConnectionLost, SqlLink, SQLSource
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.tls import TLS, trust_options

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

#: ``user:password@tcp(host:port)/database?options``, as Go's driver writes it; user and password are not escaped.
_DSN = re.compile(
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>.*))?@)?(?:tcp(?:\((?P<host>[^:()]*|\[[^]]*\])(?::(?P<port>\d+))?\))?)?"
    r"/(?P<database>[^?]*)(?:\?(?P<options>.*))?"
)

#: Options of a connection string that change how the server is trusted, and their values that are Go's defaults.
_TRUST = {
    "allowNativePasswords": True,
    "allowOldPasswords": False,
    "allowFallbackToPlaintext": False,
    "serverPubKey": None,
}

#: Error numbers of the client library: the connection is lost. Others are the server's answer to a query.
_CLIENT_ERRORS = range(2000, 3000)


@dataclass(frozen=True, slots=True)
class MySQLDatabase:
    """A database with the login. The password is in neither repr nor text.

    tls: None speaks none. tls_if_possible: goes on without it if the server has none. cleartext: a server may ask for
    the password itself.
    """

    host: str
    port: int
    name: str
    user: str
    password: str = field(repr=False)
    tls: TLS | None = None
    tls_if_possible: bool = False
    cleartext: bool = False

    def __str__(self) -> str:
        return f"mysql://{self.host}:{self.port}/{self.name}"


class MySQL(SQLSource):
    """A query on one MySQL or MariaDB database."""

    query_value: float = parameter(sources=(_M,), ge=0, description="value that one Job is meant for")
    activation_query_value: float = parameter(0.0, sources=(_M,), description="the trigger is active above this value")
    connection_string: SecretStr | None = parameter(
        None,
        sources=(_A, _E),
        description="`user:password@tcp(host:port)/database?tls=true`, instead of the other parameters",
    )
    username: str | None = parameter(None, sources=(_M, _A, _E), description="user name of the login")

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        needed("aiomysql", "mysql")
        if self.connection_string is None:
            login = {"username": self.username, "password": self.password}
            require({"host": self.host, "port": self.port, "dbName": self.db_name, **login}, "connectionString")
            if not (self.port or "").isdecimal() or not 0 < int(self.port or 0) < 65536:
                raise ParameterError("port", "must be a port such as 3306")
        self.server  # noqa: B018 - raises for a connection string that cannot be read
        return self

    @property
    def server(self) -> MySQLDatabase:
        """The database with the login."""
        if self.connection_string is None:
            secret = self.password.get_secret_value() if self.password else ""
            return MySQLDatabase(self.host or "", int(self.port or 0), self.db_name or "", self.username or "", secret)
        found = _DSN.fullmatch(self.connection_string.get_secret_value())
        if found is None:
            raise ParameterError("connectionString", "must be user:password@tcp(host:port)/database")
        return MySQLDatabase(
            (found["host"] or "127.0.0.1").strip("[]"),
            int(found["port"] or 3306),
            found["database"],
            found["user"] or "",
            found["password"] or "",
            **_security(found["options"] or ""),
        )

    metric: ClassVar[str] = text_of("mysql-{0.server.name}")
    target: ClassVar[float] = value_of("query_value")
    activation: ClassVar[float] = value_of("activation_query_value")

    def link(self) -> "MySQLConnection":
        """Returns a connection to the database."""
        return MySQLConnection(self.server)


class MySQLConnection(SqlLink):
    """A connection of aiomysql."""

    def __init__(self, database: MySQLDatabase) -> None:
        self._database = database

    async def connect(self) -> Any:
        database = self._database
        connection = _guarded()(
            host=database.host,
            port=database.port,
            user=database.user,
            password=database.password,
            db=database.name,
            autocommit=True,
            ssl=database.tls.context() if database.tls else None,
        )
        connection.database = database
        try:
            await connection._connect()
        except (needed("pymysql", "mysql").err.MySQLError, OSError) as error:
            cause = f": {error.__cause__}" if isinstance(error.__cause__, OSError) else ""
            raise ConnectionLost(f"{_said(error)}{cause}") from None
        return connection

    async def first(self, query: str) -> Sequence[Any] | None:
        errors = needed("pymysql", "mysql").err
        try:
            async with self._connection.cursor() as cursor:
                await cursor.execute(query)
                row: Sequence[Any] | None = await cursor.fetchone()
        except (errors.MySQLError, OSError) as error:
            refused = isinstance(error, errors.MySQLError) and error.args and error.args[0] not in _CLIENT_ERRORS
            raise (SourceError if refused else ConnectionLost)(_said(error)) from None
        return row

    async def stop(self) -> None:
        """Kills the query over another connection: the server would continue it although its connection is closed."""
        if self._connection is None:
            return
        other = await self.connect()
        try:
            async with other.cursor() as cursor:
                await cursor.execute(f"KILL {int(self._connection.thread_id())}")
        finally:
            other.close()

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _security(query: str) -> dict[str, Any]:
    """Returns what the options of a connection string say of trust. Raises ParameterError for what is not honoured."""
    options = dict(parse_qsl(query, keep_blank_values=True))

    def refused(what: str) -> ParameterError:
        return ParameterError("connectionString", f"the option {what}")

    for name, default in _TRUST.items():
        if name in options and TRUTHS.get(options[name], options[name]) is not default:
            raise refused(f"{name}{'' if default is None else f'={options[name]}'} is not supported")
    for name in trust_options(query):
        if name != "tls":
            raise refused(f"{name} is not supported")
    word = options.get("tls", "false")
    wanted = TRUTHS.get(word, word.lower())
    if wanted not in (True, False, "skip-verify", "preferred"):
        raise refused(f"tls={word} names a configuration that only a program can register")
    return {
        "tls": TLS(verify=wanted is True) if wanted else None,
        "tls_if_possible": wanted == "preferred",
        "cleartext": TRUTHS.get(options.get("allowCleartextPasswords", ""), False),
    }


@cache
def _guarded() -> Any:
    """Returns the library's class of connections, with two refusals that it lacks."""
    library, errors = needed("aiomysql", "mysql"), needed("pymysql", "mysql").err
    flag = needed("pymysql.constants.CLIENT", "mysql").SSL

    class Guarded(library.Connection):  # type: ignore[misc, name-defined]
        database: MySQLDatabase

        async def _request_authentication(self) -> None:
            # The library would send the login in the clear: whoever sits between could take the flag away.
            if self._ssl_context and not self.server_capabilities & flag and not self.database.tls_if_possible:
                raise errors.OperationalError(2026, "the server speaks no TLS")
            self._check(self._server_auth_plugin)
            await super()._request_authentication()

        async def _process_auth(self, plugin_name: bytes, auth_packet: Any) -> Any:
            self._check(plugin_name.decode(errors="replace"))
            return await super()._process_auth(plugin_name, auth_packet)

        def _check(self, plugin: str) -> None:
            """Refuses ways to log in that show the password to the server, as Go's driver does."""
            if plugin == "mysql_old_password" or (plugin == "mysql_clear_password" and not self.database.cleartext):
                raise errors.OperationalError(2059, f"the server asks for a login by {plugin}, which is refused")

    return Guarded


def _said(error: BaseException) -> str:
    """Returns the server's sentence, without the number that the driver puts before it."""
    return str(error.args[-1]) if error.args else type(error).__name__
