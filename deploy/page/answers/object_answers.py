"""Answers about one object: its row, manifest, children and Events, its decisions and its series."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from deploy.object_rows import schedules
from deploy.object_rows.row import count as whole
from deploy.object_rows.row import instant
from deploy.page.answers import object_graphs, requests_read, schedule_runs, shown_manifests
from deploy.page.browser_page import BrowserPage
from deploy.page.live.sampler import decision_json, point_json
from deploy.page.live.series import COLUMNS
from deploy.page.web import web_answers
from deploy.page.web.access import ObjectReader
from deploy.page.web.web_answers import HttpRefusal, json
from workers.api import times
from workers.api.kinds import EVENT, POD, Object, Ref
from workers.errors import ClusterError
from workers.wiring import utc_now

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

#: Children and Events that an object's page shows: the newest.
CHILDREN, EVENTS = 200, 100
DAY = timedelta(days=1)
#: Seconds after which one asks again for an object that is not known: it may have been created just now.
LOOK = 2
#: Longest series in minutes.
MINUTES = 15


class ObjectAnswers:
    """The answers about single objects."""

    def __init__(self, page: BrowserPage) -> None:
        self._page = page

    async def whole(self, request: "Request") -> "Response":
        """`GET /objects/{kind}/{namespace}/{name}`."""
        ref, body = await self.found(request)
        row = self._page.index.get(ref.kind.id, ref.namespace, ref.name)
        assert row is not None
        children = self._page.index.owned_by(ref.kind.id, ref.namespace, ref.name)[:CHILDREN]
        reader = self._page.access.reader(request, self._page.cluster)
        events = await _events(reader, ref, str(body["metadata"].get("uid") or ""))
        rest: Object = {
            "manifest": shown_manifests.text(ref.kind, body),
            "events": [_event(each) for each in events],
            "containers": _containers(body) if ref.kind.id == POD.id else [],
        }
        parts = b'{"row":%s,"children":%s,' % (row.encoded, web_answers.joined(each.encoded for each in children))
        return json(parts + orjson.dumps(rest)[1:])

    async def decisions(self, request: "Request") -> "Response":
        """`GET …/decisions`."""
        ref, body = await self.found(request)
        made = await self._page.decisions.of(ref)
        return json([decision_json(each) for each in made if each.uid == body["metadata"].get("uid")])

    async def series(self, request: "Request") -> "Response":
        """`GET …/series`."""
        minutes = requests_read.number(request, "minutes", MINUTES, 1, MINUTES)
        ref, _ = await self.found(request)
        points = self._page.series.since(ref.key, utc_now().timestamp() - 60 * minutes)
        values = [point_json(each) for each in points]
        columns: dict[str, list[Any]] = {name: [each[name] for each in values] for name in COLUMNS}
        return json({"at": [_at(each.at) for each in points], **columns})

    async def runs(self, request: "Request") -> "Response":
        """`GET …/runs`: of the last and the next day unless the query says otherwise."""
        now = utc_now()
        start = requests_read.moment(request, "from", now - DAY)
        end = requests_read.moment(request, "to", now + DAY)
        ref, body = await self.found(request)
        if not schedules.by_the_clock(ref.kind, body):
            raise HttpRefusal(404, f"{ref} has no schedule")
        kind = schedule_runs.children_kind(ref.kind)
        children = await self._page.store.children(kind, str(body["metadata"].get("uid")))
        past = schedule_runs.past(body, [each.body for each in children if each.body], start, min(end, now))
        return json({"past": past, "next": schedule_runs.following(ref.kind, body, max(now, start), end)})

    async def graph(self, request: "Request") -> "Response":
        """`GET …/graph`."""
        ref, body = await self.found(request)
        drawn = object_graphs.drawn(ref.kind, body)
        if drawn is None:
            raise HttpRefusal(404, f"{ref.kind.kind} has no graph")
        return json(drawn)

    async def found(self, request: "Request") -> tuple[Ref, Object]:
        """Returns the object of a path as the store has it. Raises HttpRefusal if it is not to be seen."""
        ref = requests_read.ref(request)
        await self._page.access.check_read(request, ref.kind, ref.namespace, ref.name)
        await self._page.current()
        entry = await self._page.store.get(ref)
        if entry is None:
            raise HttpRefusal(404, f"{ref} is not known yet, or does not exist", retry_after=LOOK)
        if entry.body is None:
            raise HttpRefusal(404, f"{ref} was deleted", retry_after=LOOK)
        if not self._page.index.get(ref.kind.id, ref.namespace, ref.name):
            # It was stored this moment.
            raise HttpRefusal(404, f"{ref} is not known yet", retry_after=LOOK)
        return ref, entry.body


async def _events(reader: ObjectReader, ref: Ref, uid: str) -> Sequence[Object]:
    """Returns the Events of an object, the newest first; none while they cannot be read."""
    query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": "500"}
    try:
        answer = await reader.request("GET", EVENT.path(ref.namespace or "default"), query=query)
    except ClusterError as error:
        log.info("Events are not shown", extra={"object": str(ref), "error": str(error)})
        return ()
    found = [each for each in answer.get("items") or () if isinstance(each, dict)]
    return sorted(found, key=lambda each: _last(each) or "", reverse=True)[:EVENTS]


def _event(body: Object) -> Object:
    number = whole((body.get("series") or {}).get("count")) or whole(body.get("count")) or 1
    return {
        "type": body.get("type") or "",
        "reason": body.get("reason") or "",
        "message": body.get("message") or "",
        "count": number,
        "first": instant(body.get("firstTimestamp") or body.get("eventTime") or _created(body)),
        "last": instant(_last(body)),
    }


def _last(body: Object) -> str | None:
    """Returns an Event's last time, which recorders write to different fields."""
    series = body.get("series") or {}
    return series.get("lastObservedTime") or body.get("lastTimestamp") or body.get("eventTime") or _created(body)


def _created(body: Object) -> str | None:
    return (body.get("metadata") or {}).get("creationTimestamp")


def _containers(pod: Object) -> list[str]:
    spec = pod.get("spec") or {}
    return [str(each.get("name")) for field in ("initContainers", "containers") for each in spec.get(field) or ()]


def _at(seconds: float) -> str:
    return times.render_precisely(datetime.fromtimestamp(seconds, UTC))
