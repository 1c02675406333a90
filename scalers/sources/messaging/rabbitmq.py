"""KEDA's `rabbitmq` trigger: the depth of a queue over AMQP, depth and rates of queues over the management plugin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self
from urllib.parse import quote, unquote, urlsplit

import orjson
from aiohttp import encode_basic_auth
from pydantic import SecretStr, model_validator

from penstock.parameters import IGNORED_TRUST, ParameterError
from penstock.scaler import Connections, Measure, Source, SourceError, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http.web import Session, WebSource
from scalers.sources.messaging import amqp
from scalers.sources.tls import TLS, ProtectedCertificates, trust_options
from workers.api.kinds import Object

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

Mode = Literal[
    "QueueLength", "MessageRate", "DeliverGetRate", "PublishedToDeliveredRatio", "ExpectedQueueConsumptionTime"
]

#: Messages per Job unless the trigger says otherwise.
_LENGTH = 20.0


@dataclass(frozen=True, slots=True)
class Depth:
    """The messages in one queue, and its rates in messages per second."""

    messages: float
    published: float
    delivered: float

    @classmethod
    def of(cls, queue: Object, *, ready_only: bool) -> Self:
        """Returns the depth of a queue of the management plugin; one that never saw a message has no rates.

        Raises SourceError for a queue that was not counted yet: the plugin knows a new one for seconds without numbers.
        """
        stats = queue.get("message_stats") or {}
        messages = queue.get("messages_ready" if ready_only else "messages")
        if messages is None:
            raise SourceError(f"queue {queue['name']}: the management plugin has not counted its messages yet")
        published = (stats.get("publish_details") or {}).get("rate") or 0.0
        delivered = (stats.get("deliver_get_details") or {}).get("rate") or 0.0
        return cls(float(messages), float(published), float(delivered))

    @classmethod
    def together(cls, depths: Sequence[Self], operation: str, *, whole: bool = False) -> Self:
        """Returns the `sum`, `avg` or `max` of each number of several queues. whole: divides messages as integers."""
        if not depths:
            return cls(0.0, 0.0, 0.0)
        columns = [[d.messages for d in depths], [d.published for d in depths], [d.delivered for d in depths]]
        if operation == "max":
            return cls(*(max(column) for column in columns))
        share = len(depths) if operation == "avg" else 1
        messages, *rates = map(sum, columns)
        return cls(messages // share if whole else messages / share, *(rate / share for rate in rates))


def measure(depth: Depth, mode: Mode, activation: float) -> Measure:
    """Returns the metric of a mode, and whether it makes the trigger active."""
    match mode:
        case "QueueLength":
            return Measure(depth.messages, depth.messages > activation)
        case "MessageRate":
            return Measure(depth.published, max(depth.published, depth.messages) > activation)
        case "DeliverGetRate":
            return Measure(depth.delivered, depth.delivered > activation)
        case "PublishedToDeliveredRatio":
            if depth.delivered == 0:
                return Measure(activation, depth.published > 0)
            ratio = depth.published / depth.delivered
            return Measure(ratio, ratio > activation)
        case "ExpectedQueueConsumptionTime":
            if depth.delivered == 0:
                return Measure(activation, active=True)
            growth = (depth.published - depth.delivered) / depth.delivered
            time = growth + depth.messages / depth.delivered
            return Measure(time, time > activation)


class RabbitMQ(ProtectedCertificates, WebSource):
    """The depth or the rates of one queue, or over HTTP of all whose names match."""

    unsupported = frozenset({"workloadIdentityResource"})

    host: SecretStr = parameter(
        sources=(_M, _A, _E),
        description="URL of the broker (`amqp://`) or its management plugin (`http://`), with login and virtual host",
    )
    queue_name: str = parameter(sources=(_M,), description="queue, or with `useRegex` a regular expression of queues")
    protocol: Literal["auto", "amqp", "http"] = parameter(
        "auto", sources=(_M, _A), description="protocol to ask with; `auto` follows the scheme of `host`"
    )
    mode: Mode | None = parameter(
        None,
        sources=(_M,),
        description="number that counts; all but `QueueLength` over HTTP only",
    )
    value: float | None = parameter(
        None, sources=(_M,), ge=0, description="value of the mode that one Job is meant for"
    )
    queue_length: float | None = parameter(
        None,
        sources=(_M,),
        ge=0,
        description="messages that one Job is meant for, 20 by default; older spelling of `mode` and `value`",
    )
    activation_value: float = parameter(0.0, sources=(_M,), description="the trigger is active above this value")
    vhost_name: str | None = parameter(None, sources=(_M, _A), description="virtual host, instead of the one in `host`")
    use_regex: bool = parameter(
        False,
        sources=(_M,),
        description="`queueName` is a regular expression (HTTP only); queues not counted yet are left out",
    )
    operation: Literal["sum", "avg", "max"] = parameter(
        "sum", sources=(_M,), description="`useRegex`: how the queues become one number"
    )
    page_size: int = parameter(100, sources=(_M,), ge=1, description="`useRegex`: most queues that may match")
    exclude_unacknowledged: bool = parameter(
        False,
        sources=(_M,),
        description="count messages that are ready, not those that are delivered and unacknowledged (HTTP only)",
    )
    username: str | None = parameter(None, sources=(_A, _E), description="user name, instead of the one in `host`")
    password: SecretStr | None = parameter(None, sources=(_A, _E), description="password, instead of the one in `host`")
    tls: Literal["enable", "disable"] = parameter(
        "disable", sources=(_A,), description="`enable` speaks TLS with the certificates given"
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if (self.mode is None) != (self.value is None):
            raise ParameterError("mode", "and value must come together")
        if self.mode is not None and self.queue_length is not None:
            raise ParameterError("queueLength", "is the older spelling of mode and value: give one of the two")
        if (self.username is None) != (self.password is None):
            raise ParameterError("username", "and password must come together")
        if self.oauth_token_uri and self.username:
            raise ParameterError("oauthTokenURI", "and username exclude each other")
        tokens = {"oauthTokenURI": self.oauth_token_uri, "clientID": self.client_id, "clientSecret": self.client_secret}
        for name, value in tokens.items():
            # Without all of them the login would be that of the host, or guest's.
            if value is None and any(tokens.values()):
                raise ParameterError(name, f"is required by {next(each for each in tokens if tokens[each])}")
        self.certificates()
        self._check_tls()
        if self._is_http:
            return self
        for name, asked in (
            ("mode", self.mode not in (None, "QueueLength")),
            ("useRegex", self.use_regex),
            ("excludeUnacknowledged", self.exclude_unacknowledged),
            ("timeout", self.timeout is not None),
            ("oauthTokenURI", self.oauth_token_uri is not None),
        ):
            if asked:
                raise ParameterError(name, "is possible over http only")
        return self

    def _check_tls(self) -> None:
        parts = urlsplit(self.host.get_secret_value())
        if IGNORED_TRUST in self.quirks:
            return
        for name in trust_options(parts.query):
            # Those of KEDA's name files of its pod.
            raise ParameterError("host", f"{name} is not supported: give ca, cert and key to the authentication")
        if self.tls == "enable" and parts.scheme == "http":
            raise ParameterError("tls", "needs a host with https:// or amqps://")
        if "tls" in self.model_fields_set:
            return
        if parts.scheme in ("http", "amqp"):
            self.refuse_unused("tls: enable")
        elif self.cert and "tls" not in self.auth_modes:
            raise ParameterError("cert", "is of no use without tls: enable")

    @property
    def _is_http(self) -> bool:
        if self.protocol != "auto":
            return self.protocol == "http"
        return urlsplit(self.host.get_secret_value()).scheme in ("http", "https")

    @property
    def url(self) -> str:
        """The management plugin's address, without user, virtual host and query."""
        parts = urlsplit(self.host.get_secret_value())
        if not self._is_http:
            # The checks of WebSource concern host and port, which an AMQP URL has as well.
            if parts.scheme not in ("amqp", "amqps"):
                raise ParameterError("host", "must be a URL such as amqp://user:password@rabbit.example:5672/vhost")
            return f"http://{parts.netloc.rpartition('@')[2]}"
        # The last part of the path is the virtual host.
        path = parts.path.rpartition("/")[0]
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", path=path).geturl()

    url_parameter: ClassVar[str] = "host"

    @property
    def vhost(self) -> str:
        """The virtual host; ``/`` by default."""
        if self.vhost_name is not None:
            return self.vhost_name
        return unquote(urlsplit(self.host.get_secret_value()).path.rpartition("/")[2]) or "/"

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"rabbitmq-{quote(self.queue_name, safe='')}"

    @property
    def target(self) -> float:
        """Messages per Job, or the value that the mode is compared with."""
        return next((each for each in (self.value, self.queue_length) if each is not None), _LENGTH)

    activation: ClassVar[float] = value_of("activation_value")

    async def answer(self, connections: Connections) -> float | Measure:
        """Measures over HTTP on the server's session, over AMQP on a channel of the virtual host's connection."""
        login = self.server
        if not isinstance(login, amqp.AmqpBroker):
            return await super().answer(connections)
        length = await amqp.length(login, self.queue_name, connections)
        return Measure(length, length > self.activation_value)

    @property
    def server(self) -> Any:
        """Over AMQP a broker's virtual host with the login, over HTTP a server."""
        if self._is_http:
            return super().server
        parts = urlsplit(self.host.get_secret_value())
        user, password = self._login
        return amqp.AmqpBroker(
            host=parts.hostname or "",
            port=parts.port or (5671 if parts.scheme == "amqps" else 5672),
            vhost=self.vhost,
            user=user,
            password=password,
            tls=self.material if parts.scheme == "amqps" or self.tls == "enable" else None,
        )

    @property
    def modes(self) -> tuple[str, ...]:
        """The ways to log in: KEDA's trigger has no authModes, and uses OAuth if oauthTokenURI is given."""
        return ("oauth",) if self.oauth_token_uri and not self.auth_modes else self.auth_modes

    @property
    def material(self) -> TLS:
        """The certificates to present and to trust; those of the trigger only with `tls` of the authentication."""
        return self.certificates() if self.tls == "enable" else super().material

    @property
    def _login(self) -> tuple[str, str]:
        if self.username and self.password:
            return self.username, self.password.get_secret_value()
        parts = urlsplit(self.host.get_secret_value())
        return unquote(parts.username or "guest"), unquote(parts.password or "guest")

    async def ask(self, session: Session) -> Measure:
        """Measures the queue, or all queues that match, over the management plugin."""
        headers = {} if self.modes else {"Authorization": encode_basic_auth(*self._login, "utf-8")}
        path = f"/api/queues/{quote(self.vhost, safe='')}"
        query: dict[str, str] = {}
        if self.use_regex:
            query = {
                "page": "1",
                "use_regex": "true",
                "pagination": "false",
                "name": self.queue_name,
                "page_size": str(self.page_size),
            }
        else:
            path += f"/{quote(self.queue_name, safe='')}"
        answer = await self.get(session, path, query, headers=headers)
        return measure(self.depth(answer.body), self.mode or "QueueLength", self.activation_value)

    def depth(self, body: bytes) -> Depth:
        """Returns the depth in an answer of the management plugin. Raises SourceError."""
        with self.understanding("one of the management plugin"):
            found: Any = orjson.loads(body)
            if not self.use_regex:
                return Depth.of(found, ready_only=self.exclude_unacknowledged)
            if found.get("page_count", 1) > 1:
                raise SourceError(f"{self.server}: more than pageSize={self.page_size} queues match")
            depths = self._counted(found["items"])
        return Depth.together(depths, self.operation, whole="integer-average" in self.quirks)

    def _counted(self, queues: Sequence[Object]) -> list[Depth]:
        """Returns the depths of the queues that were counted. Raises SourceError if there are queues and none was.

        Where queues come and go there is always a new one, and the others must not be unknown for its sake.
        """
        counted, new = [], None
        for queue in queues:
            try:
                counted.append(Depth.of(queue, ready_only=self.exclude_unacknowledged))
            except SourceError as error:
                new = error
        if new and not counted:
            raise new
        return counted
