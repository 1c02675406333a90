"""A proxy before an API server on which everything goes wrong once: writes conflict, and answers are lost.

Of each resource the first creation is sent twice, so that its answer is that of the second; before the first patch
somebody else changes the object; and the first deletion names an object that was replaced. A client that cannot read
an object again makes no progress.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

_KEPT = ("Authorization", "Content-Type", "Accept")
_CONFLICT = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Conflict",
    "code": 409,
    "message": "the UID in the precondition does not match the UID in record",
}


@contextmanager
def bad_day(kubeconfig: Path) -> Iterator[str]:
    """Runs the proxy before the administrator's cluster. Yields its URL, which speaks in the clear."""
    content = yaml.safe_load(kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    loop, started, url = asyncio.new_event_loop(), threading.Event(), list[str]()
    stop = asyncio.Event()

    async def run() -> None:
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as upstream:
            app = web.Application(client_max_size=1 << 24)
            app.router.add_route("*", "/{path:.*}", _Proxy(upstream, cluster["server"], user["token"]).handle)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            url.append(site.name)
            started.set()
            await stop.wait()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), name="bad day")
    thread.start()
    try:
        assert started.wait(30)
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


class _Proxy:
    def __init__(self, upstream: aiohttp.ClientSession, server: str, token: str) -> None:
        self._upstream = upstream
        self._server = server
        self._admin = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        self._seen: set[tuple[str, str, str]] = set()

    async def handle(self, request: web.Request) -> web.Response:
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else ("/".join(parts[1:2]), parts[3:])
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            rest = rest[2:]
        resource, subresource = (rest or [""])[0], "/".join(rest[2:])
        key = (request.method, f"{group}/{resource}", subresource)
        first = key not in self._seen
        self._seen.add(key)
        body = await request.read()
        # A Secret is never observed, so its deletion is not tried again.
        if first and request.method == "DELETE" and resource != "secrets":
            return web.json_response(_CONFLICT, status=409)
        if first and request.method == "POST" and not subresource:
            await self._send(request, body)
        if first and request.method == "PATCH":
            path = request.path.removesuffix(f"/{subresource}") if subresource else request.path
            change = {"metadata": {"annotations": {"changed-by-somebody-else": subresource or "true"}}}
            async with self._upstream.patch(self._server + path, json=change, headers=self._admin):
                pass
        return await self._send(request, body)

    async def _send(self, request: web.Request, body: bytes) -> web.Response:
        headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
        url: Any = self._server + request.raw_path
        async with self._upstream.request(request.method, url, data=body or None, headers=headers) as answer:
            data = await answer.read()
            return web.Response(status=answer.status, body=data, content_type=answer.content_type)
