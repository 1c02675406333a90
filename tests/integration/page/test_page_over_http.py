"""The page over HTTP: who may ask, what an answer carries, and actions in their user's name."""

from collections.abc import AsyncIterator

import pytest
import redis.asyncio as redis_async

from deploy.page import app
from tests.support.page_server import ADMIN, PageServer, page_server
from tests.unit.workers.objects import job, scaled_job
from workers.api.kinds import EVENT_JOB, JOB, SCALED_JOB

PATH = f"/actions/{SCALED_JOB.id}/default/crunch"
LIST = f"/objects?kind={SCALED_JOB.id}"


@pytest.fixture
async def served(real_redis: redis_async.Redis) -> AsyncIterator[PageServer]:
    async with page_server(real_redis) as served:
        await served.list(SCALED_JOB, scaled_job("crunch", 1))
        yield served


async def test_every_answer_has_strict_headers_and_errors_are_problems(served: PageServer) -> None:
    for path in ("/api/v1/session", "/api/v1/nowhere", "/no-such-file", "/api/v1/objects?limit=x"):
        async with served.http.get(served.url + path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'")
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in answer.headers
            if answer.status >= 400:
                assert answer.content_type == "application/problem+json"
                assert (await answer.json(content_type=None))["status"] == answer.status
    assert (await served.get("/objects?limit=x"))[1]["detail"] == "limit: a whole number from 1 to 500 is needed"


NOTHING = [
    ("/objects?kind=secrets", 404),
    ("/objects?tone=blue", 400),
    ("/objects?sort=size", 400),
    ("/objects?after=x", 400),
    (f"/objects/{SCALED_JOB.id}/-/crunch", 404),
    (f"/objects/{SCALED_JOB.id}/default/other", 404),
    (f"/objects/{SCALED_JOB.id}/default/crunch/runs", 404),
    (f"/objects/{SCALED_JOB.id}/default/crunch/graph", 404),
    (f"/objects/{SCALED_JOB.id}/default/crunch/deliveries", 404),
    (f"/objects/{SCALED_JOB.id}/default/crunch/series?minutes=999", 400),
    ("/updates", 400),
    ("/updates?topic=objects:secrets", 404),
    ("/updates?topic=everything", 400),
    ("/pods/default/x/log", 503),
    (PATH, 401),
]


async def test_an_address_that_means_nothing_is_refused(served: PageServer) -> None:
    found = [(path, (await served.get(path))[0]) for path, _ in NOTHING]
    assert found == NOTHING


async def test_a_list_of_deliveries_goes_on_from_its_own_cursors_only(served: PageServer) -> None:
    metadata = {"name": "orders", "namespace": "default", "uid": "uid-orders", "resourceVersion": "1"}
    await served.list(EVENT_JOB, {**EVENT_JOB.type_meta, "metadata": metadata, "spec": {}})
    path = f"/objects/{EVENT_JOB.id}/default/orders/deliveries"
    for cursor in ("x", "1-1", "-1", "1_0", "nan", "1e3", "(1", "9" * 30):
        status, found = await served.get(f"{path}?after={cursor}")
        assert (status, found["detail"]) == (400, "after: not a cursor of this list")
    assert (await served.get(f"{path}?after=7"))[0] == 200


async def test_another_name_for_this_server_is_refused(served: PageServer) -> None:
    for host in ("evil.example", "localhost.evil.example", "evil.example:80"):
        assert (await served.get(LIST, Host=host))[0] == 403
        assert (await served.get("/session", Host=host))[0] == 403
        async with served.http.get(f"{served.url}/", headers={"Host": host}) as answer:
            assert answer.status == 403


async def test_an_action_is_done_with_the_users_own_token_on_the_object_they_saw(served: PageServer) -> None:
    token = {"Authorization": f"Bearer {ADMIN}"}
    assert await served.post(f"{PATH}/pause", {}, **token) == (200, {"done": "ScaledJob default/crunch paused"})
    assert (await served.post(f"{PATH}/delete", {"parameters": {}}, **token))[0] == 200
    pause, delete = served.authorizer.requests
    path = SCALED_JOB.path("default", "crunch")
    paused = {"annotations": {"autoscaling.keda.sh/paused": "true"}, "uid": "uid-crunch"}
    assert pause == ("PATCH", ADMIN, path, {"metadata": paused})
    assert delete[:3] == ("DELETE", ADMIN, path)
    assert delete[3]["preconditions"] == {"uid": "uid-crunch"}


async def test_actions_are_refused_without_a_token_a_right_or_from_another_site(served: PageServer) -> None:
    served.authorizer.allowed = {("reader", "get", "default"), ("editor", "patch", "default")}
    cases: list[tuple[str, dict[str, str], int]] = [
        ("pause", {}, 401),
        ("pause", {"Authorization": "Bearer stranger"}, 401),
        ("pause", {"Authorization": "Bearer reader"}, 403),
        ("pause", {"Authorization": "Bearer editor", "Origin": "https://evil.example"}, 403),
        ("pause", {"Authorization": "Bearer editor", "Sec-Fetch-Site": "cross-site"}, 403),
        ("pause", {"Authorization": "Bearer editor", "Cookie": "token=x", "Content-Type": "text/plain"}, 415),
        ("suspend", {"Authorization": "Bearer editor"}, 400),
        ("delete", {"Authorization": "Bearer editor"}, 403),
    ]
    for action, headers, status in cases:
        assert (await served.post(f"{PATH}/{action}", {}, **headers))[0] == status, (action, headers)
    assert served.authorizer.requests == []
    _, found = await served.get(PATH, token="editor")
    allowed = {each["action"]: each["allowed"] for each in found}
    assert allowed == {"pause": True, "unpause": True, "delete": False}


async def test_with_the_setting_token_reading_needs_a_right(real_redis: redis_async.Redis) -> None:
    async with page_server(real_redis, mode="token") as served:
        await served.list(SCALED_JOB, scaled_job("crunch", 1))
        await served.list(JOB, job("crunch-1", 2))
        served.authorizer.allowed = {("reader", "list", "default"), ("reader", "get", "default")}
        for path in (LIST, "/kinds", "/pipeline", "/parked", "/queues", f"/updates?topic=objects:{JOB.id}"):
            assert (await served.get(path))[0] == 401
            assert (await served.get(path, token="stranger"))[0] == 401
        assert (await served.get(LIST, token="reader"))[0] == 403
        assert (await served.get(f"{LIST}&namespace=default", token="reader"))[1]["total"] == 1
        assert (await served.get(f"/objects/{SCALED_JOB.id}/default/crunch", token="reader"))[0] == 200
        assert (await served.get(LIST, token=ADMIN))[1]["total"] == 1
        assert (await served.get("/session"))[1]["page"] == "token"
        assert (await served.get("/session", token=ADMIN))[1]["user"] == "admin"
        assert (await served.get("/session", token="stranger"))[0] == 401


async def test_a_page_that_is_off_has_no_routes(real_redis: redis_async.Redis) -> None:
    from workers.settings import Settings

    off = Settings(page="off")
    async with app.opened(off, real_redis, None, None, None) as page:  # type: ignore[arg-type]
        assert page.routes == []
