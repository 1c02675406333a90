"""Answers of the page over HTTP: JSON, problems (RFC 9457), and the headers that every answer has."""

import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any

import orjson
from redis.exceptions import RedisError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from workers.errors import ClusterError, Conflict, Forbidden, Invalid, NotFound, Stale, UserError

log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]

#: Of every answer: nothing of it is framed, sniffed, told to others or shared with other origins.
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
#: Scripts, styles, pictures and connections come from the page's own origin only, and nothing is inline.
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    b"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DATA_POLICY = b"default-src 'none'; frame-ancestors 'none'"


class HttpRefusal(Exception):  # noqa: N818 - an answer, not a failure
    """An answer of 400 or more.

    detail: a sentence for people. challenge: of WWW-Authenticate. retry_after: seconds after which it may be another.
    """

    def __init__(self, status: int, detail: str, *, challenge: str = "", retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.challenge = challenge
        self.retry_after = retry_after


def json(value: Any) -> Response:
    """Returns the value as JSON; what is bytes already is taken as it is."""
    content = value if isinstance(value, bytes) else orjson.dumps(value)
    return Response(content, media_type="application/json", headers={"Cache-Control": "no-store"})


def joined(rows: Iterable[bytes]) -> bytes:
    """Returns encoded values as a JSON array."""
    return b"[" + b",".join(rows) + b"]"


def problem(refusal: HttpRefusal) -> Response:
    """Returns a refusal as problem JSON."""
    title = HTTPStatus(refusal.status).phrase
    body = {"type": "about:blank", "title": title, "status": refusal.status, "detail": refusal.detail}
    headers = {"Cache-Control": "no-store"}
    if refusal.challenge:
        headers["WWW-Authenticate"] = refusal.challenge
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    return Response(orjson.dumps(body), refusal.status, headers, "application/problem+json")


def answering(endpoint: Endpoint) -> Endpoint:
    """Returns the endpoint with errors turned into problems."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            return problem(refusal_of(error))

    return answer


def refusal_of(error: Exception) -> HttpRefusal:
    """Returns the refusal that an error means."""
    match error:
        case HttpRefusal():
            return error
        case HTTPException():
            return HttpRefusal(error.status_code, str(error.detail))
        case UserError():
            return HttpRefusal(400, str(error))
        case Stale():
            return HttpRefusal(503, str(error), retry_after=2)
        case NotFound():
            return HttpRefusal(404, str(error))
        case Forbidden():
            return HttpRefusal(401 if error.status == 401 else 403, str(error))
        case Conflict():
            return HttpRefusal(409, str(error))
        case Invalid():
            return HttpRefusal(422, str(error))
        case ClusterError():
            return HttpRefusal(503, f"the API server: {error}", retry_after=2)
        case RedisError() | OSError():
            log.warning("the broker cannot be asked", extra={"error": str(error)})
            return HttpRefusal(503, "the broker is out of reach", retry_after=2)
    log.error("a request failed", exc_info=error)
    return HttpRefusal(500, "an error of Penstock's; its log says more")


class SecureHeaders:
    """Adds the headers of every answer, and a content security policy, to an application's answers."""

    def __init__(self, app: ASGIApp, policy: bytes) -> None:
        self._app = app
        self._added = [*_HEADERS, (b"content-security-policy", policy)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""

        async def secured(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *self._added]}
            await send(message)

        await self._app(scope, receive, secured)
