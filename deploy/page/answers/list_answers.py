"""Answers about many objects: kinds, lists, and the stream of updates."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import penstock
from deploy.object_rows import derivation
from deploy.page.answers import requests_read
from deploy.page.browser_page import BrowserPage
from deploy.page.web.streamed_answer import StreamedAnswer
from deploy.page.web.web_answers import HttpRefusal, joined, json
from workers.api import times
from workers.api.kinds import SCALED_JOB
from workers.wiring import utc_now

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

#: Watchers of one process; more are refused, so that their queues have a bound together.
MOST_WATCHERS = 1_000


class ListAnswers:
    """The answers about many objects."""

    def __init__(self, page: BrowserPage) -> None:
        self._page = page

    async def session(self, request: "Request") -> "Response":
        """`GET /session`: it needs no token, because the page learns here that it needs one."""
        access = self._page.access
        access.check_site(request)
        user = await access.user_of(request)
        now = times.render_precisely(utc_now())
        return json({"user": user, "page": access.mode, "version": penstock.__version__, "now": now})

    async def kinds(self, request: "Request") -> "Response":
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

    async def objects(self, request: "Request") -> "Response":
        """`GET /objects`."""
        query = requests_read.row_query(request)
        for kind_id in query.kinds:
            await self._page.access.check_read(request, derivation.SHOWN[kind_id].kind, query.namespace)
        await self._page.current()
        page = self._page.index.page(query)
        cursor = b"null" if page.next is None else f'"{page.next}"'.encode()
        return json(b'{"items":%s,"next":%s,"total":%d}' % (joined(page.rows), cursor, page.total))

    async def updates(self, request: "Request") -> "Response":
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
