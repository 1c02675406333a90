"""Sources over HTTP: KEDA's shared authentication, one session per server, bounded answers."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import SecretStr, model_validator

from penstock.parameters import IGNORED_TRUST, ParameterError
from penstock.scaler import Connections, Measure, Source, SourceError, Unreached, parameter
from scalers.sources.http.oauth import OAuthClient, Tokens
from scalers.sources.tls import TLS, Certificates
from scalers.ttl_cache import TTLCache
from workers.client import environment_proxies
from workers.client.rest import Cluster

if TYPE_CHECKING:
    # Imported with the first request: most scalers measure nothing over HTTP.
    import aiohttp

_M, _A = Source.METADATA, Source.AUTHENTICATION

Found = TypeVar("Found")

#: Requests under way to one server, and bytes of an answer that are read.
IN_FLIGHT = 16
LARGEST = 4 << 20
#: Seconds for which equal requests share an answer.
SHARED = 1.0

_MODES = ("apiKey", "basic", "tls", "bearer", "custom", "oauth")
#: Headers that hold a credential in another form than the secret itself.
_CODED = frozenset({"authorization"})
_EXCLUSIVE = frozenset({"bearer", "basic", "oauth"})


#: Parameters of Amazon's logins.
AMAZON = frozenset(
    {"awsRegion", "identityOwner", "awsAccessKeyID", "awsSecretAccessKey", "awsSessionToken", "awsRoleArn"}
)


@dataclass(frozen=True, slots=True)
class Server:
    """One HTTP server and its TLS. Its text is scheme, host and port."""

    origin: str
    tls: TLS = field(default_factory=TLS, repr=False)

    def __hash__(self) -> int:
        # Each question looks its server up, and rarely are there two of one origin.
        return hash(self.origin)

    def __str__(self) -> str:
        return self.origin


@dataclass
class Session:
    """The connections to one server, its access tokens, and the caches of its triggers (`memories`).

    answers: of requests that triggers have in common.
    cluster: the API server, for triggers that read it too. patience: seconds that one address may take where a trigger
    names several.
    """

    http: "aiohttp.ClientSession"
    tokens: Tokens
    cluster: Cluster | None = None
    patience: float = math.inf
    memories: dict[Hashable, Any] = field(default_factory=dict)
    answers: TTLCache = field(default_factory=lambda: TTLCache(seconds=SHARED, limit=1_000, abandon=True))
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
        """Returns a session, which sends nothing before it is used. limit: of connections, 0 for none."""
        import aiohttp

        connector = aiohttp.TCPConnector(limit=limit, ssl=server.tls.context())
        http = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout()
        )
        return cls(http, Tokens(), cluster, patience)

    async def close(self) -> None:
        """Closes all connections."""
        await self.http.close()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The status, the body and the headers (names in any case) of an answer.

    sent: the credentials of the request, which are removed from quotes: a server may repeat them.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sent: tuple[str, ...] = field(default=(), repr=False)

    @property
    def outcome(self) -> str:
        """The status; of a redirection, which is not followed, with the address that it leads to."""
        target = self.headers.get("Location", "").partition("?")[0] if 300 <= self.status < 400 else ""
        if not target:
            return str(self.status)
        return f"{self.status} (redirections are not followed, this one leads to {self._hidden(without_user(target))})"

    @property
    def quoted(self) -> str:
        """The beginning of the body in one line, without credentials."""
        return self._hidden(self.body.decode(errors="replace")) or "nothing"

    def _hidden(self, text: str) -> str:
        for secret in self.sent:
            text = text.replace(secret, "***")
        return " ".join(text[:400].split())[:120]


class WebSource(Certificates):
    """The base of triggers over HTTP. A subclass defines `url` and `ask`."""

    auth_modes: tuple[str, ...] = parameter(
        (),
        also=("authMode",),
        sources=(_M, _A),
        description="ways to log in: `apiKey`, `basic`, `tls`, `bearer`, `custom`, `oauth`",
    )
    username: str | None = parameter(None, sources=(_A,), description="user name, for `basic`")
    password: SecretStr | None = parameter(None, sources=(_A,), description="password, for `basic`")
    bearer_token: SecretStr | None = parameter(
        None, also=("token",), sources=(_A,), description="token of the header `Authorization: Bearer`, for `bearer`"
    )
    api_key: SecretStr | None = parameter(None, sources=(_M, _A), description="key, for `apiKey`")
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
    scopes: tuple[str, ...] = parameter((), also=("scope",), sources=(_A,), description="`oauth`: scopes to ask for")
    endpoint_params: str | None = parameter(
        None, sources=(_A,), description="`oauth`: further form fields, as a query string"
    )
    timeout: timedelta | None = parameter(None, sources=(_M,), description="how long one request may take")

    @model_validator(mode="after")
    def _speaks(self) -> Self:
        parts = urlsplit(self.url)
        if not _is_url(parts):
            raise ParameterError(self.url_parameter, "must be a URL such as https://metrics.example:9090")
        if self.oauth_token_uri and not _is_url(urlsplit(self.oauth_token_uri)):
            raise ParameterError("oauthTokenURI", "must be a URL such as https://login.example/token")
        for mode in self.auth_modes:
            if mode not in _MODES:
                raise ParameterError("authModes", f"{mode} is none of {', '.join(_MODES)}")
        if len(_EXCLUSIVE.intersection(self.auth_modes)) > 1:
            raise ParameterError("authModes", "bearer, basic and oauth exclude each other")
        if "tls" in self.auth_modes and parts.scheme == "http" and IGNORED_TRUST not in self.quirks:
            raise ParameterError("authModes", "tls needs a URL with https")
        # A type with a parameter `tls` compares that with the certificates itself.
        encrypted = "https" in (parts.scheme, urlsplit(self.oauth_token_uri or "").scheme)
        if not encrypted and "tls" not in type(self).model_fields:
            self.refuse_unused("a URL with https")
        for name, value in self._needed():
            if value is None:
                raise ParameterError(name, f"is required by authModes {','.join(self.auth_modes)}")
        if "basic" in self.auth_modes and ":" in (self.username or ""):
            raise ParameterError("username", "must have no colon, which ends it in a login (RFC 7617)")
        self._check_certificate()
        self.material.context()
        return self

    def _check_certificate(self) -> None:
        """Raises ParameterError for a client certificate that no server would see."""
        unseen = self.cert and not self.material.cert and "tls" not in type(self).model_fields
        if unseen and IGNORED_TRUST not in self.quirks:
            raise ParameterError("cert", "is of no use without authModes: tls")

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
        """The URL of the server, with the path that requests are made below."""
        raise NotImplementedError

    url_parameter: ClassVar[str] = "serverAddress"

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways to log in."""
        return self.auth_modes

    @property
    def material(self) -> TLS:
        """The certificates to present, with `tls` alone, and to trust."""
        return self.certificates() if "tls" in self.auth_modes else TLS(self.ca or "", verify=not self.unsafe_ssl)

    @cached_property
    def server(self) -> Server:
        """The server by scheme, host and port: all its triggers share its connections."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        return Server(f"{parts.scheme}://{host}:{port}", self.material)

    @property
    def patience(self) -> float | None:
        """The trigger's own timeout, in seconds."""
        return self.timeout.total_seconds() if self.timeout else None

    async def ask(self, session: Session) -> float | Measure:
        """Measures over this session. Raises SourceError."""
        raise NotImplementedError

    async def answer(self, connections: Connections) -> float | Measure:
        """Measures over the session that all triggers of the server share."""
        server, cluster, patience = self.server, connections.cluster, connections.patience
        async with connections.use(server, lambda: Session.of(server, cluster, patience), Session.close) as session:
            return await self.ask(session)

    async def anywhere(self, session: Session, bases: Sequence[str], ask: Callable[[str], Awaitable[Found]]) -> Found:
        """Returns the answer of the first address that gives one. Raises the first SourceError if none does."""
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

    @contextmanager
    def understanding(self, form: str) -> Iterator[None]:
        """Turns the exceptions of a body of another form into SourceError."""
        try:
            yield
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            raise SourceError(f"{self.server}: the answer is not {form}") from None

    async def get(
        self, session: Session, path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] = (), **more: Any
    ) -> HttpAnswer:
        """Returns the answer to a GET below the URL. Raises SourceError unless the status is a success.

        more: as `request` takes it.
        """
        return self.accepted(await self.request(session, path, query, **more))

    def accepted(self, answer: HttpAnswer) -> HttpAnswer:
        """Returns an answer whose status is a success. Raises SourceError for any other."""
        if not 200 <= answer.status < 300:
            raise SourceError(f"{self.server} answered {answer.outcome}: {answer.quoted}")
        return answer

    async def shared(
        self, session: Session, path: str, query: Mapping[str, str], *, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """As `get`, but a request that equals one that is under way, or of the last second, is not made again.

        The query names its moment in whole seconds, or callers see values of a second ago.
        """
        login = await self._credentials(session)
        key = (
            self.url,
            path,
            tuple(sorted(query.items())),
            tuple(sorted((headers or {}).items())),
            tuple(sorted(login[0].items())),
            tuple(login[1]),
            self.patience,
        )
        return await session.answers.get(key, partial(self.get, session, path, query, headers=headers))

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
        """Returns the answer, of any status, to a request with the trigger's credentials. Raises Unreached.

        base: URL of another server than the trigger's.
        """
        import aiohttp

        pairs = [*(query.items() if isinstance(query, Mapping) else query)]
        shown, more = await self._credentials(session)
        headers = {**(headers or {}), **shown}
        url = base or self.url
        url = url.rstrip("/") + path if path else url
        user, password = _login_of(url)
        # As Go's client, and therefore KEDA, does it.
        if (user or password) and "authorization" not in (name.lower() for name in headers):
            headers["Authorization"] = aiohttp.encode_basic_auth(user, password, "utf-8")
        sent = tuple(word for name, text in headers.items() if name.lower() in _CODED for word in text.split()[-1:])
        if password:
            sent += (password,)
        async with (
            session.turns,
            self._reaching(),
            session.http.request(
                method,
                without_user(url),
                params=[*pairs, *more] or None,
                headers=headers,
                json=json,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=self.patience),
                proxy=environment_proxies.current(url),
            ) as response,
        ):
            body = await response.content.read(LARGEST + 1)
            # `read` returns the bytes that have arrived: an answer in several packets takes several calls.
            while len(body) <= LARGEST and (piece := await response.content.read(LARGEST + 1 - len(body))):
                body += piece
            if len(body) > LARGEST:
                raise SourceError(f"{self.server} answered more than {LARGEST >> 20} MB")
            if response.status == 401 and "oauth" in self.modes:
                session.tokens.refused(self._client, shown["Authorization"].removeprefix("Bearer "))
            return HttpAnswer(response.status, body, response.headers, sent)

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        import aiohttp

        try:
            yield
        except TimeoutError as error:
            raise Unreached(f"{self.server}: no answer within {self.patience:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreached(f"{self.server}: {_said(error)}") from error

    async def _credentials(self, session: Session) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Returns the headers and query parameters that hold the credentials."""
        import aiohttp

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
            uri=without_user(self.oauth_token_uri or ""),
            id=self.client_id or "",
            secret=_text(self.client_secret),
            scopes=self.scopes,
            more=tuple(parse_qsl(self.endpoint_params or "")),
        )


def _text(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


def without_user(url: str) -> str:
    """Returns the URL without user and password, which would end up in messages."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _is_url(parts: SplitResult) -> bool:
    """Returns whether these are the parts of a URL with a host, and with a port if it names one."""
    try:
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _login_of(url: str) -> tuple[str, str]:
    """Returns the user and the password in a URL, empty without."""
    parts = urlsplit(url)
    return unquote(parts.username or ""), unquote(parts.password or "")


def _said(error: BaseException) -> str:
    """Returns the reason in one line, without the address, which stands before it."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        whom = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        return f"{whom}cannot be reached: {error.os_error.strerror or error.os_error}"
    return str(error) or type(error).__name__
