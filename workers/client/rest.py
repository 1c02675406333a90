"""The REST client of the API server: asynchronous, raw JSON, a deadline on every call, errors by what to do next.

`workers.client.kubeconfig` supplies address, credentials and TLS; requests go through sessions of our own as plain
JSON, because decoding into typed models costs several times the work of the call itself.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import orjson
from multidict import CIMultiDict
from yarl import URL

from penstock import __version__
from workers import errors
from workers.api.kinds import Kind, Object, Ref
from workers.client import transport
from workers.client.concurrency_limit import Bounds
from workers.client.http_pool import ApiAnswer, HttpPool
from workers.client.kubeconfig import ApiAccess, load
from workers.client.request_limiter import ELECTION, RequestLimiter, Ticket, context_of

if TYPE_CHECKING:
    import aiohttp

Objects = list[Object]

MERGE_PATCH = "application/merge-patch+json"
#: Knows which lists are sets or keyed; for built-in kinds only.
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
#: A watch without a byte for this long is given up: a server sends a bookmark about once a minute.
SILENCE = 90.0
#: Turns of the loop that closing a connection takes: one each for session, TLS and socket, and one to spare.
LAYERS = 4

_HEADERS = {
    "Accept": "application/json",
    # Compressing costs both sides more CPU than a cluster's network costs time.
    "Accept-Encoding": "identity",
    "User-Agent": f"penstock/{__version__}",
}


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch. type: ADDED, MODIFIED, DELETED, or BOOKMARK (only the resourceVersion means something)."""

    type: str
    object: Object


