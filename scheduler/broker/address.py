"""The address of the broker, from its URL and the settings of its certificates (docs/brokers.md).

An option that is not known is refused by its name: one that were ignored might have been the one that protects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from penstock._trust import EXCLUDED, INCLUDED

#: Ports of servers and of sentinels.
_PORT, _SENTINEL_PORT = 6379, 26379

_SCHEMES = ("redis", "rediss", "sentinel")
#: Schemes that people try for a cluster.
_CLUSTERS = ("redis-cluster", "rediscluster", "redis+cluster", "cluster", "valkey-cluster")

_FORMS = "must begin with redis://, rediss:// or sentinel:// and name a server, such as redis://redis.example:6379/0"

Verify = Literal["required", "optional", "none"]


@dataclass(frozen=True, slots=True)
class BrokerTLS:
    """TLS to the broker. server_name: the name that its certificate must have, unless it is the host's own.

    ca: file of the authorities to trust instead of the system's. cert, key: files of the client's certificate.
    check_hostname: False accepts a trusted certificate of any name.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    verify: Verify = "required"
    check_hostname: bool = True
    server_name: str = ""

    def options(self) -> dict[str, Any]:
        """Returns the options of redis-py's TLS connections, blocking and asyncio alike."""
        return {
            "ssl_cert_reqs": self.verify,
            "ssl_ca_certs": self.ca or None,
            "ssl_certfile": self.cert or None,
            "ssl_keyfile": self.key or None,
            "ssl_check_hostname": self.check_hostname and self.verify != "none",
            "ssl_include_verify_flags": list(INCLUDED),
            "ssl_exclude_verify_flags": list(EXCLUDED),
        }


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The places of the broker, and the login. Neither repr nor text shows a password.

    places: host and port of the server, of sentinels, or of nodes of a cluster. master: the name by which sentinels
    know the server, empty without them. sentinel_username, sentinel_password, sentinel_tls: for connections to
    sentinels. cluster: the places are nodes of a cluster, which name the owner of `slot_key`.
    """

    places: tuple[tuple[str, int], ...]
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: BrokerTLS | None = None
    master: str = ""
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    sentinel_tls: BrokerTLS | None = None
    cluster: bool = False
    slot_key: str = "{penstock}"

    def __str__(self) -> str:
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.places)
        if self.master:
            return f"{self.master} of {places}/{self.database}"
        return f"{places}/{self.database}"

    @property
    def user(self) -> str:
        """Returns the name of the broker's user, for messages."""
        return self.username or "default"

    @property
    def is_discovered(self) -> bool:
        """Returns True if others must be asked which server to connect to."""
        return bool(self.master) or self.cluster


#: The settings that name a file, and the option of the URL that does the same.
FILES: Mapping[str, str] = {
    "broker_ca": "ssl_ca_certs",
    "broker_cert": "ssl_certfile",
    "broker_key": "ssl_keyfile",
}


def with_files(url: str, files: Mapping[str, Path | None]) -> str:
    """Returns the URL with the files of the settings (`FILES`) as options.

    Raises ValueError for a file that the URL names too.
    """
    named = {FILES[name]: str(file.absolute()) for name, file in files.items() if file}
    if not named:
        return url
    parts = urlsplit(url)
    known = dict(parse_qsl(parts.query, keep_blank_values=True))
    if twice := next((name for name in named if name in known), None):
        raise ValueError(f"has the option {twice}, and a setting names such a file too: leave one out")
    query = "&".join(each for each in (parts.query, urlencode(named)) if each)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, parts.fragment))


def parse(text: str, *, prefix: str = "penstock") -> BrokerAddress:
    """Returns the address. prefix: of the keys, which have one slot of a cluster.

    Raises ValueError that names the wrong part, and never quotes a login.
    """
    try:
        parts = urlsplit(text.strip())
        account, at, hosts = parts.netloc.rpartition("@")
        places = tuple(_place(each, parts.scheme) for each in hosts.split(","))
    except ValueError:
        raise ValueError(_FORMS) from None
    if parts.scheme in _CLUSTERS:
        raise ValueError("names a cluster by ?cluster=true: redis://a.example:6379,b.example:6379/0?cluster=true")
    if parts.scheme not in _SCHEMES or not all(host for host, _ in places):
        raise ValueError(_FORMS)
    if parts.fragment:
        raise ValueError("has a #: in a login it must be written %23")
    given = _Options(parts)
    address = _address(parts, places, given, prefix)
    given.refuse_unread()
    username, password = _login(account) if at else (None, None)
    database = given.number("db") if "db" in given.values else _database(parts.path)
    return _with_login(address, given, username, password, database)


