"""The checks of requests: the setting `page`, the Host and Origin headers, and tokens in the Authorization header.

There are no cookies: a request that another site makes a browser send carries no token, and can change nothing.
"""

import ipaddress
from collections.abc import Collection
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request

from deploy.page.web.web_answers import HttpRefusal
from workers.api.kinds import Kind

PageMode = Literal["read", "token", "off"]

_CHALLENGE = 'Bearer realm="penstock"'


class Authorizer(Protocol):
    """Decides about a user's token: the API server's authorization (deploy/page/authorization.py)."""

    async def may(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> Any:
        """Returns a value whose `reason` says why not; without one it is allowed."""
        ...


class Access:
    """The checks before every answer.

    mode: `read` asks for no token to read. hosts: names by which browsers reach the page, beside addresses and
    localhost: another name means that somebody else's site leads a browser here (DNS rebinding).
    """

    def __init__(self, mode: PageMode, authority: Authorizer, hosts: Collection[str] = ()) -> None:
        self.mode = mode
        self._authority = authority
        self._hosts = frozenset(host.lower() for host in hosts)

    def check_host(self, request: Request) -> None:
        """Raises HttpRefusal (421) for a Host that is not ours."""
        host = _host(request.headers.get("host", ""))
        if host in self._hosts or host == "localhost" or _is_address(host):
            return
        raise HttpRefusal(
            421, f"the page is not served as {host or 'this host'}: the setting page_hosts names its hosts"
        )

    async def check_read(self, request: Request, kind: Kind, namespace: str = "", name: str = "") -> None:
        """Raises HttpRefusal if the request may not read objects of this kind. Without a name it lists."""
        self.check_host(request)
        if self.mode == "token":
            await self.require(token_of(request), "get" if name else "list", kind, namespace, name)

    async def may_read(self, request: Request, kind: Kind, namespace: str = "") -> bool:
        """Returns True if the request may list objects of this kind. Raises HttpRefusal (401) without a valid token."""
        try:
            await self.check_read(request, kind, namespace)
        except HttpRefusal as refusal:
            if refusal.status != 403:
                raise
            return False
        return True

    def check_origin(self, request: Request) -> None:
        """Raises HttpRefusal (403) for a request that a page of another origin sends."""
        self.check_host(request)
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
            raise HttpRefusal(403, "actions are taken from the page's own origin only")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise HttpRefusal(403, "actions are taken from the page's own origin only")

    async def require(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> None:
        """Raises HttpRefusal (403) if the token's user may not do this."""
        if reason := await self.why_not(token, verb, kind, namespace, name):
            raise HttpRefusal(403, reason)

    async def why_not(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> str:
        """Returns why the token's user may not do this, empty if they may. Raises HttpRefusal (401): unknown token."""
        answer = await self._authority.may(token, verb, kind, namespace, name)
        reason = getattr(answer, "reason", None)
        if reason is not None and getattr(answer, "status", 403) == 401:
            raise HttpRefusal(401, str(reason), challenge=f'{_CHALLENGE}, error="invalid_token"')
        return "" if reason is None else str(reason) or f"{verb} {kind.plural} is not allowed"


def token_of(request: Request) -> str:
    """Returns the bearer token of a request. Raises HttpRefusal (401) without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise HttpRefusal(401, "a bearer token is needed in the Authorization header", challenge=_CHALLENGE)
    return token.strip()


def _host(header: str) -> str:
    """Returns the name or address in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
