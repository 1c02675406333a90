"""The page on a real socket, on a broker whose store tests fill themselves."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import redis.asyncio as redis_async
import uvicorn
from starlette.applications import Starlette

from deploy.page.app import routes
from deploy.page.authorization import ALLOWED, Allowed, Refused
from deploy.page.browser_page import BrowserPage, running
from deploy.page.web.access import Access, PageMode
from deploy.processes import https
from scalers.deliveries.deliveries import Deliveries
from scheduler.keys import Keys
from workers.api.kinds import Kind, Object
from workers.cache.store import ObjectVersion, Store
from workers.errors import Unavailable
from workers.settings import Settings

PREFIX = "page-test"
#: The token that `ScriptedAuthorizer` lets do everything.
ADMIN = "an-admin's-token"


@dataclass
class ScriptedAuthorizer:
    """Lets the admin's token do everything, and every other one what the test says; records requests of visitors.

    allowed: triples of token, verb and namespace.
    """

    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    requests: list[tuple[Any, ...]] = field(default_factory=list)

    async def may(self, token: str, verb: str, kind: Kind, namespace: str, name: str) -> Allowed | Refused:
        """Returns the answer of the script."""
        if token == ADMIN or (token, verb, namespace) in self.allowed:
            return ALLOWED
        return Refused(f"may not {verb} {kind.plural}")

    async def user(self, token: str) -> str | None:
        """Returns a name for every token of the script."""
        return "admin" if token == ADMIN else "visitor" if any(token == each for each, *_ in self.allowed) else None

    def visitor(self, token: str) -> "RecordedVisitor":
        """Returns requests that are recorded."""
        return RecordedVisitor(self, token)


@dataclass
class RecordedVisitor:
    """Records the requests in a visitor's name."""

    authorizer: ScriptedAuthorizer
    token: str

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        """Records a request."""
        self.authorizer.requests.append((method, self.token, path, body))
        return {}


class AwayCluster:
    """An API server that is out of reach."""

    async def request(self, *_: Any, **__: Any) -> Any:
        raise Unavailable("no server listens")


@dataclass
class PageServer:
    """A served page, the store behind it, and a client of it."""

    url: str
    page: BrowserPage
    store: Store
    authorizer: ScriptedAuthorizer
    http: aiohttp.ClientSession

    async def put(self, kind: Kind, *bodies: Object) -> None:
        """Stores versions as a reflector would."""
        await self.store.apply(kind, [ObjectVersion(body) for body in bodies])

    async def list(self, kind: Kind, *bodies: Object) -> None:
        """Stores a whole kind as a relist of a reflector would."""
        listing = await self.store.begin(kind, epoch=1)
        await self.store.apply(kind, [ObjectVersion(body) for body in bodies], listing=listing)
        await self.store.finish(listing, {"": "1000000"})
        now = int((await self.page.client.time())[0]) * 1_000_000
        await self.store.touch(kind, 1, now)

    async def get(self, path: str, token: str = "", **headers: str) -> tuple[int, Any]:
        """Returns status and JSON of an answer."""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with self.http.get(f"{self.url}/api/v1{path}", headers=headers) as answer:
            return answer.status, orjson.loads(await answer.read())

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Returns status and JSON of the answer to an action."""
        async with self.http.post(f"{self.url}/api/v1{path}", json=body, headers=headers) as answer:
            return answer.status, orjson.loads(await answer.read())

    @asynccontextmanager
    async def updates(self, *topics: str, last: str = "") -> AsyncIterator["EventReader"]:
        """Follows topics."""
        query = "&".join(f"topic={topic}" for topic in topics)
        headers = {"Last-Event-ID": last} if last else {}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.http.get(f"{self.url}/api/v1/updates?{query}", headers=headers, timeout=timeout) as answer:
            assert answer.status == 200, await answer.text()
            yield EventReader(answer)


@dataclass
class EventReader:
    """Reads server-sent events."""

    answer: aiohttp.ClientResponse
    last: str = ""

    async def next(self, *kinds: str) -> tuple[str, Any]:
        """Returns the next event, or the next one of these types."""
        async with asyncio.timeout(20):
            while True:
                fields = {}
                while line := (await self.answer.content.readline()).decode().rstrip("\n"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                if "event" not in fields:
                    assert not self.answer.content.at_eof(), "the stream ended"
                    continue
                self.last = fields["id"]
                if not kinds or fields["event"] in kinds:
                    return fields["event"], orjson.loads(fields["data"])


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def page_server(
    client: redis_async.Redis,
    *,
    mode: PageMode = "read",
    cluster: Any = None,
    hosts: Sequence[str] = (),
) -> AsyncIterator[PageServer]:
    """Serves a page on a loopback port."""
    authorizer = ScriptedAuthorizer()
    settings = Settings(prefix=PREFIX)
    page = BrowserPage(settings, client, cluster or AwayCluster(), Access(mode, authorizer, hosts))
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    server = _QuietServer(https.configured(Starlette(routes=routes(page, Deliveries(client, Keys(PREFIX))))))
    async with running(page), aiohttp.ClientSession() as http:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield PageServer(url, page, Store(client, Keys(PREFIX), {}), authorizer, http)
        finally:
            page.broadcast.end()
            server.should_exit = True
            await serving
