"""The base of KEDA's redis family: connection parameters, and the reading of many triggers at once."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import SecretStr, model_validator
from redis import exceptions

from penstock.parameters import ParameterError
from penstock.scaler import Connections, Measure, Source, SourceError, parameter
from scalers.sources.redis.cluster import RedisCluster
from scalers.sources.redis.connection import Answer, Question, RedisLink, RedisServer, Topology, reason
from scalers.sources.redis.sentinel import RedisSentinel
from scalers.sources.tls import TLS, ProtectedCertificates

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT


class RedisSource(ProtectedCertificates):
    """The base of all triggers of the family. A subclass defines the question, another one the server."""

    addresses: tuple[str, ...] = parameter(
        (), name="address", also=("addresses",), sources=(_M, _A, _E), description="`host:port`, several for several"
    )
    hosts: tuple[str, ...] = parameter(
        (), name="host", also=("hosts",), sources=(_M, _E, _A), description="instead of `address`, or further ones"
    )
    ports: tuple[str, ...] = parameter(
        (), name="port", also=("ports",), sources=(_M, _E, _A), description="as many as there are hosts"
    )
    username: str | None = parameter(None, sources=(_M, _E, _A), description="user name of the login")
    password: SecretStr | None = parameter(None, sources=(_M, _E, _A), description="password of the login")
    enable_tls: bool | None = parameter(None, name="enableTLS", sources=(_M,), description="speak TLS")
    tls_mode: Literal["enable", "disable"] | None = parameter(
        None, name="tls", sources=(_A,), description="the same; not together with `enableTLS`"
    )
    cert: str | None = parameter(None, also=("Cert",), sources=(_A,), description="PEM of a client certificate")
    database_index: int = parameter(0, sources=(_M,), ge=0, description="a cluster has one database only")

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        self.places()
        if self.enable_tls is not None and self.tls_mode is not None:
            raise ParameterError("enableTLS", "must not be given together with tls of the authentication")
        self.certificates()
        if tls := self.tls():
            tls.context()
        elif self.enable_tls is None and self.tls_mode is None:
            self.refuse_unused("enableTLS or tls: enable")
        return self

    @property
    @abstractmethod
    def server(self) -> Topology:
        """The servers; scalers of one class with equal servers are read together."""

    @property
    @abstractmethod
    def question(self) -> Question:
        """The question whose answer is the value."""

    @staticmethod
    @abstractmethod
    async def ask(link: RedisLink, questions: Sequence[Question]) -> Sequence[Answer]:
        """Returns one server's answers to many such questions."""

    @property
    def watched(self) -> tuple[str, ...]:
        """The key of the question."""
        return (self.question.key,)

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """Returns the numbers of all scalers; asks each question once."""
        server = scalers[0].server
        asked = [scaler.question for scaler in scalers]
        questions = list(dict.fromkeys(asked))
        answers = dict(zip(questions, await server.answers(questions, cls.ask, connections), strict=True))
        return [measured(server, question, answers[question]) for question in asked]

    def tls(self) -> TLS | None:
        """Returns the TLS of the connection, or None."""
        return self.certificates() if self.enable_tls or self.tls_mode == "enable" else None

    def places(self) -> list[tuple[str, int]]:
        """Returns host and port of every server that is named, at least one. Raises ParameterError."""
        if len(self.hosts) != len(self.ports):
            raise ParameterError("host", "as many hosts as ports must be given")
        pairs = [_split(address) for address in self.addresses]
        pairs += [(host.strip("[]"), port) for host, port in zip(self.hosts, self.ports, strict=True)]
        if not pairs:
            raise ParameterError("address", "is required, or host and port")
        return [_checked(host, port) for host, port in pairs]

    def login(self, host: str = "", port: int = 0, *, database: int = 0) -> RedisServer:
        """Returns a server with the login of this trigger."""
        password = self.password.get_secret_value() if self.password else None
        return RedisServer(host, port, database, self.username, password, self.tls())


class SingleServer(RedisSource):
    """The connection to one server: the first that is named."""

    @property
    def server(self) -> RedisServer:
        """The first place."""
        host, port = self.places()[0]
        return self.login(host, port, database=self.database_index)


class ClusterServers(RedisSource):
    """The connection to a cluster, which has one database only."""

    @property
    def server(self) -> RedisCluster:
        """The cluster, with every place as a seed."""
        return RedisCluster(tuple(self.login(host, port) for host, port in self.places()))


class SentinelServers(RedisSource):
    """The connection to the master that sentinels name."""

    sentinel_master: str = parameter(sources=(_M, _A, _E), description="what the sentinels call the master")
    sentinel_username: str | None = parameter(None, sources=(_M, _A, _E), description="for the sentinels")
    sentinel_password: SecretStr | None = parameter(None, sources=(_M, _A, _E), description="for the sentinels")

    @property
    def server(self) -> RedisSentinel:
        """The master, with every place as a sentinel."""
        password = self.sentinel_password.get_secret_value() if self.sentinel_password else None
        return RedisSentinel(
            tuple(
                RedisServer(host, port, 0, self.sentinel_username, password, self.tls()) for host, port in self.places()
            ),
            self.sentinel_master,
            self.login(database=self.database_index),
        )


def measured(server: Topology, question: Question, answer: Answer) -> float | Measure | Exception:
    """Returns an answer as a scaler gives it; a refusal names server and key."""
    if isinstance(answer, exceptions.RedisError):
        return SourceError(f"{server}: {question.key}: {reason(answer)}")
    return answer if isinstance(answer, SourceError | Measure) else float(answer)


def _split(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _checked(host: str, port: str) -> tuple[str, int]:
    if not host or "/" in host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ParameterError("address", "must be host:port, such as redis.example:6379")
    return host, int(port)
