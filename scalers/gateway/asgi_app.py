"""The gateway's routes, as ASGI applications without middleware."""

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import BaseRoute, Route

from scalers.gateway.body_reader import Disconnected
from scalers.gateway.openapi_description import OPENAPI
from scalers.gateway.problem import MEDIA_TYPE, RequestRefused, refused
from scalers.gateway.push_handler import Answer, PushHandler, RequestHead
from scalers.metrics import RECEIVED

log = logging.getLogger(__name__)

Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
_Respond = Callable[[Scope, Receive], Awaitable[Answer]]


class _Text(Convertor[str]):
    """The rest of a path, line ends included: an id may have any characters."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _Text())


def routes(handler: PushHandler, is_ready: Callable[[], Awaitable[bool]]) -> list[BaseRoute]:
    """Returns the routes. is_ready: says whether requests should come here."""

    async def target(scope: Scope, receive: Receive) -> Answer:
        head, method = _head(scope), scope["method"]
        if method == "POST":
            return await handler.push(head, receive)
        if method == "OPTIONS":
            return await handler.options(head)
        raise refused(405, "method", "targets take POST and OPTIONS", headers={"Allow": "POST, OPTIONS"})

    async def event(scope: Scope, receive: Receive) -> Answer:
        if scope["method"] != "GET":
            raise refused(405, "method", "events are read with GET", headers={"Allow": "GET"})
        source = _query(scope).get("source")
        return await handler.event(_head(scope), scope["path_params"]["id"], source, receive)

    async def unknown(_scope: Scope, _receive: Receive) -> Answer:
        raise refused(404, "unknown-path", "events are pushed to /events/{namespace}/{target}")

    async def description(_scope: Scope, _receive: Receive) -> Answer:
        return Answer(200, OPENAPI)

    async def healthy(_scope: Scope, _receive: Receive) -> Answer:
        return Answer(200, b"ok", media_type="text/plain")

    async def ready(_scope: Scope, _receive: Receive) -> Answer:
        if await is_ready():
            return Answer(200, b"ok", media_type="text/plain")
        raise refused(503, "not-ready", "the broker is away, or this process is about to end")

    return [
        Route("/events/{namespace}/{target}", Endpoint("push", target)),
        Route("/events/{namespace}/{target}/{id:text}", Endpoint("event", event)),
        Route("/events", Endpoint("unknown", unknown)),
        Route("/events/{rest:text}", Endpoint("unknown", unknown)),
        Route("/openapi.json", Endpoint("about", _only_get(description))),
        Route("/healthz", Endpoint("health", _only_get(healthy))),
        Route("/readyz", Endpoint("health", _only_get(ready))),
    ]


class Endpoint:
    """An ASGI application that sends what a function answers, and problems as RFC 9457 has them. name: for metrics."""

    def __init__(self, name: str, respond: _Respond) -> None:
        self._name = name
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._respond(scope, receive)
        except Disconnected:
            RECEIVED.labels(self._name, "499").inc()
            return
        except RequestRefused as error:
            answer = _problem(error)
        except Exception:
            # Neither the request nor the error's text: both may hold what the sender wants to keep.
            log.exception("a request failed", extra={"route": self._name})
            answer = _problem(refused(500, "internal", "an error of the gateway; its log says more"))
        RECEIVED.labels(self._name, str(answer.status)).inc()
        await _send(send, answer, head_only=scope["method"] == "HEAD")


def _only_get(respond: _Respond) -> _Respond:
    async def checked(scope: Scope, receive: Receive) -> Answer:
        if scope["method"] not in ("GET", "HEAD"):
            raise refused(405, "method", "this is read with GET", headers={"Allow": "GET, HEAD"})
        return await respond(scope, receive)

    return checked


def _problem(error: RequestRefused) -> Answer:
    problem = error.problem
    headers: Mapping[str, str] = {**problem.headers, **({"Connection": "close"} if problem.closes else {})}
    return Answer(problem.status, problem.body, headers, MEDIA_TYPE)


async def _send(send: Send, answer: Answer, *, head_only: bool) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()]
    if answer.status != 204:
        headers.append((b"content-type", answer.media_type.encode("latin-1")))
        headers.append((b"content-length", str(len(answer.body)).encode()))
    headers.append((b"cache-control", b"no-store"))
    headers.append((b"x-content-type-options", b"nosniff"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head_only else answer.body})


def _head(scope: Scope) -> RequestHead:
    params = scope["path_params"]
    return RequestHead(scope["method"], params["namespace"], params["target"], scope["headers"], _certificate(scope))


def _certificate(scope: Scope) -> bytes | None:
    """Returns the client's certificate in DER, from ASGI's extension for TLS."""
    chain = ((scope.get("extensions") or {}).get("tls") or {}).get("client_cert_chain") or ()
    return next((ssl.PEM_cert_to_DER_cert(text) for text in chain), None)


def _query(scope: Scope) -> dict[str, str]:
    given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return {name: values[0] for name, values in given.items()}
