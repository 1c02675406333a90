"""The checks of requests: the setting `page`, the Host and Origin headers, and tokens in the Authorization header."""

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any, Literal, Protocol

from starlette.requests import Request

from deploy.page import authorization
from deploy.page.authorization import Allowed, Refused
from deploy.page.web.web_answers import HttpRefusal
from workers.api.bearer_tokens import bearer_token
from workers.api.kinds import Kind

PageMode = Literal["read", "token", "off"]

_CHALLENGE = 'Bearer realm="penstock"'


class ObjectReader(Protocol):
    """The part of `workers.client.rest.Cluster` that answers use, with the process's rights or a visitor's."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Returns the decoded answer. Raises `errors.ClusterError`."""
        ...

    def stream_lines(self, path: str, query: Mapping[str, str] | None = None) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a streamed answer. Raises `errors.ClusterError`."""
        ...


class Authorizer(Protocol):
    """The part of `deploy.page.authorization.PageAuthorization` that decides about tokens."""

    async def may(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> Allowed | Refused:
        """Returns whether the token's owner may do this."""
        ...

    async def user(self, token: str) -> str | None:
        """Returns the name of the token's owner; None for an invalid token."""
        ...

    def visitor(self, token: str) -> ObjectReader:
        """Returns requests to the API server in the name of the token's owner."""
        ...


class Access:
    """The checks before every answer.

    mode: `read` asks for no token to read. hosts: names by which browsers reach the page, beside addresses and
    localhost.
    """

    def __init__(self, mode: PageMode, authorizer: Authorizer, hosts: Collection[str] = ()) -> None:
        self.mode = mode
        self._authorizer = authorizer
        self._hosts = frozenset(host.lower() for host in hosts)

    def check_site(self, request: Request) -> None:
        """Raises HttpRefusal (403) for a request that another site may have caused."""
        if reason := authorization.foreign(request.method, request.headers, self._hosts):
            raise HttpRefusal(403, f"{reason}; the setting page_hosts names the page's hosts")

    async def check_read(self, request: Request, kind: Kind, namespace: str = "", name: str = "") -> None:
        """Raises HttpRefusal if the request may not read objects of this kind. Without a name it lists."""
        self.check_site(request)
        if self.mode == "token":
            await self.require(token_of(request), "get" if name else "list", kind, namespace, name)

    async def may_read(self, request: Request, kind: Kind) -> bool:
        """Returns True if the request may list this kind everywhere. Raises HttpRefusal (401) without a token."""
        try:
            await self.check_read(request, kind)
        except HttpRefusal as refusal:
            if refusal.status != 403:
                raise
            return False
        return True

    async def require(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> None:
        """Raises HttpRefusal (403) if the token's owner may not do this, and 401 for a token of none."""
        if reason := await self.why_not(token, verb, kind, namespace, name):
            raise HttpRefusal(403, reason)

    async def why_not(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> str:
        """Returns why the token's owner may not do this, empty if they may. Raises HttpRefusal (401)."""
        answer = await self._authorizer.may(token, verb, kind, namespace, name)
        if isinstance(answer, Allowed):
            return ""
        if await self._authorizer.user(token) is None:
            raise _invalid_token()
        return answer.reason

    async def user_of(self, request: Request) -> str | None:
        """Returns the name of the request's user, None without a token. Raises HttpRefusal (401)."""
        token = bearer_token(request.headers)
        if not token:
            return None
        if (name := await self._authorizer.user(token)) is None:
            raise _invalid_token()
        return name

    def visitor(self, token: str) -> ObjectReader:
        """Returns requests to the API server in the name of the token's owner."""
        return self._authorizer.visitor(token)

    def reader(self, request: Request, own: ObjectReader) -> ObjectReader:
        """Returns requests with the rights that this request reads with. own: with those of the process."""
        return self.visitor(token_of(request)) if self.mode == "token" else own


def token_of(request: Request) -> str:
    """Returns the bearer token of a request. Raises HttpRefusal (401) without one."""
    if token := bearer_token(request.headers):
        return token
    raise HttpRefusal(401, "a bearer token is needed in the Authorization header", challenge=_CHALLENGE)


def _invalid_token() -> HttpRefusal:
    return HttpRefusal(401, "the token is not valid", challenge=f'{_CHALLENGE}, error="invalid_token"')
