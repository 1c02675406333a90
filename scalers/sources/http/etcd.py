"""KEDA's `etcd` trigger: the number that is the value of a key."""

import asyncio
import base64
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self

import orjson
from pydantic import SecretStr, field_validator, model_validator

from penstock.parameters import IGNORED_TRUST, ParameterError
from penstock.scaler import Source, SourceError, parameter
from scalers.sources.field_properties import text_of, value_of
from scalers.sources.http import extracting
from scalers.sources.http.web import HttpAnswer, Server, Session, WebSource, without_user
from scalers.sources.tls import TLS, ProtectedCertificates

#: Statuses of a token that is unknown, or older than the last change of users and roles.
_REFUSED = frozenset({400, 401})
_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT


@dataclass(frozen=True, slots=True)
class EtcdServer(Server):
    """A cluster with the login. endpoints: URLs of its members, asked in their order."""

    endpoints: tuple[str, ...] = ()
    username: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.origin


@dataclass
class _Login:
    """The token of one member, kept until it is refused: etcd computes a bcrypt hash for every login.

    turn: one poll logs in, those beside it wait for its token.
    """

    token: str = ""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def refused(self, token: str) -> None:
        """Forgets the token, unless another poll has replaced it."""
        if token == self.token:
            self.token = ""


@dataclass(frozen=True, slots=True)
class WatchedKey:
    """A key to watch. silence: seconds without a message, progress reports included, after which a watch is lost."""

    key: str
    silence: float


def encoded(text: str) -> str:
    """Returns a key as etcd's JSON has it."""
    return base64.b64encode(text.encode()).decode()


class Etcd(ProtectedCertificates, WebSource):
    """One key of an etcd cluster, asked over etcd's JSON gateway."""

    endpoints: tuple[str, ...] = parameter(
        sources=(_M,), description="addresses of the cluster's members, asked in this order"
    )
    watch_key: str = parameter(sources=(_M,), description="key whose value is the number")
    target_value: float = parameter(name="value", sources=(_M,), ge=0, description="value that one Job is meant for")
    activation_value: float = parameter(0.0, sources=(_M,), description="the trigger is active above this value")
    watch_progress_notify_interval: int = parameter(
        600,
        sources=(_M,),
        gt=0,
        description="seconds between etcd's progress reports; a watch silent for twice as long is opened again",
    )
    username: str | None = parameter(None, sources=(_A, _E), description="user name of the login")
    password: SecretStr | None = parameter(None, sources=(_A, _E), description="password of the login")
    tls: Literal["enable", "disable"] = parameter("disable", sources=(_A,), description="`enable` speaks TLS")

    @field_validator("endpoints")
    @classmethod
    def _named(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        if not all(endpoints):
            raise ValueError("must be addresses such as etcd-0:2379,etcd-1:2379")
        return endpoints

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ParameterError("username", "and password must come together")
        plain = [base for base in self.bases if base.startswith("http://")]
        if plain and self.tls == "enable" and IGNORED_TRUST not in self.quirks:
            raise ParameterError("endpoints", "must not begin with http:// where TLS is switched on")
        if plain and "tls" not in self.model_fields_set:
            self.refuse_unused("tls: enable")
        return self

    @property
    def bases(self) -> tuple[str, ...]:
        """Every endpoint as a URL, without login, which etcd would take for a token."""
        scheme = "https" if self.tls == "enable" else "http"
        return tuple(without_user(each if "://" in each else f"{scheme}://{each}") for each in self.endpoints)

    @property
    def url(self) -> str:
        """The first endpoint."""
        return self.bases[0]

    url_parameter: ClassVar[str] = "endpoints"

    material: ClassVar[TLS] = property(ProtectedCertificates.certificates)  # type: ignore[assignment]

    @property
    def server(self) -> EtcdServer:
        """The cluster with the login."""
        plain = super().server
        return EtcdServer(
            plain.origin,
            plain.tls,
            self.bases,
            self.username or "",
            self.password.get_secret_value() if self.password else "",
        )

    @property
    def watched(self) -> tuple[WatchedKey, ...]:
        """The key. A watch may be silent for twice the interval of progress reports."""
        return (WatchedKey(self.watch_key, 2.0 * self.watch_progress_notify_interval),)

    metric: ClassVar[str] = text_of("etcd-{0.watch_key}")
    target: ClassVar[float] = value_of("target_value")
    activation: ClassVar[float] = value_of("activation_value")

    async def ask(self, session: Session) -> float:
        """Returns the key's value, from the first endpoint that answers. Raises SourceError for a missing key."""
        return await self.anywhere(session, self.bases, lambda base: self._value(session, base))

    async def _value(self, session: Session, base: str) -> float:
        found = self._read(await self._range(session, base)).get("kvs")
        if not found:
            raise SourceError(f"{self.server}: there is no key {self.watch_key}")
        text = base64.b64decode(found[0].get("value", "")).decode(errors="replace")
        try:
            value = extracting.number(float(text), self.watch_key)
        except ValueError:
            raise SourceError(f"{self.server}: the value of {self.watch_key} is no number") from None
        return value or 0.0

    async def _range(self, session: Session, base: str) -> HttpAnswer:
        """Returns the answer about the key, with the token of an earlier login, or of a new one if that is refused."""
        wanted = {"key": encoded(self.watch_key)}
        ask = partial(self.request, session, "/v3/kv/range", method="POST", json=wanted, base=base)
        if not (self.username and self.password):
            return self.accepted(await ask())
        login: _Login = session.memories.setdefault((_Login, base), _Login())
        token = await self._token(session, base, login)
        answer = await ask(headers={"Authorization": token})
        if answer.status in _REFUSED:
            login.refused(token)
            answer = await ask(headers={"Authorization": await self._token(session, base, login)})
        return self.accepted(answer)

    async def _token(self, session: Session, base: str, login: _Login) -> str:
        async with login.turn:
            if not login.token:
                password = self.password.get_secret_value() if self.password else ""
                body = {"name": self.username, "password": password}
                answer = await self.get(session, "/v3/auth/authenticate", method="POST", json=body, base=base)
                if not (token := self._read(answer).get("token")):
                    raise SourceError(f"{self.server}: the login is answered by no token")
                login.token = str(token)
            return login.token

    def _read(self, answer: HttpAnswer) -> dict[str, Any]:
        with self.understanding("one of etcd"):
            return dict(orjson.loads(answer.body))
