"""Broker URLs of Celery and Redis."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from scalers.sources.tls import trust_options

REDIS = ("redis", "rediss")
SENTINEL = ("sentinel",)
AMQP = ("amqp", "amqps", "pyamqp")

#: The ports of schemes that have one.
_PORTS = {"redis": 6379, "rediss": 6379, "sentinel": 26379}

_FORMS = (
    "must be a URL such as redis://redis.example:6379/0, sentinel://sentinel.example:26379 or amqp://rabbit.example"
)


@dataclass(frozen=True, slots=True)
class BrokerURL:
    """The parts of a broker URL. places: host and port (0: the scheme's). path: database or virtual host.

    verify: of the server's certificate, None if the query does not say. options: further ones of the query that change
    how the server is trusted, such as files on the machine where the URL was written.
    """

    scheme: str
    places: tuple[tuple[str, int], ...]
    path: str
    username: str | None
    password: str | None = field(repr=False)
    verify: bool | None = None
    options: tuple[str, ...] = ()

    @property
    def database(self) -> int:
        """The number of a Redis database. Raises ValueError when the path is none."""
        if not self.path:
            return 0
        if not (self.path.isascii() and self.path.isdecimal()):
            raise ValueError("must end in the number of a database, such as /0")
        return int(self.path)

    @property
    def vhost(self) -> str:
        """The virtual host of a RabbitMQ broker."""
        return self.path or "/"


def parse(text: str) -> BrokerURL:
    """Returns the parts of a URL; of several, separated by semicolons, all but the places come from the first.

    Raises ValueError, which quotes nothing of the text: it may hold a password.
    """
    try:
        parts = [urlsplit(each.strip()) for each in text.split(";") if each.strip()]
        places = tuple((each.hostname or "", each.port or _PORTS.get(each.scheme, 0)) for each in parts)
    except ValueError:
        raise ValueError(_FORMS) from None
    if not parts or not all(host for host, _ in places):
        raise ValueError(_FORMS)
    first = parts[0]
    if first.scheme not in (*REDIS, *SENTINEL, *AMQP) or any(each.scheme != first.scheme for each in parts):
        raise ValueError(_FORMS)
    if len(parts) > 1 and first.scheme not in SENTINEL:
        raise ValueError("must name one server; only sentinels may be several")
    return BrokerURL(
        scheme=first.scheme,
        places=places,
        path=unquote(first.path.removeprefix("/")),
        username=unquote(first.username) if first.username else None,
        password=unquote(first.password) if first.password else None,
        verify=_verify(first),
        options=tuple(name for each in parts for name in trust_options(each.query) if not _is_read(each, name)),
    )


def _is_read(parts: SplitResult, name: str) -> bool:
    """Returns whether `verify` says the same: without TLS nothing is verified."""
    return name == "ssl_cert_reqs" and parts.scheme in ("rediss", "amqps")


def _verify(parts: SplitResult) -> bool | None:
    """Returns `verify`, from the spellings of Celery and redis-py."""
    word = _last(parts, "ssl_cert_reqs")
    return None if not word else word.removeprefix("CERT_").lower() != "none"


def _last(parts: SplitResult, name: str) -> str:
    return parse_qs(parts.query).get(name, [""])[-1]
