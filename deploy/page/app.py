"""The routes of the page: JSON below /api/v1, server-sent events, and the files of the browser."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

from deploy.page.answers.action_answers import ActionAnswers
from deploy.page.answers.cluster_answers import ClusterAnswers
from deploy.page.answers.delivery_answers import DeliveryAnswers, DeliveryRecords
from deploy.page.answers.list_answers import ListAnswers
from deploy.page.answers.object_answers import ObjectAnswers
from deploy.page.browser_page import BrowserPage, running
from deploy.page.web.access import Access, Authorizer
from deploy.page.web.static_assets import Assets
from deploy.page.web.web_answers import (
    DATA_POLICY,
    PAGE_POLICY,
    Endpoint,
    HttpRefusal,
    SecureHeaders,
    answering,
    problem,
)
from scalers.deliveries.deliveries import Deliveries
from workers.client.rest import Cluster
from workers.settings import Settings

if TYPE_CHECKING:
    from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class ServedPage:
    """A page that is kept current. end: ends the streams of its watchers, which a server that stops would wait for."""

    routes: Sequence[BaseRoute]
    end: Callable[[], None]


@asynccontextmanager
async def opened(
    settings: Settings,
    client: Redis,
    cluster: Cluster,
    authorizer: Authorizer,
    records: DeliveryRecords | None = None,
) -> AsyncIterator["ServedPage"]:
    """Opens the page of a process, without routes if the settings switch it off.

    client: of the broker; it must answer bytes. cluster: reads Events and logs with this process's rights. authorizer:
    decides about users' tokens. records: the deliveries of EventJobs, by default those of the broker. The routes answer
    every path that is left.
    """
    if settings.page == "off":
        yield ServedPage([], lambda: None)
        return
    access = Access(settings.page, authorizer, settings.page_hosts)
    async with running(BrowserPage(settings, client, cluster, access)) as page:
        yield ServedPage(routes(page, records or Deliveries(client, page.keys)), page.broadcast.end)


def routes(page: BrowserPage, records: DeliveryRecords) -> list[BaseRoute]:
    """Returns the routes of the page. The last one answers every path, so they come after all others."""
    api = Router(_api(page, records), default=_unknown)
    files = Assets()

    async def file(request: "Request") -> Response:
        page.access.check_site(request)
        return await files.answer(request)

    found = [Route("/{path:path}", answering(file), methods=["GET"])]
    return [
        Mount("/api/v1", SecureHeaders(api, DATA_POLICY)),
        Mount("/", SecureHeaders(Router(found), PAGE_POLICY)),
    ]


def _api(page: BrowserPage, records: DeliveryRecords) -> list[BaseRoute]:
    lists, one, cluster = ListAnswers(page), ObjectAnswers(page), ClusterAnswers(page)
    deliveries = DeliveryAnswers(page, one, records)
    actions = ActionAnswers(page, deliveries)
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
        f"{of_one}/runs": one.runs,
        f"{of_one}/graph": one.graph,
        f"{of_one}/deliveries": deliveries.some,
        f"{of_one}/deliveries/{{entry}}": deliveries.one,
        "/parked": deliveries.parked,
        "/queues": cluster.queues,
        "/pipeline": cluster.pipeline,
        "/pods/{namespace}/{name}/log": cluster.log,
        to_one: actions.allowed,
    }
    found: list[BaseRoute] = [Route(path, answering(answer), methods=["GET"]) for path, answer in answers.items()]
    return [*found, Route(f"{to_one}/{{action}}", answering(actions.act), methods=["POST"])]


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    await problem(HttpRefusal(404, "there is no such address"))(scope, receive, send)
