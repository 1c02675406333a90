"""The routes of the page: JSON below /api/v1, server-sent events, and the files of the browser."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

import penstock
from deploy.page.answers import requests_read
from deploy.page.answers.action_answers import ActionAnswers
from deploy.page.answers.object_answers import ObjectAnswers
from deploy.page.browser_page import BrowserPage, running
from deploy.page.rows import derivation
from deploy.page.rows.row import rendered
from deploy.page.web.access import Access, Authorizer
from deploy.page.web.static_assets import Assets
from deploy.page.web.streamed_answer import StreamedAnswer
from deploy.page.web.web_answers import (
    DATA_POLICY,
    PAGE_POLICY,
    Endpoint,
    HttpRefusal,
    SecureHeaders,
    answering,
    joined,
    json,
    problem,
)
from workers.api.kinds import SCALED_JOB
from workers.client.rest import Cluster
from workers.settings import Settings
from workers.wiring import utc_now

if TYPE_CHECKING:
    from starlette.requests import Request

#: Watchers of one process; more are refused, so that their queues have a bound together.
MOST_WATCHERS = 1_000


@dataclass(frozen=True, slots=True)
class ServedPage:
    """A page that is kept current. end: ends the streams of its watchers, which a server that stops would wait for."""

    routes: Sequence[BaseRoute]
    end: Callable[[], None]


@asynccontextmanager
async def opened(
    settings: Settings, client: Redis, cluster: Cluster, authorizer: Authorizer
) -> AsyncIterator["ServedPage"]:
    """Opens the page of a process, without routes if the settings switch it off.

    client: of the broker; it must answer bytes. cluster: reads Events and logs with this process's rights. authorizer:
    decides about users' tokens. The routes answer every path that no route before them does.
    """
    if settings.page == "off":
        yield ServedPage([], lambda: None)
        return
    access = Access(settings.page, authorizer, settings.page_hosts)
    async with running(BrowserPage(settings, client, cluster, access)) as page:
        yield ServedPage(routes(page), page.broadcast.end)


def routes(page: BrowserPage) -> list[BaseRoute]:
    """Returns the routes of the page. The last one answers every path, so they come after all others."""
    api = Router(_api(page), default=_unknown)
    files = Assets()

    async def file(request: "Request") -> Response:
        page.access.check_site(request)
        return await files.answer(request)

    found = [Route("/{path:path}", answering(file), methods=["GET"])]
    return [
        Mount("/api/v1", SecureHeaders(api, DATA_POLICY)),
        Mount("/", SecureHeaders(Router(found), PAGE_POLICY)),
    ]


def _api(page: BrowserPage) -> list[BaseRoute]:
    lists, one, actions = ListAnswers(page), ObjectAnswers(page), ActionAnswers(page)
    of_one = "/objects/{kind}/{namespace}/{name}"
    to_one = "/actions/{kind}/{namespace}/{name}"
    answers: dict[str, Endpoint] = {
        "/session": lists.session,
        "/kinds": lists.kinds,
        "/objects": lists.objects,
        "/updates": lists.updates,
        of_one: one.whole,
        f"{of_one}/decisions": one.decisions,
        f"{of_one}/series": one.series,
        to_one: actions.allowed,
    }
    found: list[BaseRoute] = [Route(path, answering(answer), methods=["GET"]) for path, answer in answers.items()]
    return [*found, Route(f"{to_one}/{{action}}", answering(actions.act), methods=["POST"])]


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    await problem(HttpRefusal(404, "there is no such address"))(scope, receive, send)


class ListAnswers:
    """The answers about many objects."""

    def __init__(self, page: BrowserPage) -> None:
        self._page = page

    async def session(self, request: "Request") -> Response:
        """`GET /session`: it needs no token, because the page learns here that it needs one."""
        access = self._page.access
        access.check_site(request)
        user = await access.user_of(request)
        return json({"user": user, "page": access.mode, "version": penstock.__version__, "now": rendered(utc_now())})

    async def kinds(self, request: "Request") -> Response:
        """`GET /kinds`: those that the store follows and the user may list."""
        await self._page.current()
        known = [each.kind for each in derivation.SHOWN.values()]
        ages = await self._page.store.freshness(known)
        found = []
        for kind in known:
            if ages[kind.id] is None or not await self._page.access.may_read(request, kind):
                continue
            tones = self._page.index.tones(kind.id)
            row = {"id": kind.id, "kind": kind.kind, "group": kind.group, "plural": kind.plural}
            found.append({**row, "namespaced": kind.namespaced, "count": sum(tones.values()), "tones": tones})
        return json(found)

    async def objects(self, request: "Request") -> Response:
        """`GET /objects`."""
        query = requests_read.row_query(request)
        for kind_id in query.kinds:
            await self._page.access.check_read(request, derivation.SHOWN[kind_id].kind, query.namespace)
        await self._page.current()
        page = self._page.index.page(query)
        cursor = b"null" if page.next is None else f'"{page.next}"'.encode()
        return json(b'{"items":%s,"next":%s,"total":%d}' % (joined(page.rows), cursor, page.total))

    async def updates(self, request: "Request") -> Response:
        """`GET /updates`: server-sent events."""
        topics, shown = requests_read.topics(request.query_params.getlist("topic"))
        for kind, namespace, name in shown or [(SCALED_JOB, "", "")]:
            await self._page.access.check_read(request, kind, namespace, name)
        if self._page.broadcast.watchers >= MOST_WATCHERS:
            raise HttpRefusal(503, f"{MOST_WATCHERS} others watch already", retry_after=30)
        await self._page.current()
        last = request.headers.get("last-event-id") or request.query_params.get("last", "")
        return StreamedAnswer(lambda: self._texts(topics, last))

    async def _texts(self, topics: frozenset[str], last: str) -> AsyncGenerator[bytes, None]:
        watcher = self._page.broadcast.open(topics, last)
        try:
            async for text in watcher.texts():
                yield text
        finally:
            self._page.broadcast.close(watcher)
