"""Redis and Valkey servers that are measured: how one is reached, and how it is asked many things in one round trip."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from penstock.connections import Connections
from penstock.scaler import Measure, SourceError
from scalers.sources.tls import TLS

#: Connections that one process keeps to one measured server.
CONNECTIONS = 4


class Question(Protocol):
    """What is asked about one key. Equal questions have one answer."""

    @property
    def key(self) -> str:
        """The key, which decides on the node of a cluster."""
        ...


#: What a question is answered by: a number or more, the server's refusal, or why nobody could be asked.
Answer = int | Measure | exceptions.RedisError | SourceError

#: Asks one server many questions; answers in their order.
Ask = Callable[["RedisLink", Sequence[Any]], Awaitable[Sequence[Answer]]]


class Topology(Hashable, Protocol):
    """One server or several that share the work: where a key is asked for. Hashable; its text holds no secret."""

    async def answers(self, questions: Sequence[Question], ask: Ask, connections: Connections) -> list[Answer]:
        """The answers in the order of the questions. Raises SourceError when none of them could be asked."""
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
        """A link to this server; nothing is sent before it is used."""
        return RedisLink(self.client(connections=connections))

    def client(self, *, connections: int = CONNECTIONS) -> redis.Redis:
        """A client of this server that never tries again by itself and has no deadline: both are the caller's.

        It introduces itself with nothing but AUTH and SELECT (no HELLO, no CLIENT), which every user may do.
        """
        how: dict[str, Any] = {"connection_class": redis.Connection}
        if self.tls:
            how = {"connection_class": _TLSConnection, "context": self.tls.context()}
        return redis.Redis(
            connection_pool=redis.BlockingConnectionPool(
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
        """This process's link to the server.

        Raises SourceError when the server cannot be reached, refuses the login or breaks off.
        """
        async with connections.use(self, self.connect, RedisLink.close) as link:
            try:
                yield link
            except (exceptions.RedisError, OSError) as error:
                raise SourceError(f"{self}: {reason(error)}") from error

    async def answers(
        self, questions: Sequence[Question], ask: Ask, connections: Connections, *, asking: bool = False
    ) -> list[Answer]:
        """See Topology. asking: this node of a cluster is being given the keys, and is to answer for them already."""
        async with self.using(connections) as link:
            if asking:
                link = RedisLink(link.client, link.scripts, asking=True)
            return list(await ask(link, questions))


class _TLSConnection(redis.SSLConnection):
    """A connection on a ready context: the client's own way takes certificates from files only."""

    def __init__(self, *, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context.context = context


@dataclass
class RedisLink:
    """A client, and what was learned about its server: scripts are refused there (scripts is False)."""

    client: redis.Redis
    scripts: bool = True
    asking: bool = False

    async def run(self, commands: Sequence[Sequence[str | int]]) -> list[Any]:
        """The answers to these commands, in one round trip. A command that is refused is answered by its error."""
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            if self.asking:
                pipeline.execute_command("ASKING")
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers[1::2] if self.asking else answers

    async def close(self) -> None:
        """Close the client and its sockets."""
        await self.client.aclose(close_connection_pool=True)


def reason(error: BaseException) -> str:
    """Why a server did not answer, in one line."""
    if isinstance(error, exceptions.AuthenticationError):
        return f"login refused: {error}"
    return str(error) or type(error).__name__
