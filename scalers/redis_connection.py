"""Where a Redis or Valkey server is and how to log in: shared by the scalers of the redis family."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import redis.asyncio as redis
from pydantic import SecretStr, model_validator
from redis import exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scalers.parameters import ParameterError
from scalers.scaler import Connections, Scaler, Source, SourceError, parameter

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

#: Connections that one process keeps to one measured server.
CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class RedisServer:
    """One database of one server, with the login. The password is in neither repr nor text."""

    host: str
    port: int
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    verify: bool = True

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}/{self.database}"

    def connect(self, *, connections: int = CONNECTIONS) -> "Link":
        """A link to this server; nothing is sent before it is used."""
        return Link(self.client(connections=connections))

    def client(self, *, connections: int = CONNECTIONS) -> redis.Redis:
        """A client of this server that never tries again by itself and has no deadline: both are the caller's.

        It introduces itself with nothing but AUTH and SELECT (no HELLO, no CLIENT), which every user may do.
        """
        return redis.Redis(
            connection_pool=redis.BlockingConnectionPool(
                max_connections=connections,
                timeout=None,
                connection_class=redis.SSLConnection if self.tls else redis.Connection,
                **self._tls(),
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

    def _tls(self) -> dict[str, Any]:
        if not self.tls:
            return {}
        return {"ssl_cert_reqs": "required" if self.verify else "none", "ssl_check_hostname": self.verify}

    @asynccontextmanager
    async def using(self, connections: Connections) -> AsyncIterator["Link"]:
        """This process's link to the server.

        Raises SourceError when the server cannot be reached, refuses the login or breaks off.
        """
        async with connections.use(self, self.connect, Link.close) as link:
            try:
                yield link
            except (exceptions.RedisError, OSError) as error:
                raise SourceError(f"{self}: {reason(error)}") from error


@dataclass
class Link:
    """A client, and what was learned about its server: scripts are refused there (scripts is False)."""

    client: redis.Redis
    scripts: bool = True

    async def close(self) -> None:
        """Close the client and its sockets."""
        await self.client.aclose(close_connection_pool=True)


def reason(error: BaseException) -> str:
    """Why a server did not answer, in one line."""
    if isinstance(error, exceptions.AuthenticationError):
        return f"login refused: {error}"
    return str(error) or type(error).__name__


class RedisSource(Scaler):
    """What the scalers of one Redis or Valkey server have in common; KEDA's connection parameters."""

    addresses: tuple[str, ...] = parameter((), name="address", also=("addresses",), sources=(_M, _A, _E))
    hosts: tuple[str, ...] = parameter((), name="host", also=("hosts",), sources=(_M, _E, _A))
    ports: tuple[str, ...] = parameter((), name="port", also=("ports",), sources=(_M, _E, _A))
    username: str | None = parameter(None, sources=(_M, _E, _A))
    password: SecretStr | None = parameter(None, sources=(_M, _E, _A))
    enable_tls: bool = parameter(False, name="enableTLS", sources=(_M,))
    unsafe_ssl: bool = parameter(False, sources=(_M,))
    database_index: int = parameter(0, sources=(_M,), ge=0)

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        self._address()
        return self

    @property
    @abstractmethod
    def watched(self) -> str:
        """The key of the server whose growth is news."""

    @property
    def server(self) -> RedisServer:
        """The first address: a single server has no others."""
        host, port = self._address()
        return RedisServer(
            host=host,
            port=port,
            database=self.database_index,
            username=self.username,
            password=self.password.get_secret_value() if self.password else None,
            tls=self.enable_tls,
            verify=not self.unsafe_ssl,
        )

    def _address(self) -> tuple[str, int]:
        if len(self.hosts) != len(self.ports):
            raise ParameterError("host", "as many hosts as ports must be given")
        pairs = [_split(address) for address in self.addresses]
        pairs += [(host.strip("[]"), port) for host, port in zip(self.hosts, self.ports, strict=True)]
        if not pairs:
            raise ParameterError("address", "is required, or host and port")
        host, port = pairs[0]
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ParameterError("address", "must be host:port, such as redis.example:6379")
        return host, int(port)


def _split(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port
