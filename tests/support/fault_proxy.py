"""A proxy in front of an API server that answers by rules: refusals, slowness, hangs, broken connections, few seats."""

import asyncio
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from tests.support.servers import answering

#: Passes the request on to the server.
Forward = Callable[[], Awaitable[web.StreamResponse]]
#: Answers a request that a rule matches.
Fault = Callable[[web.BaseRequest, Forward], Awaitable[web.StreamResponse]]
Matches = Callable[[web.BaseRequest], bool]

BUSY = "Too many requests, please try again later."
#: Headers that belong to one connection, or that aiohttp writes itself.
_OF_A_CONNECTION = {"host", "connection", "transfer-encoding", "content-length", "keep-alive", "content-encoding"}


def creations(plural: str, namespace: str = "") -> Matches:
    """Creations of these objects, in one namespace or in all."""
    where = f"/namespaces/{namespace}/" if namespace else "/"
    return lambda request: request.method == "POST" and request.path.endswith(f"/{plural}") and where in request.path


def refuses(status: int, text: str = BUSY, *, retry_after: float | None = None) -> Fault:
    """Answers this, and asks the server nothing."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}

    async def refuse(_: web.BaseRequest, _forward: Forward) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers=headers)

    return refuse


def times_out(after: Callable[[], Awaitable[object]], webhook: str) -> Fault:
    """Answers, when this has returned, what an API server says whose admission webhook does not answer."""

    async def give_up(_: web.BaseRequest, _forward: Forward) -> web.StreamResponse:
        await after()
        message = f'Internal error occurred: failed calling webhook "{webhook}": context deadline exceeded'
        body = {"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": message}
        return web.json_response(body, status=500)

    return give_up


async def fails_afterwards(_: web.BaseRequest, forward: Forward) -> web.StreamResponse:
    """Passes on, and answers what an API server says whose storage did not confirm in time what it may have done."""
    await forward()
    message = "etcdserver: request timed out"
    body = {"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError", "message": message}
    return web.json_response(body, status=500)


async def loses_the_answer(request: web.BaseRequest, forward: Forward) -> web.StreamResponse:
    """Passes on, and breaks the connection instead of answering."""
    await forward()
    return _broken(request)


def _broken(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    sock = request.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()
    return web.Response()


def seats(number: int, *, queue: int = 0, seconds: float = 0.0, retry_after: float = 1.0) -> Fault:
    """Lets so many requests in at once, each for at least so many seconds; beyond the queue it answers 429."""
    free, waiting = asyncio.Semaphore(number), 0

    async def sit(_: web.BaseRequest, forward: Forward) -> web.StreamResponse:
        nonlocal waiting
        if free.locked() and waiting >= queue:
            return web.Response(status=429, text=BUSY, headers={"Retry-After": f"{retry_after:g}"})
        waiting += 1
        async with free:
            waiting -= 1
            answer, _ = await asyncio.gather(forward(), asyncio.sleep(seconds))
            return answer

    return sit


@dataclass
class FaultProxy:
    """kubeconfig: of clients that go through it. rules: the first that matches answers. answers: by status."""

    kubeconfig: Path
    rules: list[tuple[Matches, Fault]] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)

    def rule(self, matches: Matches, fault: Fault) -> tuple[Matches, Fault]:
        """Adds a rule before the others; returns it, to be removed from `rules`."""
        self.rules.insert(0, made := (matches, fault))
        return made


@asynccontextmanager
async def fault_proxy(upstream: Path, folder: Path) -> AsyncIterator[FaultProxy]:
    """A proxy before the server of this kubeconfig; credentials are the client's own. Watches are not passed on.

    A server that cannot be reached breaks the client's connection.
    """
    config: dict[str, Any] = yaml.safe_load(upstream.read_text())
    server = config["clusters"][0]["cluster"]
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    proxy = FaultProxy(folder / "kubeconfig-of-the-proxy")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=unverified, limit=0)) as session:

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            body = await request.read()

            async def forward() -> web.StreamResponse:
                sent = {name: value for name, value in request.headers.items() if name.lower() not in _OF_A_CONNECTION}
                url = server["server"] + request.path_qs
                async with session.request(request.method, url, headers=sent, data=body or None) as answer:
                    kept = {n: v for n, v in answer.headers.items() if n.lower() not in _OF_A_CONNECTION}
                    return web.Response(status=answer.status, headers=kept, body=await answer.read())

            fault = next((fault for matches, fault in proxy.rules if matches(request)), None)
            try:
                answered = await (fault(request, forward) if fault else forward())
            except aiohttp.ClientError:
                # The server is away, or what is between it and us.
                return _broken(request)
            proxy.answers[answered.status] += 1
            return answered

        async with answering(handle) as url:
            config["clusters"][0]["cluster"] = {"server": url}
            proxy.kubeconfig.write_text(yaml.safe_dump(config))
            yield proxy