class Cluster:
    """A client of one API server, for one event loop. Every method raises subclasses of `errors.ClusterError`.

    timeout: seconds one answer may take. in_flight: requests of one plan at once. The client begins with twice as many
    requests in flight, and finds by itself how many the server takes (`workers.client.request_limiter`). warned: is
    told every text that the server sends as a warning, unless the request's context is; without either it is dropped.
    """

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        timeout: float = 15.0,
        in_flight: int = 16,
        anonymous: bool = False,
        warned: Callable[[str], None] | None = None,
    ) -> "Cluster":
        """Returns a client for this kubeconfig (see `workers.client.kubeconfig.load`), without calling the server.

        anonymous: without the kubeconfig's credentials: each request brings its own in its headers.
        """
        access = await load(kubeconfig, context)
        return cls(access.anonymous() if anonymous else access, timeout=timeout, in_flight=in_flight, warned=warned)

    def __init__(
        self, access: ApiAccess, *, timeout: float, in_flight: int, warned: Callable[[str], None] | None = None
    ) -> None:
        self._warned = warned
        self._access = access
        self._base = access.host.rstrip("/")
        self._timeout = timeout
        #: Called after every request that is no stream: method, status (0 without an answer), seconds.
        self.answered: Callable[[str, int, float], None] | None = None
        bounds = bounds_of(in_flight)
        self.limiter = RequestLimiter(bounds)
        # As many connections as the limiter may let go: a request that queued for one would wait after its last check,
        # and on the time of its own answer.
        self._calls = self._opened_calls(bounds.most + ELECTION)
        self._streams: aiohttp.ClientSession | None = None

    @property
    def access(self) -> ApiAccess:
        """The way to its API server."""
        return self._access

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection; streams that are being read end with an error."""
        if self._streams is not None:
            await self._streams.close()
        await self._calls.close()
        # Sockets close in the next turns of the loop, one per layer; the loop must not end before.
        for _ in range(LAYERS):
            await asyncio.sleep(0)

    async def get(self, ref: Ref) -> Object:
        """Returns the object as it is now."""
        return await self._object("GET", ref.kind.path(ref.namespace, ref.name), of=(ref.namespace, ref.kind))

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> tuple[Objects, str]:
        """Returns all objects and the resourceVersion of the list.

        An expired continue token restarts the list once; raises `errors.Gone` the second time.
        """
        for attempt in (1, 2):
            objects: Objects = []
            resource_version = ""
            try:
                async for page, resource_version in self.pages(  # noqa: B007 - the last page's stays
                    kind, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
                ):
                    objects += page
            except errors.Gone:
                if attempt == 2:
                    raise
            else:
                return objects, resource_version
        raise AssertionError("unreachable")

    async def pages(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> AsyncGenerator[tuple[Objects, str], None]:
        """Yields the list page by page, each with the list's resourceVersion. Raises `errors.Gone` if it expires."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": str(limit), "continue": ""}
        while True:
            # Of no shape: pages of one kind differ too much in size for their time to say something.
            answer = await self._object("GET", kind.path(namespace), query=query, of=(namespace, None))
            metadata = answer.get("metadata")
            if not isinstance(metadata, dict):
                raise errors.Unavailable(f"list of {kind.id}: the answer has no metadata: {str(answer)[:200]}")
            items = [item for item in answer.get("items") or [] if isinstance(item, dict)]
            for item in items:
                # Items of built-in kinds come without these two.
                item.setdefault("apiVersion", kind.api_version)
                item.setdefault("kind", kind.kind)
            yield items, metadata.get("resourceVersion", "")
            query["continue"] = metadata.get("continue") or ""
            if not query["continue"]:
                return

    # Callers close the following streams (contextlib.aclosing): each holds a connection until its end.

    async def watch(
        self, kind: Kind, namespace: str = "", *, resource_version: str, label_selector: str = "", timeout: float
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yields the events after this resourceVersion; see `follow`."""
        bursts = self.follow(
            kind, namespace, resource_version=resource_version, label_selector=label_selector, timeout=timeout
        )
        async with aclosing(bursts):
            async for burst in bursts:
                for event in burst:
                    yield event

    async def follow(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        timeout: float,
        idle: transport.IdleWait | None = None,
        silence: float = SILENCE,
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]:
        """Yields the events after this resourceVersion, in bursts of all that could be read at once.

        An empty burst means that everything that arrived was yielded: one follows each run of events, and one comes
        after each `idle` wait (default: a second) without events. It does not prove that the server is alive: a
        connection without a byte for `silence` seconds raises `errors.Silent`, a vanished peer `errors.Unavailable`
        sooner, by TCP keepalive. The server ends the watch after `timeout` seconds; resume from the last
        resourceVersion. Raises `errors.Gone` when the server no longer knows that version: list again.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(timeout))),
        }
        async with self._open(kind.path(namespace), query) as content:
            lines = transport.lines(content, idle=idle or transport.IdleWait(1.0), silence=silence)
            async with aclosing(lines):
                async for burst in lines:
                    yield tuple(_event(kind, line) for line in burst)

    async def create(self, kind: Kind, body: Object) -> Object:
        """Creates the object, in the namespace of its metadata. Returns it as stored."""
        namespace = body["metadata"].get("namespace", "")
        return await self._object("POST", kind.path(namespace), body=body, of=(namespace, kind))

    async def replace(self, ref: Ref, body: Object) -> Object:
        """Replaces the object, fenced by the body's resourceVersion."""
        path = ref.kind.path(ref.namespace, ref.name)
        return await self._object("PUT", path, body=body, of=(ref.namespace, ref.kind))

    async def patch(self, ref: Ref, body: Any, *, type: str = MERGE_PATCH, subresource: str = "") -> Object:
        """Patches; `type` is the patch's content type. A resourceVersion in a merge patch's metadata fences it."""
        path = ref.kind.path(ref.namespace, ref.name, subresource)
        of = (ref.namespace, ref.kind)
        return await self._object("PATCH", path, body=body, headers={"Content-Type": type}, of=of)

    async def delete(
        self,
        ref: Ref,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
        grace: int | None = None,
    ) -> Object:
        """Deletes, fenced by uid and resourceVersion where given (`errors.Conflict` if they differ).

        Returns the object if finalizers or a grace period keep it, else a ``Status`` or its last state.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if fence := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = fence
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        path = ref.kind.path(ref.namespace, ref.name)
        return await self._object("DELETE", path, body=options, of=(ref.namespace, ref.kind))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Returns the decoded JSON, or the text, of any other call. `path` is quoted here."""
        of = (_namespace_of(path), None)
        content_type, data = await self._call(method, path, query=query, body=body, headers=headers, of=of)
        return orjson.loads(data) if "json" in content_type else data.decode(errors="replace")

    async def stream_lines(
        self, path: str, query: Mapping[str, str] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a streamed answer (followed logs, a watch), without line ends."""
        async with self._open(path, query or {}, headers) as content:
            lines = transport.lines(content, idle=transport.IdleWait(60.0), silence=None, partial=True, blank=True)
            async with aclosing(lines):
                async for burst in lines:
                    for line in burst:
                        yield line

    async def _object(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        of: tuple[str, Kind | None],
    ) -> Object:
        _, data = await self._call(method, path, query=query, body=body, headers=headers, of=of)
        try:
            decoded: Object = orjson.loads(data)
        except ValueError as error:
            raise errors.Unavailable(f"{method} {path}: the answer is not JSON: {data[:200]!r}") from error
        return decoded

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        body: Any,
        headers: Mapping[str, str] | None,
        of: tuple[str, Kind | None],
    ) -> tuple[str, bytes]:
        """Sends a request when the limiter lets it go. of: the namespace it counts for, and the kind it is about."""
        # A review asks, although by POST.
        context, (namespace, kind) = context_of("GET" if path.endswith("reviews") else method), of
        shape = f"{method} {kind.plural}" if kind else ""
        ticket = await self.limiter.enter(context.priority, namespace, shape)
        try:
            if context.check is not None:
                context.check()
            answer = await self._sent(ticket, method, path, query=query, body=body, headers=headers)
            error = None
            if answer.status >= 300:
                error = transport.refusal(f"{method} {path}", answer.status, answer.body, answer.headers)
            self._note(ticket, error)
        finally:
            self.limiter.leave(ticket)
        if warned := context.warned or self._warned:
            for text in transport.warnings(answer.headers.getall("Warning", ())):
                warned(text)
        if error is not None:
            raise error
        return answer.headers.get("Content-Type", ""), answer.body

    async def _sent(
        self,
        ticket: Ticket,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> ApiAnswer:
        """Returns the answer. Raises errors.Unavailable, and tells the limiter, if there is none."""
        started, status, renewed = time.monotonic(), 0, False
        target = self._target(path, query)
        try:
            with transport.translated(f"{method} {path}"):
                data = None if body is None else orjson.dumps(body)
                while True:
                    sent, context = await self._headers(headers, sends_json=data is not None), self._tls()
                    try:
                        async with asyncio.timeout(self._timeout):
                            answer = await self._calls.request(
                                method, target, sent, data, context=context, server_name=self._access.server_name
                            )
                    except OSError as error:
                        if not transport.is_of_tls(error) or renewed or not self._tls_changed():
                            raise
                    else:
                        # The server did nothing yet: a request of any method may be sent again.
                        if answer.status != 401 or renewed or not await self._renewed(sent, headers):
                            break
                    renewed = True
                status = answer.status
        except errors.Unavailable as error:
            if isinstance(error.__cause__, TimeoutError):
                # Time may run out for single requests; a connection breaks for all.
                self.limiter.failed(ticket)
            else:
                self.limiter.refused(ticket)
            raise
        finally:
            if self.answered:
                self.answered(method, status, time.monotonic() - started)
        return answer

    def _note(self, ticket: Ticket, error: errors.ClusterError | None) -> None:
        """Tells the limiter how a request was answered."""
        if error is not None and transport.is_overload(error):
            self.limiter.refused(ticket, error.retry_after)
        elif error is not None and transport.is_of_admission(error):
            self.limiter.answered(ticket, timed=False)
        elif error is not None and error.status >= 500:
            self.limiter.failed(ticket, error.retry_after)
        else:
            self.limiter.answered(ticket)

    @asynccontextmanager
    async def _open(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> AsyncIterator["aiohttp.StreamReader"]:
        """Opens a streamed answer. The deadline holds for its head only, and no place is taken while it streams."""
        self.limiter.require_no_pause(context_of("GET").priority)
        began = time.monotonic()
        with transport.translated(f"GET {path}"):
            async with asyncio.timeout(self._timeout):
                response, sent = await self._stream(path, query, headers)
                if response.status == 401 and await self._renewed(sent, headers):
                    response.close()
                    response, _ = await self._stream(path, query, headers)
            try:
                if response.status >= 300:
                    async with asyncio.timeout(self._timeout):
                        data = await response.read()
                    error = transport.refusal(f"GET {path}", response.status, data, response.headers)
                    if transport.is_overload(error):
                        self.limiter.refused_stream(began, error.retry_after)
                    raise error
                yield response.content
            finally:
                # Aborted: a TLS shutdown would wait for the server's answer.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()
                response.close()

    async def _stream(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str] | None
    ) -> tuple["aiohttp.ClientResponse", CIMultiDict[str]]:
        """Returns an answer whose body is still to be read, and the headers that were sent."""
        sent = await self._headers(headers, sends_json=False)
        url = URL(self._base + self._target(path, query), encoded=True)
        options = transport.options(self._tls(), self._access.server_name, self._access.proxy)
        # Watches and followed logs hold their connection for minutes: they must not take those of the calls.
        self._streams = self._streams or transport.session(limit=0)
        return await self._streams.get(
            url, headers=sent, timeout=transport.stream_timeout(self._timeout), **options
        ), sent

    async def _headers(self, headers: Mapping[str, str] | None, *, sends_json: bool) -> CIMultiDict[str]:
        """Returns the headers of a request, with fresh credentials. headers: its own."""
        access = self._access
        sent = CIMultiDict(_HEADERS)
        if authorization := await access.credentials.authorization():
            sent["Authorization"] = authorization
        sent.extend(access.impersonation)
        if sends_json:
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        return sent

    def _tls(self) -> ssl.SSLContext | None:
        access = self._access
        return access.tls.current(access.credentials.certificate) if access.tls else None

    async def _renewed(self, sent: Mapping[str, str], headers: Mapping[str, str] | None) -> bool:
        """Returns True if our own credentials, which the server refused, may be others now."""
        if "Authorization" in CIMultiDict(headers or {}):
            return False
        refused = await self._access.credentials.refused(sent.get("Authorization", ""))
        return self._tls_changed() or refused

    def _tls_changed(self) -> bool:
        tls = self._access.tls
        return tls is not None and tls.reread(self._access.credentials.certificate)

    def _opened_calls(self, limit: int) -> "HttpPool | transport.GeneralPool":
        """Opens the connections of all requests that are no streams. limit: most of them."""
        url = URL(self._base)
        # TLS follows the context there, and the URL's scheme here: what they disagree on must not go in the clear.
        plain = (
            (url.scheme == "https") == (self._access.tls is not None) and url.user is None and not self._access.proxy
        )
        if not plain or url.raw_host is None or url.port is None:
            return transport.GeneralPool(self._base, self._access.proxy, limit)
        host_header = url.raw_authority if url.explicit_port else (url.host_subcomponent or url.raw_host)
        return HttpPool(url.raw_host, url.port, host_header, url.raw_path.rstrip("/"), transport.unconnected_socket)

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        text = urlencode({name: value for name, value in (query or {}).items() if value})
        return f"{quote(path, safe='/:')}{'?' if text else ''}{text}"


def bounds_of(in_flight: int) -> Bounds:
    """Returns the limiter's bounds: one plan is never slowed down by latency, and four of them begin side by side."""
    start = max(2 * in_flight, 8)
    return Bounds(floor=min(in_flight, start), start=start, most=4 * start)


def _namespace_of(path: str) -> str:
    return path.partition("/namespaces/")[2].partition("/")[0]


def _event(kind: Kind, line: bytes) -> WatchEvent:
    try:
        event = orjson.loads(line)
        type_, body = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.Unavailable(f"watch of {kind.id}: not an event: {line[:200]!r}") from error
    if type_ == "ERROR":
        body = body if isinstance(body, dict) else {}
        raise transport.refused(f"watch of {kind.id}", int(body.get("code") or 0), body)
    return WatchEvent(type_, body if isinstance(body, dict) else {})
