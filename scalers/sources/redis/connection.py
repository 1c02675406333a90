"""Connections to measured Redis and Valkey servers, which answer many questions in one round trip."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from penstock.connections import Connections
from penstock.scaler import Measure, SourceError
from scalers.sources.tls import TLS
from scheduler.broker.fast_path import FastClient, FastConnection, FastPool, together

T = TypeVar("T")

#: Connections that one process keeps to one measured server.
CONNECTIONS = 4


class Question(Protocol):
    """A question about one key. Equal questions share one answer."""

    @property
    def key(self) -> str:
        """The key, which determines the node of a cluster."""
        ...


#: The answer to a question: a number or a measure, the server's refusal, or the reason why no server answered.
Answer = int | Measure | exceptions.RedisError | SourceError

#: Asks one server many questions; answers in their order.
Ask = Callable[["RedisLink", Sequence[Any]], Awaitable[Sequence[Answer]]]


class Topology(Hashable, Protocol):
    """One server, a cluster or a master with its sentinels. Hashable; its text holds no secret."""

    async def answers(self, questions: Sequence[Question], ask: Ask, connections: Connections) -> list[Answer]:
        """Returns the answers in the order of the questions. Raises SourceError if none could be asked."""
        ...


@dataclass(frozen=True, slots=True)
class RedisServer:
    """One database of one server, with the login. The password is in neither repr nor text. tls: None speaks none."""

    host: str
    port: int
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: TLS | None = None

    def __str__(self) -> str:
        return f"{self.place}/{self.database}"

    @property
    def place(self) -> str:
        """``host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def connect(self, *, connections: int = CONNECTIONS) -> "RedisLink":
        """Returns a link to this server, which sends nothing before it is used."""
        return RedisLink(self.client(connections=connections))

    def client(self, *, connections: int = CONNECTIONS) -> redis.Redis:
        """Returns a client that never retries and has no timeouts: both are the caller's.

        It connects with AUTH and SELECT alone (no HELLO, no CLIENT), which every user may do.
        """
        how: dict[str, Any] = {"connection_class": _Connection}
        if self.tls:
            how = {"connection_class": _TLSConnection, "context": self.tls.context()}
        return FastClient(
            connection_pool=FastPool(
                max_connections=connections,
                timeout=None,
                **how,
                host=self.host,
                port=self.port,
                db=self.database,
                username=self.username,
                password=self.password,
                socket_timeout=None,
                socket_connect_timeout=None,
                socket_keepalive=True,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                driver_info=None,
            )
        )

    @asynccontextmanager
    async def using(self, connections: Connections) -> AsyncIterator["RedisLink"]:
        """Yields this process's link to the server.

        Raises SourceError if the server cannot be reached, refuses the login or breaks the connection.
        """
        async with connections.use(self, self.connect, RedisLink.close) as link:
            try:
                yield link
            except (exceptions.RedisError, OSError) as error:
                raise SourceError(f"{self}: {reason(error)}") from error

    async def answers(
        self, questions: Sequence[Question], ask: Ask, connections: Connections, *, asking: bool = False
    ) -> list[Answer]:
        """See Topology. asking: sends ASKING, for keys that are being migrated to this node."""
        async with self.using(connections) as link:
            if asking:
                link = RedisLink(link.client, link.scripts, asking=True, together=False)
            return list(await ask(link, questions))


class _Connection(FastConnection, redis.Connection):
    pass


class _TLSConnection(FastConnection, redis.SSLConnection):
    """A connection with a given context: redis-py itself takes certificates from files only."""

    def __init__(self, *, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context.context = context


@dataclass
class RedisLink:
    """A client. asking: sends ASKING before each command.

    scripts: False once the server refused one. together: whether one script may have several keys; None before that is
    known, False for a node of a cluster, for a proxy, and once the server refused such a script.
    """

    client: redis.Redis
    scripts: bool = True
    asking: bool = False
    together: bool | None = None

    async def run(self, commands: Sequence[Sequence[str | int]]) -> list[Any]:
        """Returns the answers to these commands, in one round trip; that of a refused command is its error."""
        if not self.asking:
            return await together(self.client, commands, refusals=True)
        asked = [each for command in commands for each in (("ASKING",), command)]
        return (await together(self.client, asked, refusals=True))[1::2]

    async def close(self) -> None:
        """Closes the client and its sockets."""
        await self.client.aclose(close_connection_pool=True)


@dataclass
class Seeds:
    """Equivalent servers, asked one after the other. Each may take half the patience of the connections."""

    servers: Sequence[RedisServer]
    preferred: int = 0

    async def ask(self, question: Callable[[RedisServer, RedisLink], Awaitable[T]], connections: Connections) -> T:
        """Returns the first answer. Raises SourceError with the reasons of all if none answers."""
        reasons = []
        count = len(self.servers)
        for place in [(self.preferred + step) % count for step in range(count)]:
            server = self.servers[place]
            try:
                async with asyncio.timeout(connections.patience / 2), server.using(connections) as link:
                    answer = await question(server, link)
            except TimeoutError:
                reasons.append(f"{server.place}: no answer within {connections.patience / 2:g} s")
            except SourceError as error:
                reasons.append(str(error))
            else:
                self.preferred = place
                return answer
        raise SourceError("; ".join(reasons))


def reason(error: BaseException) -> str:
    """Returns the reason of a failure in one line."""
    if isinstance(error, exceptions.AuthenticationError):
        return f"login refused: {error}"
    return str(error) or type(error).__name__
