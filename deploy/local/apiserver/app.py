"""The server as an ASGI application: authenticates a request, routes it by path and method, and sends the response."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from deploy import unserved_kinds
from deploy.local.apiserver import api_errors
from deploy.local.apiserver.access import request_attributes
from deploy.local.apiserver.access.account_tokens import API_AUDIENCE
from deploy.local.apiserver.access.request_attributes import AccessAttributes
from deploy.local.apiserver.access.user_info import NOBODY, UserInfo
from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.codec import yaml_documents
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery import api_resources
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.handlers import (
    access_reviews,
    api_groups,
    deletion,
    pod_logs,
    pods,
    read,
    scale,
    server_side_apply,
    service_account_tokens,
    write,
)
from deploy.local.apiserver.handlers.openapi_documents import Documents
from deploy.local.apiserver.http import token as auth
from deploy.local.apiserver.http import warning_headers
from deploy.local.apiserver.http.request import (
    LIMIT,
    ApiRequest,
    Response,
    Stream,
    Upgrade,
    YamlBody,
    json_response,
    negotiate,
    refusal,
)
from workers.api.bearer_tokens import bearer_token
from workers.cancellation import cancelled

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

T = TypeVar("T")
Answer = Response | Stream | Upgrade

#: What answers a request for an object, by its subresource and method.
_HANDLERS: Mapping[tuple[str, str], Callable[[Context, ApiRequest, RequestTarget], Answer | Awaitable[Answer]]] = {
    **{
        ("", "GET"): read.get,
        ("", "PUT"): write.update,
        ("", "PATCH"): server_side_apply.patch,
        ("", "DELETE"): deletion.one,
    },
    **{("status", "GET"): read.get, ("status", "PUT"): write.update, ("status", "PATCH"): server_side_apply.patch},
    **{("scale", "GET"): scale.get, ("scale", "PUT"): scale.update, ("scale", "PATCH"): scale.patch},
    **{("binding", "POST"): pods.bind, ("eviction", "POST"): pods.evict, ("log", "GET"): pod_logs.stream},
    ("token", "POST"): service_account_tokens.create,
    ("finalize", "PUT"): write.update,
    **{(part, method): pods.upgrade for part in api_resources.STREAMS for method in ("GET", "POST")},
}
#: Bytes of an answer that are sent at once. A connection keeps a buffer of this size as long as it is open.
PART = 256 * 1024
NOT_A_PATH = Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
#: What is served beside resources.
PATHS = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version"]}


class ApiApp:
    """The ASGI application."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._documents = Documents(ctx.registry)
        # YAML of megabytes takes seconds: it is read and written beside the event loop, one document at a time.
        self._yaml = ThreadPoolExecutor(1, "yaml")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Only HTTP is spoken; lifespan events are the server's own business."""
        if scope["type"] != "http":
            return
        try:
            request = ApiRequest.of(scope)
            user = self._authorized(request)
            body = b"" if request.method == "GET" else await _body(receive, request)
            request = ApiRequest.of(scope, body, user)
            if request.is_yaml:
                request = replace(request, yaml=await self._beside(YamlBody.of, request.body))
            answer = await self._answer(request)
            if isinstance(answer, Upgrade):
                raise api_errors.bad_request("Upgrade request required")
            if isinstance(answer, Response) and answer.yaml:
                body = await self._beside(yaml_documents.write, answer.body)
                answer = replace(answer, body=body, content_type="application/yaml")
        except ApiError as error:
            answer = refusal(error)
        except Exception:
            log.exception("a request failed", extra={"path": scope["path"]})
            answer = refusal(ApiError(500, "InternalError", "an error on the server has prevented the request", {}))
        if isinstance(answer, Response):
            await _send(send, answer)
        else:
            await _stream(receive, send, answer)

    async def upgrade(self, request: ApiRequest) -> Upgrade | Response:
        """Answers a request that asks for another protocol."""
        try:
            answer = await self._answer(replace(request, user=self._authorized(request)))
            if not isinstance(answer, Upgrade):
                raise api_errors.bad_request("WebSocket is offered for exec, attach and portforward of pods only")
        except ApiError as error:
            return refusal(error)
        return answer

    def _authorized(self, request: ApiRequest) -> UserInfo:
        """Returns the user of a request that is allowed. Raises ApiError: 401 without a valid token, or 403."""
        if request.path in auth.OPEN:
            return NOBODY
        access = self._ctx.access
        found = access.authenticate(bearer_token(request.headers), (API_AUDIENCE,), self._ctx.now().timestamp())
        if found is None:
            raise api_errors.unauthorized()
        user = found.user
        if acting := access_reviews.impersonated(request.headers):
            for needed in acting[1]:
                self._allow(user, needed)
            user = acting[0]
        if not user.master:
            self._allow(user, request_attributes.of(request.method, request.path, request.query))
        return user

    def _allow(self, user: UserInfo, wanted: AccessAttributes) -> None:
        if not self._ctx.access.authorizer.decide(user, wanted).allowed:
            details = {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}
            shown = {name: text for name, text in details.items() if text}
            raise ApiError(403, "Forbidden", wanted.refusal(user.name), shown)

    async def _beside(self, function: Callable[[bytes], T], body: bytes) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._yaml, function, body)

    async def _answer(self, request: ApiRequest) -> Answer:
        parts = request.path.strip("/").split("/")
        match parts:
            case ["healthz" | "livez" | "readyz", *checks] if checks in ([], ["ping"]):
                return Response(200, b"ok", "text/plain; charset=utf-8")
            case [""]:
                return json_response(PATHS)
            case ["version", *rest]:
                return _version(request, rest)
            case ["openapi", *rest] if (document := self._documents.answer(request, rest)) is not None:
                return document
            case ["api", version, *rest] if rest:
                return await self._resource(request, "", version, rest)
            case ["apis", group, version, *rest] if rest:
                return await self._resource(request, group, version, rest)
        found = api_groups.answer(self._ctx.registry, request, parts)
        if found is None:
            return self._no_path(request, parts)
        # A real server shows its groups to every method.
        if request.method != "GET" and not (parts[0] == "apis" and len(parts) < 3):
            raise api_errors.method_not_allowed()
        return found

    def _no_path(self, request: ApiRequest, parts: list[str]) -> Response:
        """Returns the 404 of a path that leads nowhere, in the form that a real server has for its place."""
        match parts:
            case ["apis", group, *_] if api_groups.answer(self._ctx.registry, request, ["apis", group]) is None:
                return NOT_A_PATH
            case ["api" | "apis", *_]:
                raise api_errors.no_resource()
            case _:
                return json_response(PATHS, 404)

    async def _resource(self, request: ApiRequest, group: str, version: str, parts: list[str]) -> Answer:
        if found := access_reviews.find(group, version, parts):
            return access_reviews.create(self._ctx, request, *found)
        watch = parts[0] == "watch"
        target = self._target(group, version, parts[1:] if watch else parts)
        if target is None:
            raise api_errors.no_resource(self._advice(group, version, parts))
        if watch:
            if request.method != "GET":
                raise api_errors.method_not_allowed()
            return read.watching(self._ctx, request, target)
        if target.subresource in ("", "status", "finalize"):
            # Before anything is looked for, or written.
            negotiate(request.headers.get("accept", ""))
        answer = await (self._named(request, target) if target.name else self._collection(request, target))
        return _warned(answer, target.resource.deprecation)

    def _advice(self, group: str, version: str, parts: list[str]) -> str:
        """Returns what to do about a resource that is not served, nothing if only the path to it is wrong.

        parts: the path after group and version.
        """
        plural = parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]
        if self._ctx.registry.get(group, version, plural) is not None:
            return ""
        kinds = (resource.kind for resource in self._ctx.registry)
        return unserved_kinds.advice(group, plural, [(kind.group, kind.version, kind.plural) for kind in kinds])

    def _target(self, group: str, version: str, parts: list[str]) -> RequestTarget | None:
        """Returns the target of the rest of a path; None when no such resource is served."""
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        if "proxy" in parts[2:3]:
            # The rest is a path of what would be behind it.
            parts = parts[:3]
        if not parts or len(parts) > 3:
            return None
        resource = self._ctx.registry.get(group, version, parts[0])
        if resource is None or (namespace and not resource.kind.namespaced):
            return None
        if len(parts) > 1 and resource.kind.namespaced and not namespace:
            return None
        return RequestTarget(resource, namespace, *parts[1:])

    async def _collection(self, request: ApiRequest, target: RequestTarget) -> Answer:
        match request.method:
            case "GET" if request.flag("watch"):
                return read.watching(self._ctx, request, target)
            case "GET":
                return read.listing(self._ctx, request, target)
            case "POST" if target.namespace or not target.resource.kind.namespaced:
                return await write.create(self._ctx, request, target)
            case "DELETE" if target.namespace or not (
                target.resource.kind.namespaced or target.resource.kind.id == "namespaces"
            ):
                return await deletion.collection(self._ctx, request, target)
        raise api_errors.method_not_allowed()

    async def _named(self, request: ApiRequest, target: RequestTarget) -> Answer:
        """Answers a request for an object, or for one of its subresources."""
        resource = target.resource
        offered = {"", *resource.subresources, *(["status"] * resource.status), *(["scale"] * bool(resource.scale))}
        if target.subresource not in offered:
            pods.refuse(resource.kind.plural, target.subresource)
            raise api_errors.no_resource()
        if not target.subresource and request.method == "GET" and request.flag("watch"):
            return read.watching(self._ctx, request, target)
        handler = _HANDLERS.get((target.subresource, request.method))
        if handler is None:
            raise api_errors.method_not_allowed()
        answer = handler(self._ctx, request, target)
        return answer if isinstance(answer, Answer) else await answer


