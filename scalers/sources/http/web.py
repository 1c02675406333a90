"""Sources that are asked over HTTP: KEDA's shared authentication, one session per server, bounded answers."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self, TypeVar
from urllib.parse import parse_qsl, urlsplit

import aiohttp
from pydantic import SecretStr, model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Connections, Measure, Scaler, Source, SourceError, Unreached, parameter
from scalers.sources.http.oauth import OAuthClient, Tokens
from scalers.sources.tls import TLS
from workers.client.rest import Cluster

_M, _A = Source.METADATA, Source.AUTHENTICATION

Found = TypeVar("Found")

#: Requests under way to one server, and bytes of an answer that are read.
IN_FLIGHT = 16
LARGEST = 4 << 20

_MODES = ("apiKey", "basic", "tls", "bearer", "custom", "oauth")
#: Headers that say who asks in a form that is not the secret itself.
_SAYING = frozenset({"authorization"})
_EXCLUSIVE = frozenset({"bearer", "basic", "oauth"})


@dataclass(frozen=True, slots=True)
class Server:
    """One HTTP server, and how its TLS is spoken. Its text is scheme, host and port."""

    origin: str
    tls: TLS = field(default_factory=TLS, repr=False)

    def __str__(self) -> str:
        return self.origin


@dataclass
class Session:
    """The connections to one server, the tokens got for it, and what else its triggers remember of its answers.

    cluster: the API server, for triggers that ask about it too. patience: seconds that one address may take where a
    trigger names several.
    """

    http: aiohttp.ClientSession
    tokens: Tokens
    cluster: Cluster | None = None
    patience: float = math.inf
    memories: dict[Hashable, Any] = field(default_factory=dict)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_FLIGHT))

    @classmethod
    def of(
        cls,
        server: Server,
        cluster: Cluster | None = None,
        patience: float = math.inf,
        *,
        limit: int = IN_FLIGHT,
    ) -> "Session":
        """A session with one server; nothing is sent before it is used. limit: of connections, 0 for none."""
        connector = aiohttp.TCPConnector(limit=limit, ssl=server.tls.context())
        http = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout()
        )
        return cls(http, Tokens(), cluster, patience)

    async def close(self) -> None:
        """Close all connections."""
        await self.http.close()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered: the status, the body, and the headers, whose names may be asked for in any case.

    sent: what said who asks, lest a server that repeats it makes it known.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sent: tuple[str, ...] = field(default=(), repr=False)

    @property
    def quoted(self) -> str:
        """The beginning of the body in one line."""
        text = self.body.decode(errors="replace")
        for secret in self.sent:
            text = text.replace(secret, "***")
        return " ".join(text[:400].split())[:120] or "nothing"


class WebSource(Scaler):
    """What triggers that ask over HTTP have in common. A subclass defines `url` and `ask`."""

    auth_modes: tuple[str, ...] = parameter(
        (),
        also=("authMode",),
        sources=(_M,),
        description="ways to log in: `apiKey`, `basic`, `tls`, `bearer`, `custom`, `oauth`",
    )
    username: str | None = parameter(None, sources=(_A,), description="user name, for `basic`")
    password: SecretStr | None = parameter(None, sources=(_A,), description="password, for `basic`")
    bearer_token: SecretStr | None = parameter(
        None, also=("token",), sources=(_A,), description="token of the header `Authorization: Bearer`, for `bearer`"
    )
    api_key: SecretStr | None = parameter(None, sources=(_A,), description="key, for `apiKey`")
    method: Literal["header", "query"] = parameter(
        "header", sources=(_M, _A), description="`apiKey`: where the key is sent"
    )
    key_param_name: str | None = parameter(
        None, sources=(_M, _A), description="`apiKey`: name of the header (`X-API-KEY`) or query parameter (`api_key`)"
    )
    custom_auth_header: str | None = parameter(None, sources=(_A,), description="name of the header, for `custom`")
    custom_auth_value: SecretStr | None = parameter(
        None, sources=(_A,), description="value of the header, for `custom`"
    )
    oauth_token_uri: str | None = parameter(
        None,
        name="oauthTokenURI",
        sources=(_A,),
        description="`oauth`: URL that issues access tokens (client credentials grant)",
    )
    client_id: str | None = parameter(None, name="clientID", sources=(_A,), description="`oauth`: id of the client")
    client_secret: SecretStr | None = parameter(None, sources=(_A,), description="`oauth`: secret of the client")
    scopes: tuple[str, ...] = parameter((), sources=(_A,), description="`oauth`: scopes to ask for")
    endpoint_params: str | None = parameter(
        None, sources=(_A,), description="`oauth`: further form fields, as a query string"
    )
    ca: str | None = parameter(None, sources=(_A,), description="PEM of the authority to trust instead of the system's")
    cert: str | None = parameter(None, sources=(_A,), description="PEM of a client certificate, for `tls`")
    key: SecretStr | None = parameter(None, sources=(_A,), description="PEM of its private key, for `tls`")
    unsafe_ssl: bool = parameter(False, sources=(_M,), description="accept any certificate of the server")
    timeout: timedelta | None = parameter(None, sources=(_M,), description="how long one request may take")

    @model_validator(mode="after")
    def _speaks(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError(self.url_parameter, "must be a URL such as https://metrics.example:9090")
        for mode in self.auth_modes:
            if mode not in _MODES:
                raise ParameterError("authModes", f"{mode} is none of {', '.join(_MODES)}")
        if len(_EXCLUSIVE.intersection(self.auth_modes)) > 1:
            raise ParameterError("authModes", "bearer, basic and oauth exclude each other")
        for name, value in self._needed():
            if value is None:
                raise ParameterError(name, f"is required by authModes {','.join(self.auth_modes)}")
        self.material.context()
        return self

    def _needed(self) -> list[tuple[str, object]]:
        wanted: Mapping[str, tuple[tuple[str, object], ...]] = {
            "apiKey": (("apiKey", self.api_key),),
            "basic": (("username", self.username),),
            "tls": (("cert", self.cert), ("key", self.key)),
            "bearer": (("bearerToken", self.bearer_token),),
            "custom": (("customAuthHeader", self.custom_auth_header), ("customAuthValue", self.custom_auth_value)),
            "oauth": (("oauthTokenURI", self.oauth_token_uri), ("clientID", self.client_id)),
        }
        return [pair for mode in self.auth_modes for pair in wanted[mode]]

    @property
    def url(self) -> str:
        """Where the server is; a path in it is kept."""
        raise NotImplementedError

    url_parameter: ClassVar[str] = "serverAddress"

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways to log in."""
        return self.auth_modes

    @property
    def material(self) -> TLS:
        """What is shown to the server and trusted."""
        shown = "tls" in self.auth_modes
        return TLS(
            ca=self.ca or "",
            cert=(self.cert or "") if shown else "",
            key=self.key.get_secret_value() if shown and self.key else "",
            verify=not self.unsafe_ssl,
        )

    @property
    def server(self) -> Server:
        """The server by scheme, host and port: whatever is asked of it shares its connections."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        return Server(f"{parts.scheme}://{host}:{port}", self.material)

    @property
    def patience(self) -> float | None:
        """The trigger's own timeout, in seconds."""
        return self.timeout.total_seconds() if self.timeout else None

    async def ask(self, session: Session) -> float | Measure:
        """Measure over this session; raises SourceError with the reason."""
        raise NotImplementedError

    async def answer(self, connections: Connections) -> float | Measure:
        """Measure over the session that all triggers of the server share."""
        server, cluster, patience = self.server, connections.cluster, connections.patience
        async with connections.use(server, lambda: Session.of(server, cluster, patience), Session.close) as session:
            return await self.ask(session)

    async def anywhere(self, session: Session, bases: Sequence[str], ask: Callable[[str], Awaitable[Found]]) -> Found:
        """The answer of the first address that gives one; raises the first address's SourceError if none does."""
        first: SourceError | None = None
        for base in bases:
            try:
                async with asyncio.timeout(session.patience if base != bases[-1] else None):
                    return await ask(base)
            except TimeoutError:
                first = first or Unreached(f"{self.server}: no answer within {session.patience:g} s")
            except SourceError as error:
                first = first or error
        raise first or SourceError(f"{self.server}: there is no address")

    async def get(
        self, session: Session, path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] = (), **more: Any
    ) -> HttpAnswer:
        """GET of a path below the URL; raises SourceError unless the status says success.

        more: as `request` takes it.
        """
        answer = await self.request(session, path, query, **more)
        if not 200 <= answer.status < 300:
            raise SourceError(f"{self.server} answered {answer.status}: {answer.quoted}")
        return answer

    async def request(
        self,
        session: Session,
        path: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        json: object = None,
        base: str = "",
    ) -> HttpAnswer:
        """One request with the trigger's authentication; whatever the status, an answer.

        base: asks another server than the URL's.
        """
        pairs = [*(query.items() if isinstance(query, Mapping) else query)]
        shown, more = await self._credentials(session)
        headers = {**(headers or {}), **shown}
        sent = tuple(word for name, text in headers.items() if name.lower() in _SAYING for word in text.split()[-1:])
        url = base or self.url
        url = url.rstrip("/") + path if path else url
        async with (
            session.turns,
            self._reaching(),
            session.http.request(
                method,
                _without_user(url),
                params=[*pairs, *more] or None,
                headers=headers,
                json=json,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=self.patience),
            ) as response,
        ):
            body = await response.content.read(LARGEST + 1)
            # `read` answers what is there: an answer in several pieces takes several.
            while len(body) <= LARGEST and (piece := await response.content.read(LARGEST + 1 - len(body))):
                body += piece
            if len(body) > LARGEST:
                raise SourceError(f"{self.server} answered more than {LARGEST >> 20} MB")
            return HttpAnswer(response.status, body, response.headers, sent)

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise Unreached(f"{self.server}: no answer within {self.patience:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreached(f"{self.server}: {_said(error)}") from error

    async def _credentials(self, session: Session) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Headers and query parameters that say who asks."""
        headers: dict[str, str] = {}
        query: list[tuple[str, str]] = []
        for mode in self.modes:
            match mode:
                case "basic":
                    headers["Authorization"] = aiohttp.encode_basic_auth(
                        self.username or "", _text(self.password), "utf-8"
                    )
                case "bearer":
                    headers["Authorization"] = f"Bearer {_text(self.bearer_token)}"
                case "custom":
                    headers[self.custom_auth_header or ""] = _text(self.custom_auth_value)
                case "apiKey" if self.method == "query":
                    query.append((self.key_param_name or "api_key", _text(self.api_key)))
                case "apiKey":
                    headers[self.key_param_name or "X-API-KEY"] = _text(self.api_key)
                case "oauth":
                    async with self._reaching():
                        headers["Authorization"] = f"Bearer {await session.tokens.get(session.http, self._client)}"
        return headers, query

    @property
    def _client(self) -> OAuthClient:
        return OAuthClient(
            uri=self.oauth_token_uri or "",
            id=self.client_id or "",
            secret=_text(self.client_secret),
            scopes=self.scopes,
            more=tuple(parse_qsl(self.endpoint_params or "")),
        )


def _text(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


def _without_user(url: str) -> str:
    """User and password in a URL are no part of what is asked, and would end up in messages."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _said(error: BaseException) -> str:
    """The reason in one line, without the address that stands before it."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__