class _Options:
    """The options of a URL's query, each of which must be read once."""

    def __init__(self, parts: SplitResult) -> None:
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        self.values: dict[str, str] = dict(pairs)
        if len(pairs) != len(self.values):
            twice = next(name for name in self.values if sum(each == name for each, _ in pairs) > 1)
            raise ValueError(f"has the option {twice} twice")
        # Read with the login.
        self._read = {"db", "username", "password"}

    def text(self, name: str, default: str = "") -> str:
        self._read.add(name)
        return self.values.get(name, default)

    def yes(self, name: str, *, default: bool = False) -> bool:
        word = self.text(name).lower()
        if word not in ("", "true", "false", "yes", "no", "1", "0"):
            raise ValueError(f"option {name} must be true or false")
        return word in ("true", "yes", "1") if word else default

    def number(self, name: str) -> int:
        word = self.text(name)
        if not (word.isascii() and word.isdecimal()):
            raise ValueError(f"option {name} must be a number")
        return int(word)

    def refuse_unread(self) -> None:
        if unread := sorted(self.values.keys() - self._read):
            raise ValueError(f"has the option {unread[0]}, which is not supported")


def _address(parts: SplitResult, places: tuple[tuple[str, int], ...], given: _Options, prefix: str) -> BrokerAddress:
    if parts.scheme == "sentinel":
        master = given.text("master") or given.text("master_name")
        if not master:
            raise ValueError("must name the master that the sentinels watch, ?master=mymaster")
        speaks = given.yes("ssl")
        tls = _tls(given, speaks=speaks, where="?ssl=true")
        return BrokerAddress(
            places,
            tls=tls,
            master=master,
            sentinel_username=given.text("sentinel_username") or None,
            sentinel_password=given.text("sentinel_password") or None,
            sentinel_tls=_sentinel_tls(given, tls),
        )
    cluster = given.yes("cluster")
    if len(places) > 1 and not cluster:
        raise ValueError("must name one server; several are for sentinel:// and ?cluster=true")
    tls = _tls(given, speaks=parts.scheme == "rediss", where="rediss://")
    return BrokerAddress(places, tls=tls, cluster=cluster, slot_key=f"{{{prefix}}}")


def _sentinel_tls(given: _Options, tls: BrokerTLS | None) -> BrokerTLS | None:
    """Sentinels speak TLS if the server does, with the same certificates, unless sentinel_ssl says otherwise."""
    if not given.yes("sentinel_ssl", default=tls is not None):
        return None
    if tls is None:
        raise ValueError("has sentinel_ssl=true without ssl=true: the server's answers must be protected first")
    return tls


def _tls(given: _Options, *, speaks: bool, where: str) -> BrokerTLS | None:
    names = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
    ca, cert, key = (given.text(name) for name in names)
    verify = given.text("ssl_cert_reqs", "required").lower().removeprefix("cert_")
    if verify not in ("required", "optional", "none"):
        raise ValueError("option ssl_cert_reqs must be required, optional or none")
    check, server_name = given.yes("ssl_check_hostname", default=True), given.text("ssl_server_name")
    if not speaks:
        asked = (*names, "ssl_cert_reqs", "ssl_check_hostname", "ssl_server_name")
        if unused := next((name for name in asked if name in given.values), None):
            raise ValueError(f"{unused} is of no use without {where}: the connection would be in the clear")
        return None
    if bool(cert) != bool(key):
        raise ValueError("needs ssl_certfile and ssl_keyfile together")
    if server_name and not check:
        raise ValueError("has ssl_server_name, which ssl_check_hostname=false ignores")
    return BrokerTLS(ca, cert, key, verify, check, server_name)  # type: ignore[arg-type]


def _with_login(
    address: BrokerAddress, given: _Options, username: str | None, password: str | None, database: int
) -> BrokerAddress:
    username = given.values.get("username") or username
    password = given.values.get("password") or password
    if username and password is None:
        raise ValueError("names a user without a password")
    if address.cluster and database:
        raise ValueError("names a database, and a cluster has database 0 only")
    return replace(address, username=username, password=password, database=database)


def _place(text: str, scheme: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text.strip()}")
    default = _SENTINEL_PORT if scheme == "sentinel" else _PORT
    return parts.hostname or "", default if parts.port is None else parts.port


def _login(account: str) -> tuple[str | None, str | None]:
    username, colon, password = account.partition(":")
    return unquote(username) or None, unquote(password) if colon and password else None


def _database(path: str) -> int:
    text = path.strip("/")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise ValueError("must end in the number of a database, such as /0")
    return int(text)