def _version(request: ApiRequest, rest: list[str]) -> Response:
    """Returns the answer to ``/version`` and what is below it."""
    if rest:
        raise api_errors.no_resource()
    if request.method != "GET":
        raise api_errors.method_not_allowed()
    return json_response(api_groups.VERSION)


def _warned(answer: Answer, deprecation: str) -> Answer:
    """Returns the answer with the warning of a deprecated version before its own."""
    if not deprecation or not isinstance(answer, Response):
        return answer
    own = answer.headers.get("Warning")
    warning = ", ".join(filter(None, (warning_headers.of([deprecation])["Warning"], own)))
    return replace(answer, headers={**answer.headers, "Warning": warning})


async def _body(receive: Receive, request: ApiRequest) -> bytes:
    """The whole body; 413 for one over the limit."""
    if int(request.headers.get("content-length") or 0) > LIMIT:
        raise api_errors.too_large(LIMIT)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise api_errors.bad_request("the client left before its request was complete")
        part = message.get("body", b"")
        size += len(part)
        if size > LIMIT:
            raise api_errors.too_large(LIMIT)
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _send(send: Send, response: Response) -> None:
    headers = [
        (b"content-type", response.content_type.encode()),
        (b"content-length", str(len(response.body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in response.headers.items()),
    ]
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    body = response.body
    for start in range(0, max(len(body), 1), PART):
        more = start + PART < len(body)
        await send({"type": "http.response.body", "body": body[start : start + PART], "more_body": more})


async def _stream(receive: Receive, send: Send, stream: Stream) -> None:
    """Sends chunks until they end or the client leaves."""
    headers = [(b"content-type", stream.content_type.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def pour() -> None:
        async with aclosing(stream.chunks) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def leave() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    pouring, leaving = asyncio.ensure_future(pour()), asyncio.ensure_future(leave())
    try:
        await asyncio.wait((pouring, leaving), return_when=asyncio.FIRST_COMPLETED)
        if pouring.done():
            pouring.result()
            await send({"type": "http.response.body", "body": b""})
    finally:
        await cancelled(pouring, leaving)
