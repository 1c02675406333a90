"""Answers about more than one object: queues, logs of pods, and the pipeline."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from deploy.page.answers import queue_shares, requests_read
from deploy.page.browser_page import BrowserPage
from deploy.page.web.streamed_answer import StreamedAnswer
from deploy.page.web.web_answers import HttpRefusal, json
from workers.api.kinds import POD, POD_GROUP, PRIORITY_CLASS, QUEUE, SCALED_JOB, Kind, Object
from workers.errors import ClusterError
from workers.wiring import utc_now

if TYPE_CHECKING:
    from starlette.requests import Request

#: Lines of a log that an answer begins with, at most, and logs that one process follows.
TAIL, FOLLOWED = 10_000, 100


class ClusterAnswers:
    """The answers about queues, logs and the pipeline."""

    def __init__(self, page: BrowserPage) -> None:
        self._page = page
        self._following = 0

    async def queues(self, request: "Request") -> Response:
        """`GET /queues`."""
        await self._page.access.check_read(request, QUEUE)
        await self._page.current()
        queues, groups = await self._bodies(QUEUE), await self._bodies(POD_GROUP)
        classes = await self._bodies(PRIORITY_CLASS)
        priorities = {each["metadata"]["name"]: int(each.get("value") or 0) for each in classes}
        return json(queue_shares.shares(queues, groups, priorities, utc_now()))

    async def pipeline(self, request: "Request") -> Response:
        """`GET /pipeline`."""
        await self._page.access.check_read(request, SCALED_JOB)
        return json(await self._page.monitor.encoded())

    async def log(self, request: "Request") -> Response:
        """`GET /pods/{namespace}/{name}/log`: text, or server-sent events `line` if it is followed."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        await self._page.access.check_read(request, POD, namespace, name)
        if any("/" in part or part.startswith(".") for part in (namespace, name)):
            raise HttpRefusal(404, "there is no such pod")
        query = {"tailLines": str(requests_read.number(request, "tail", 500, 0, TAIL))}
        if container := request.query_params.get("container"):
            query["container"] = container
        reader, path = self._page.access.reader(request, self._page.cluster), POD.path(namespace, name, "log")
        if request.query_params.get("follow", "") not in ("1", "true"):
            text = await reader.request("GET", path, query=query)
            return Response(text if isinstance(text, str) else "", media_type="text/plain", headers=_UNKEPT)
        if self._following >= FOLLOWED:
            raise HttpRefusal(503, f"{FOLLOWED} logs are followed already", retry_after=30)
        await reader.request("GET", POD.path(namespace, name))
        lines = reader.stream_lines(path, {**query, "follow": "true"})
        return StreamedAnswer(lambda: self._lines(lines))

    async def _lines(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        self._following += 1
        try:
            # At once, so that the browser knows the connection before the pod writes its first line.
            yield b": the log follows\n\n"
            async with aclosing(lines):
                async for line in lines:
                    yield b"event: line\ndata: %s\n\n" % line.replace(b"\r", b" ")
        except ClusterError as error:
            yield b"event: line\ndata: (%s)\n\n" % " ".join(str(error).split()).encode()
        finally:
            self._following -= 1

    async def _bodies(self, kind: Kind) -> list[Object]:
        found: list[Any] = [entry.body async for entry in self._page.store.scan(kind)]
        return [body for body in found if body is not None]


_UNKEPT = {"Cache-Control": "no-store"}
