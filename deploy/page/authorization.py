"""Authorization of the page's visitors: the API server decides, by their own tokens.

The page has no rights of its own that a visitor could borrow. A visitor sends a token of the cluster in the header
`Authorization`, never in a cookie or a URL; every action is a request to the API server with that token, over a
connection that carries no credentials of the gateway. What `may` answers only decides which buttons are offered.

No other site can act through a visitor's browser: browsers send no such header by themselves, and a script of
another origin may not set it, because no answer allows it (CORS). The checks of Host and Origin below refuse what is
left: a name of another site that was made to resolve to this server (DNS rebinding), and forged forms.
"""

import hashlib
import ipaddress
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from scalers.ttl_cache import TTLCache
from workers.api.kinds import Kind
from workers.client.rest import Cluster
from workers.errors import ClusterError, Forbidden, NotFound, Unavailable

#: Seconds for which an answer of the API server is remembered, and most answers.
SECONDS, MOST_ANSWERS = 10.0, 10_000
#: Longest token, in characters.
LONGEST = 16_384
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
#: Methods that change nothing.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Relations between the site that sends a request and the page, as browsers tell them (`Sec-Fetch-Site`).
_OWN_SITES = frozenset({"", "same-origin", "none"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """The API server says yes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server says no, or takes no such token. reason: for the visitor."""

    reason: str


ALLOWED = Allowed()


class VisitorRequests:
    """Requests to the API server in a visitor's name."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        self._cluster = cluster
        self._headers = {"Authorization": f"Bearer {token}"}

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Returns the decoded answer, as `workers.client.rest.Cluster.request`; raises subclasses of ClusterError."""
        own = {**(headers or {}), **self._headers}
        return await self._cluster.request(method, path, query=query, body=body, headers=own)

    def stream_lines(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a streamed answer, as `workers.client.rest.Cluster.stream_lines`."""
        return self._cluster.stream_lines(path, query, headers=self._headers)


class PageAuthorization:
    """Asks the API server what visitors may do.

    cluster: a connection without credentials (`Cluster.connect(anonymous=True)`): with a client certificate of the
    gateway, the API server would take a visitor for the gateway.
    """

    def __init__(self, cluster: Cluster, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._cache = TTLCache(seconds=SECONDS, limit=MOST_ANSWERS, clock=clock)

    def visitor(self, token: str) -> VisitorRequests:
        """Returns requests in the name of the token's owner."""
        return VisitorRequests(self._cluster, token)

    async def may(
        self, token: str, verb: str, kind: Kind, namespace: str, name: str, *, subresource: str = ""
    ) -> Allowed | Refused:
        """Returns whether the token's owner may do this (SelfSubjectAccessReview).

        verb: of the API (get, create, patch, delete). namespace: empty for kinds without. name: empty for all
        objects. Raises workers.errors.Unavailable if the API server does not answer.
        """
        attributes = {
            "verb": verb,
            "group": kind.group,
            "version": kind.version,
            "resource": kind.plural,
            "namespace": namespace,
            "name": name,
            "subresource": subresource,
        }
        key = (_digest(token), *attributes.values())
        return await self._cache.get(key, lambda: self._reviewed(token, attributes))

    async def user(self, token: str) -> str | None:
        """Returns the name of the token's owner; None for a token that the API server does not take.

        Raises workers.errors.Unavailable if the API server does not answer.
        """
        # None is not remembered by the cache.
        return await self._cache.get((_digest(token), "user"), lambda: self._owner(token)) or None

    async def _reviewed(self, token: str, attributes: Mapping[str, str]) -> Allowed | Refused:
        spec = {"resourceAttributes": {name: text for name, text in attributes.items() if text}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        try:
            answer = await self._asked(token, _REVIEWS, body)
        except Forbidden as error:
            return Refused("the token is not valid" if error.status == 401 else str(error))
        status = (answer or {}).get("status") or {}
        if status.get("allowed") is True:
            return ALLOWED
        return Refused(str(status.get("reason") or _sentence(attributes)))

    async def _owner(self, token: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            answer = await self._asked(token, _WHO, body)
        except Forbidden:
            return ""
        except NotFound:
            # A server before 1.28 does not tell names; it tells whether it takes the token.
            review = await self._reviewed(token, {"verb": "get", "resource": "namespaces"})
            return "" if review == Refused("the token is not valid") else "unknown"
        return str((((answer or {}).get("status") or {}).get("userInfo") or {}).get("username") or "")

    async def _asked(self, token: str, path: str, body: Any) -> Any:
        if not _sendable(token):
            raise Forbidden("the token is malformed", status=401)
        try:
            return await self.visitor(token).request("POST", path, body=body)
        except (Forbidden, NotFound, Unavailable):
            raise
        except ClusterError as error:
            raise Unavailable(str(error), status=error.status) from error


def foreign(method: str, headers: Mapping[str, str], hosts: Collection[str] = ()) -> str:
    """Returns why a request is refused that another site may have caused, empty if none can. Pure.

    headers: by lower-case name. hosts: names of this server beside localhost and all IP addresses, in lower case.
    """
    host = headers.get("host", "")
    if not _own_name(host, hosts):
        return f"Host: {host[:100]!r} is no name of this server"
    origin = headers.get("origin")
    if origin is not None and _host_of(origin) != host.lower():
        return f"Origin: {origin[:100]!r} is another site"
    if method not in _SAFE and headers.get("sec-fetch-site", "") not in _OWN_SITES:
        return "Sec-Fetch-Site: the request comes from another site"
    return ""


def _host_of(origin: str) -> str:
    """Returns the host and port of an origin in lower case, empty for what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _own_name(host: str, hosts: Collection[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        ipaddress.ip_address(name)
    except ValueError:
        return bool(host) and (name := host.rpartition(":")[0] or host).lower() in ("localhost", *hosts)
    # No name was resolved, so none was made to resolve to this server.
    return True


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


def _sendable(token: str) -> bool:
    return 0 < len(token) <= LONGEST and token.isascii() and token.isprintable() and " " not in token


def _sentence(attributes: Mapping[str, str]) -> str:
    where = f" in namespace {attributes['namespace']}" if attributes.get("namespace") else ""
    return f"the owner of the token may not {attributes['verb']} {attributes['resource']}{where}"
