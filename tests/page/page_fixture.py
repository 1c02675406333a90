"""A server of the page's interface with the data of a `Cluster`, which notes the actions it is sent."""

import asyncio
import json
import mimetypes
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from deploy.page import page_actions
from deploy.page.answers import requests_read
from tests.page.page_data import TONES, Cluster, Json
from tests.support.paths import ROOT
from tests.support.servers import LOOPBACK
from workers.errors import UserError

ASSETS = ROOT / "deploy" / "page" / "assets"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
NO_GRAPH: Json = {"nodes": [], "edges": []}
TOKEN = "a-token-of-the-tests"


class PageFixture:
    """The interface. cluster: the data. actions: those that were sent. page: as in the answer of `session`.

    refused: actions with a reason why the token may not do them. accepting: streams of updates are opened. remembering:
    they go on where they ended. topics, resumed: of every stream that was opened, the latter the id it went on from.
    failing: why actions fail. cached: the browser may keep the page's files.
    """

    def __init__(self) -> None:
        self.url = ""
        self.cached = True
        self.reset()
        self._watchers: set[asyncio.Queue[str | None]] = set()
        self._number = 0

    def reset(self) -> None:
        """Begins anew, with fresh data."""
        self.cluster = Cluster()
        self.actions: list[Json] = []
        self.page = "read"
        self.refused: dict[str, str] = {}
        self.topics: list[list[str]] = []
        self.resumed: list[str] = []
        self.accepting = True
        self.remembering = False
        self.failing = ""
        self.log = [f"2026-11-23T07:00:{index % 60:02} line {index} of the log" for index in range(120)]

    @property
    def number(self) -> int:
        """The id of the last message."""
        return self._number

    @property
    def watchers(self) -> int:
        """Streams that are open."""
        return len(self._watchers)

    def send(self, event: str, value: Any) -> None:
        """Sends a message to everyone who watches."""
        self._number += 1
        for watcher in self._watchers:
            watcher.put_nowait(f"id: {self._number}\nevent: {event}\ndata: {json.dumps(value)}\n\n")

    def drop_watchers(self) -> None:
        """Ends every stream."""
        for watcher in self._watchers:
            watcher.put_nowait(None)

    def app(self) -> Starlette:
        """The routes."""
        objects = "/objects/{kind}/{namespace}/{name}"
        interface = [
            Route("/session", self._session),
            Route("/kinds", _answer(lambda request: self.cluster.kinds())),
            Route("/objects", self._objects),
            Route(objects, self._object),
            Route(f"{objects}/decisions", _answer(lambda request: self.cluster.decisions.get(_key(request), []))),
            Route(f"{objects}/series", _answer(lambda request: self.cluster.series(15))),
            Route(f"{objects}/runs", self._runs),
            Route(f"{objects}/graph", _answer(lambda request: self.cluster.graphs.get(_key(request), NO_GRAPH))),
            Route(f"{objects}/deliveries", self._deliveries),
            Route(f"{objects}/deliveries/{{entry}}", self._delivery),
            Route("/queues", _answer(lambda request: self.cluster.queues())),
            Route("/pods/{namespace}/{name}/log", self._pod_log),
            Route("/pipeline", _answer(lambda request: self.cluster.pipeline())),
            Route("/parked", _answer(lambda request: self.cluster.parked())),
            Route("/updates", self._updates),
            Route("/actions/{kind}/{namespace}/{name}", self._allowed),
            Route("/actions/{kind}/{namespace}/{name}/{action}", self._act, methods=["POST"]),
        ]
        return Starlette(
            routes=[Mount("/api/v1", routes=interface), Route("/{path:path}", _file)],
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=self._guarded)],
        )

    async def _guarded(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        path = request.url.path
        if self.page == "token" and path.startswith("/api/") and path != "/api/v1/session" and not _user(request):
            return _problem(401, "A token is needed")
        answer = await call_next(request)
        answer.headers["Content-Security-Policy"] = POLICY
        answer.headers["X-Content-Type-Options"] = "nosniff"
        if self.cached and not path.startswith("/api/"):
            # All tests together fetch a file once.
            answer.headers["Cache-Control"] = "max-age=3600"
        return answer

    async def _session(self, request: Request) -> Response:
        if request.headers.get("authorization") and not _user(request):
            return _problem(401, "The token is not known")
        now = self.cluster.ago()
        return JSONResponse({"user": _user(request), "page": self.page, "version": self.cluster.version, "now": now})

    async def _objects(self, request: Request) -> Response:
        asked = request.query_params
        kinds = asked.getlist("kind")
        rows = [
            row
            for row in self.cluster.rows.values()
            if (row["kind"] in kinds if kinds else row["kind"] != "pods")
            and asked.get("namespace", row["namespace"]) == row["namespace"]
            and asked.get("tone", row["tone"]) == row["tone"]
            and asked.get("q", "").lower() in f"{row['name']} {row['message']}".lower()
        ]
        orders = {
            "name": lambda row: (row["name"], row["namespace"]),
            "-created": lambda row: -datetime.fromisoformat(row["created"]).timestamp(),
            "tone": lambda row: (TONES.index(row["tone"]), row["name"]),
        }
        rows.sort(key=orders[asked.get("sort", "name")])
        begin, limit = int(asked.get("after", "0")), int(asked.get("limit", "50"))
        end = begin + limit
        following = str(end) if end < len(rows) else None
        return JSONResponse({"items": rows[begin:end], "next": following, "total": len(rows)})

    async def _object(self, request: Request) -> Response:
        row = self.cluster.rows.get(_key(request))
        if row is None:
            return _problem(404, "shop/none is not known yet, or does not exist", {"Retry-After": "1"})
        return JSONResponse(self.cluster.object(row))

    async def _runs(self, request: Request) -> Response:
        begin, end = (datetime.fromisoformat(request.query_params[name]) for name in ("from", "to"))
        return JSONResponse(self.cluster.runs(self.cluster.rows[_key(request)], begin, end))

    async def _deliveries(self, request: Request) -> Response:
        asked = request.query_params
        items = [
            each
            for each in self.cluster.deliveries
            if asked.get("state", each["state"]) == each["state"] and asked.get("type", each["type"]) == each["type"]
        ]
        begin, limit = int(asked.get("after", "0")), int(asked["limit"])
        end = begin + limit
        counts = Counter(each["state"] for each in self.cluster.deliveries)
        following = str(end) if end < len(items) else None
        return JSONResponse({"items": items[begin:end], "next": following, "counts": counts})

    async def _delivery(self, request: Request) -> Response:
        entry = request.path_params["entry"]
        found = next(each for each in self.cluster.deliveries if each["entry"] == entry)
        return JSONResponse(found | {"data": '{"image": "images/0004.png", "width": 640}'})

    async def _pod_log(self, request: Request) -> Response:
        if "follow" not in request.query_params:
            return PlainTextResponse("\n".join(self.log))

        async def lines() -> AsyncIterator[str]:
            for line in self.log:
                yield f"event: line\ndata: {line}\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    async def _updates(self, request: Request) -> Response:
        if not self.accepting:
            return _problem(503, "The server is going down")
        self.topics.append(request.query_params.getlist("topic"))
        last = request.headers.get("last-event-id", "")
        self.resumed.append(last)
        return StreamingResponse(self._messages(bool(last) and self.remembering), media_type="text/event-stream")

    async def _messages(self, resumed: bool) -> AsyncIterator[str]:
        watcher: asyncio.Queue[str | None] = asyncio.Queue()
        self._watchers.add(watcher)
        try:
            yield f'id: {self._number}\nevent: hello\ndata: {{"resumed": {json.dumps(resumed)}}}\n\n'
            while (message := await watcher.get()) is not None:
                yield message
        finally:
            self._watchers.discard(watcher)

    async def _allowed(self, request: Request) -> Response:
        if not _user(request):
            return _problem(401, "A token is needed")
        return JSONResponse(
            [
                {"action": each, "allowed": each not in self.refused, "reason": self.refused.get(each, "")}
                for each in page_actions.of_kind(request.path_params["kind"])
            ]
        )

    async def _act(self, request: Request) -> Response:
        if not _user(request):
            return _problem(401, "A token is needed")
        body = await request.json()
        if self.failing:
            return _problem(502, self.failing)
        try:
            # The page must send what the real interface takes.
            page_actions.planned(request.path_params["action"], requests_read.ref(request), body["parameters"])
        except UserError as error:
            return _problem(400, str(error))
        self.actions.append({"object": _key(request), "action": request.path_params["action"], **body})
        return JSONResponse({"done": f"{request.path_params['action']} {request.path_params['name']}: done"})


def _answer(read: Callable[[Request], Any]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint of the event loop: the threads of others may outlive the test run."""

    async def endpoint(request: Request) -> Response:
        return JSONResponse(read(request))

    return endpoint


async def _file(request: Request) -> Response:
    path = ASSETS / (request.path_params["path"] or "index.html")
    if not path.is_file():
        return _problem(404, "There is no such file")
    return Response(path.read_bytes(), media_type=mimetypes.guess_type(path)[0])


def _user(request: Request) -> str | None:
    return "system:serviceaccount:shop:operator" if request.headers.get("authorization") == f"Bearer {TOKEN}" else None


def _key(request: Request) -> str:
    return "/".join(request.path_params[name] for name in ("kind", "namespace", "name"))


def _problem(status: int, title: str, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps({"type": "about:blank", "status": status, "title": title})
    return Response(body, status, headers, media_type="application/problem+json")


@asynccontextmanager
async def serving(port: int) -> AsyncIterator[PageFixture]:
    """Serves the page and its interface on a port of loopback."""
    page = PageFixture()
    config = uvicorn.Config(
        page.app(), host=LOOPBACK, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.01)
    page.url = f"http://{LOOPBACK}:{port}"
    try:
        yield page
    finally:
        page.drop_watchers()
        server.should_exit = True
        await task


if __name__ == "__main__":

    async def main() -> None:
        """Serves the fixture for people who work on the page: `python -m tests.page.page_fixture`."""
        async with serving(8123) as page:
            page.cached = False
            print(page.url)
            await asyncio.Event().wait()

    asyncio.run(main())
