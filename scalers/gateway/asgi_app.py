"""The gateway's paths as one ASGI application, without a router and middleware between a push and its answer."""

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from prometheus_client import Counter

from scalers.gateway.body_reader import Disconnected
from scalers.gateway.openapi_description import OPENAPI
from scalers.gateway.problem import MEDIA_TYPE, RequestRefused, refused
from scalers.gateway.push_handler import Answer, PushHandler, RequestHead
from scalers.gateway.push_request import RawHeaders
from scalers.gateway.whole_answer import WHOLE_ANSWER, WholeAnswer
from scalers.metrics import RECEIVED

log = logging.getLogger(__name__)

#: Headers of every answer.
_ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_Respond = Callable[[Scope, Receive], Awaitable[Answer]]


@dataclass
class GatewayApp:
    """Answers what is below `/events`, and what tells about the gateway.

    is_ready: says whether requests should come here. others: the application of all other paths.
    """

    handler: PushHandler
    is_ready: Callable[[], Awaitable[bool]]
    others: App

    def __post_init__(self) -> None:
        self._about = {
            "/openapi.json": ("about", _only_get(self._description)),
            "/healthz": ("health", _only_get(self._healthy)),
            "/readyz": ("health", _only_get(self._ready)),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (found := self._route(scope["path"])) is None:
            await self.others(scope, receive, send)
            return
        name, respond = found
        try:
            answer = await respond(scope, receive)
        except Disconnected:
            _answered(name, 499).inc()
            return
        except RequestRefused as error:
            answer = _problem(error)
        except Exception:
            # Neither the request nor the error's text: both may hold what the sender wants to keep.
            log.exception("a request failed", extra={"route": name})
            answer = _problem(refused(500, "internal", "an error of the gateway; its log says more"))
        _answered(name, answer.status).inc()
        headers = _headers(answer)
        if answer.status == 202:
            whole: WholeAnswer | None = (scope.get("extensions") or {}).get(WHOLE_ANSWER)
            if whole is not None and whole(202, headers, answer.body):
                return
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    def _route(self, path: str) -> tuple[str, _Respond] | None:
        """Returns a route's name, for metrics, and what answers there; None for a path of others."""
        match path.split("/", 4):
            case ["", "events", namespace, target] if namespace and target:
                return "push", self._target
            case ["", "events", namespace, target, _] if namespace and target:
                return "event", self._event
            case ["", "events", *_]:
                return "unknown", _unknown
        return self._about.get(path)

    async def _target(self, scope: Scope, receive: Receive) -> Answer:
        head, method = _head(scope), scope["method"]
        if method == "POST":
            return await self.handler.push(head, receive)
        if method == "OPTIONS":
            return await self.handler.options(head)
        raise refused(405, "method", "targets take POST and OPTIONS", headers={"Allow": "POST, OPTIONS"})

    async def _event(self, scope: Scope, receive: Receive) -> Answer:
        if scope["method"] not in ("GET", "HEAD"):
            raise refused(405, "method", "events are read with GET", headers={"Allow": "GET, HEAD"})
        # An id may have any characters.
        id = scope["path"].split("/", 4)[4]
        return await self.handler.event(_head(scope), id, _query(scope).get("source"), receive)

    async def _description(self) -> Answer:
        return Answer(200, OPENAPI)

    async def _healthy(self) -> Answer:
        return Answer(200, b"ok", media_type="text/plain")

    async def _ready(self) -> Answer:
        if await self.is_ready():
            return Answer(200, b"ok", media_type="text/plain")
        raise refused(503, "not-ready", "the broker is away, or this process is about to end")


async def _unknown(_scope: Scope, _receive: Receive) -> Answer:
    raise refused(404, "unknown-path", "events are pushed to /events/{namespace}/{target}")


def _only_get(answer: Callable[[], Awaitable[Answer]]) -> _Respond:
    async def checked(scope: Scope, _receive: Receive) -> Answer:
        if scope["method"] not in ("GET", "HEAD"):
            raise refused(405, "method", "this is read with GET", headers={"Allow": "GET, HEAD"})
        return await answer()

    return checked


@cache
def _answered(route: str, status: int) -> Counter:
    return RECEIVED.labels(route, str(status))


def _problem(error: RequestRefused) -> Answer:
    problem = error.problem
    headers: Mapping[str, str] = {**problem.headers, **({"Connection": "close"} if problem.closes else {})}
    return Answer(problem.status, problem.body, headers, MEDIA_TYPE)


def _headers(answer: Answer) -> RawHeaders:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
    if answer.status != 204:
        headers.append((b"content-type", answer.media_type.encode("latin-1")))
        headers.append((b"content-length", b"%d" % len(answer.body)))
    headers += _ALWAYS
    return headers


def _head(scope: Scope) -> RequestHead:
    _, _, namespace, target, *_ = scope["path"].split("/", 4)
    return RequestHead(namespace, target, scope["headers"], client_certificate(scope))


def client_certificate(scope: Mapping[str, Any]) -> bytes | None:
    """Returns the client's certificate (DER) from ASGI's extension for TLS, None for a request without one."""
    chain = ((scope.get("extensions") or {}).get("tls") or {}).get("client_cert_chain") or ()
    return ssl.PEM_cert_to_DER_cert(chain[0]) if chain else None


def _query(scope: Scope) -> dict[str, str]:
    given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return {name: values[0] for name, values in given.items()}
