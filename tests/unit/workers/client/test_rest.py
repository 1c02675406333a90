"""The cluster client against a small HTTP server that misbehaves in every way that matters."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from tests.support.conditions import eventually
from tests.support.tables import cases, for_each
from workers import errors, wiring
from workers.api.kinds import JOB, POD, Ref
from workers.client import transport
from workers.client.kubeconfig import ApiAccess
from workers.client.request_limiter import Priority, requests
from workers.client.rest import Cluster
from workers.client.transport import IdleWait

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
REF = Ref(JOB, "default", "a")


class Server:
    """Answers every request with `answer`; remembers what was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.answer: Handler = self._nothing
        self.leaving = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        return await self.answer(request)

    async def _nothing(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response({})

    def says(self, status: int, body: object = None, **headers: str) -> None:
        async def answer(_request: web.Request) -> web.StreamResponse:
            if isinstance(body, str):
                return web.Response(status=status, text=body, headers=headers)
            return web.json_response(body, status=status, headers=headers)

        self.answer = answer

    def streams(self, *chunks: bytes, hang: bool = False, cut: bool = False) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
                await asyncio.sleep(0.02)
            if hang:
                await self.leaving.wait()
            if cut and request.transport:
                request.transport.abort()
            return response

        self.answer = answer


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = site.name
    yield server
    server.leaving.set()
    await runner.cleanup()


@pytest.fixture
async def cluster(server: Server) -> AsyncIterator[Cluster]:
    async with Cluster(ApiAccess(server.url), timeout=5, in_flight=4) as cluster:
        yield cluster


def status(code: int, reason: str, message: str = "because", **details: object) -> dict[str, object]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


@cases(
    ("400", 400, "BadRequest", errors.Invalid),
    ("401", 401, "Unauthorized", errors.Forbidden),
    ("403", 403, "Forbidden", errors.Forbidden),
    ("404", 404, "NotFound", errors.NotFound),
    ("409 name taken", 409, "AlreadyExists", errors.AlreadyExists),
    ("409 changed meanwhile", 409, "Conflict", errors.Conflict),
    ("410", 410, "Expired", errors.Gone),
    ("413", 413, "RequestEntityTooLarge", errors.Invalid),
    ("415", 415, "UnsupportedMediaType", errors.Invalid),
    ("422", 422, "Invalid", errors.Invalid),
    ("429", 429, "TooManyRequests", errors.Unavailable),
    ("500", 500, "InternalError", errors.Unavailable),
    ("503", 503, "ServiceUnavailable", errors.Unavailable),
)
async def test_every_refusal_has_its_error(
    code: int, reason: str, error: type[errors.ClusterError], server: Server, cluster: Cluster
) -> None:
    server.says(code, status(code, reason))
    with pytest.raises(errors.ClusterError, match=f"{code}: because") as caught:
        await cluster.get(REF)
    assert type(caught.value) is error
    assert caught.value.status == code
    assert caught.value.body == status(code, reason)


async def test_a_servers_long_message_is_trimmed(server: Server, cluster: Cluster) -> None:
    server.says(422, status(422, "Invalid", "x" * 5000))
    with pytest.raises(errors.Invalid) as caught:
        await cluster.get(REF)
    assert str(caught.value).count("x") == 500


async def test_a_refusal_in_plain_text_is_quoted(server: Server, cluster: Cluster) -> None:
    server.says(502, "bad gateway")
    with pytest.raises(errors.Unavailable, match="502: bad gateway") as caught:
        await cluster.get(REF)
    assert caught.value.body is None


@cases(
    ("header in seconds", {"Retry-After": "7"}, {}, 7.0),
    ("header with an instant gone by", {"Retry-After": "Thu, 01 Jan 2015 00:00:00 GMT"}, {}, 0.0),
    ("header nobody understands", {"Retry-After": "soon"}, {}, None),
    ("header with a day", {"Retry-After": "86400"}, {}, transport.MOST_RETRY_AFTER),
    (
        "header with an instant far away",
        {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"},
        {},
        transport.MOST_RETRY_AFTER,
    ),
    ("header without an end", {"Retry-After": "inf"}, {}, transport.MOST_RETRY_AFTER),
    ("header that is no number", {"Retry-After": "nan"}, {}, None),
    ("in the status", {}, {"retryAfterSeconds": 3}, 3),
    ("in the status, a day", {}, {"retryAfterSeconds": 86400}, transport.MOST_RETRY_AFTER),
    ("in the status, before now", {}, {"retryAfterSeconds": -3}, 0),
    ("in the status, no number", {}, {"retryAfterSeconds": "3"}, None),
    ("nowhere", {}, {}, None),
)
async def test_how_long_the_server_asks_to_wait(
    header: dict[str, str], details: dict[str, object], seconds: float | None, server: Server, cluster: Cluster
) -> None:
    server.says(429, status(429, "TooManyRequests", **details), **header)
    with pytest.raises(errors.Unavailable) as caught:
        await cluster.get(REF)
    assert caught.value.retry_after == seconds


async def test_details_of_a_refusal_that_cannot_be_read_count_as_none(server: Server, cluster: Cluster) -> None:
    server.says(429, {"kind": "Status", "message": "denied", "details": ["3"]})
    with pytest.raises(errors.Unavailable, match="429: denied") as caught:
        await cluster.get(REF)
    assert caught.value.retry_after is None


async def test_a_server_that_never_answers_is_unavailable(server: Server) -> None:
    server.streams(hang=True)
    async with Cluster(ApiAccess(server.url), timeout=0.05, in_flight=1) as cluster:
        with pytest.raises(errors.Unavailable, match="no answer in time"):
            await cluster.get(REF)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with Cluster(ApiAccess("http://127.0.0.1:1"), timeout=5, in_flight=1) as cluster:
        with pytest.raises(errors.Unavailable, match="GET /apis/batch/v1"):
            await cluster.get(REF)


async def test_an_answer_that_is_not_json_is_unavailable(server: Server, cluster: Cluster) -> None:
    server.says(200, "<html>")
    with pytest.raises(errors.Unavailable, match="not JSON"):
        await cluster.get(REF)


async def test_writes_carry_their_fences(server: Server, cluster: Cluster) -> None:
    server.says(200, {})
    await cluster.delete(REF, uid="u", resource_version="5", propagation="Foreground", grace=0)
    await cluster.patch(REF, {"spec": {}}, subresource="status")
    delete, patch = server.requests
    assert (delete.method, delete.path) == ("DELETE", "/apis/batch/v1/namespaces/default/jobs/a")
    assert yaml.safe_load(server.bodies[0]) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }
    assert (patch.method, patch.path) == ("PATCH", "/apis/batch/v1/namespaces/default/jobs/a/status")
    assert patch.headers["Content-Type"] == "application/merge-patch+json"


def _page(names: str, more: str) -> dict[str, object]:
    items = [{"metadata": {"name": name}} for name in names]
    return {"metadata": {"resourceVersion": "9", "continue": more}, "items": items}


async def test_a_list_follows_its_pages_and_names_the_kind_of_every_item(server: Server, cluster: Cluster) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        first = "continue" not in request.query
        return web.json_response(_page("ab", "more") if first else _page("c", ""))

    server.answer = answer
    objects, version = await cluster.list(POD, label_selector="a=b,c", limit=2)
    assert [body["metadata"]["name"] for body in objects] == ["a", "b", "c"]
    assert {(body["apiVersion"], body["kind"]) for body in objects} == {("v1", "Pod")}
    assert version == "9"
    assert server.requests[0].query["labelSelector"] == "a=b,c"


@for_each(1, 2)
async def test_a_list_whose_pages_expire_starts_afresh_once(expirations: int, server: Server, cluster: Cluster) -> None:
    left = expirations

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal left
        if "continue" not in request.query:
            return web.json_response(_page("ab", "more"))
        if left:
            left -= 1
            return web.json_response(status(410, "Expired"), status=410)
        return web.json_response(_page("c", ""))

    server.answer = answer
    if expirations == 1:
        assert len((await cluster.list(POD))[0]) == 3
    else:
        with pytest.raises(errors.Gone):
            await cluster.list(POD)


def event(type_: str, version: int) -> bytes:
    return b'{"type":"%s","object":{"metadata":{"resourceVersion":"%d"}}}\n' % (type_.encode(), version)


async def versions(cluster: Cluster, *, idle: float = 1.0, **options: float) -> list[str]:
    """The events of one watch; '.' stands for an empty burst."""
    seen: list[str] = []
    async for burst in cluster.follow(JOB, resource_version="1", timeout=60, idle=IdleWait(idle), **options):
        seen += [item.object["metadata"]["resourceVersion"] for item in burst] or ["."]
    return seen


async def test_events_come_in_bursts_and_an_empty_one_says_that_all_was_handed_out(
    server: Server, cluster: Cluster
) -> None:
    server.streams(event("ADDED", 2) + event("MODIFIED", 3), event("BOOKMARK", 4))
    seen = await versions(cluster)
    assert [item for item in seen if item != "."] == ["2", "3", "4"]
    assert seen.index("3") == seen.index("2") + 1
    assert "." in seen[seen.index("3") : seen.index("4")]


async def test_an_event_cut_in_pieces_is_put_together_and_nothing_is_drained_before(
    server: Server, cluster: Cluster
) -> None:
    line = event("ADDED", 2)
    server.streams(line[:20], line[20:40], line[40:])
    seen = await versions(cluster)
    assert [item for item in seen if item != "."] == ["2"]
    assert seen.index("2") <= 1  # at most the burst that says that nothing had come yet


async def test_a_quiet_stream_says_so_again_and_again(server: Server, cluster: Cluster) -> None:
    server.streams(hang=True)
    async with aclosing(cluster.follow(JOB, resource_version="1", timeout=60, idle=IdleWait(0.01))) as bursts:
        assert [await anext(bursts) for _ in range(5)] == [()] * 5


async def test_the_wait_of_a_quiet_stream_can_be_cut_short(server: Server, cluster: Cluster) -> None:
    server.streams(hang=True)
    idle = IdleWait(3600.0)
    async with aclosing(cluster.follow(JOB, resource_version="1", timeout=60, idle=idle)) as bursts:
        assert await anext(bursts) == ()
        waiting = asyncio.ensure_future(anext(bursts))
        while not waiting.done():
            idle.cut()
            await asyncio.sleep(0.01)
        assert await waiting == ()


async def test_a_wait_may_be_cut_at_the_moment_at_which_it_ends() -> None:
    idle, begun = IdleWait(3600.0), asyncio.Event()

    async def wait() -> None:
        async with idle.timeout():
            begun.set()
            await asyncio.Event().wait()

    waiting = asyncio.ensure_future(wait())
    await begun.wait()
    while not waiting.done():
        idle.cut()
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await waiting


async def test_a_silent_connection_is_given_up(server: Server, cluster: Cluster) -> None:
    server.streams(hang=True)
    with pytest.raises(errors.Silent, match="not a byte"):
        await versions(cluster, idle=0.01, silence=0.05)


async def test_a_connection_cut_in_the_middle_of_a_line_is_an_error_and_half_an_event_is_none(
    server: Server, cluster: Cluster
) -> None:
    server.streams(event("ADDED", 2), event("ADDED", 3)[:30], cut=True)
    watch = cluster.watch(JOB, resource_version="1", timeout=60)
    assert (await anext(watch)).object["metadata"]["resourceVersion"] == "2"
    with pytest.raises(errors.Unavailable):
        await anext(watch)


@for_each("answer", "event")
async def test_a_version_too_old_to_watch_is_gone(how: str, server: Server, cluster: Cluster) -> None:
    if how == "answer":
        server.says(410, status(410, "Expired"))
    else:
        server.streams(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n')
    with pytest.raises(errors.Gone):
        await versions(cluster)


async def test_a_line_that_is_no_event_is_an_error(server: Server, cluster: Cluster) -> None:
    server.streams(b"surprise\n")
    with pytest.raises(errors.Unavailable, match="surprise"):
        await versions(cluster)


async def test_watches_do_not_take_the_connections_of_calls(server: Server, cluster: Cluster) -> None:
    server.streams(hang=True)
    watches = [asyncio.create_task(versions(cluster, idle=60)) for _ in range(20)]
    while len(server.requests) < 20:
        await asyncio.sleep(0.01)
    server.says(200, {"metadata": {}})
    assert await cluster.get(REF) == {"metadata": {}}
    for watch in watches:
        watch.cancel()
    await asyncio.gather(*watches, return_exceptions=True)


async def test_lines_of_a_log_come_as_they_are_written_and_the_last_may_lack_its_end(
    server: Server, cluster: Cluster
) -> None:
    server.streams(b"one\n\ntw", b"o\nthree")
    assert [line async for line in cluster.stream_lines("/log")] == [b"one", b"", b"two", b"three"]


async def test_a_line_of_a_log_that_does_not_end_comes_in_pieces(
    server: Server, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LONGEST_LINE", 3)
    server.streams(b"abcdefgh", b"ijkl\nm")
    lines = [line async for line in cluster.stream_lines("/log")]
    assert b"".join(lines) == b"abcdefghijklm"
    assert lines[0] in (b"abcdefgh", b"abcdefghijkl")


async def test_a_token_is_sent_and_proxy_variables_are_not_obeyed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.says(200, {"metadata": {}})
    async with await Cluster.connect(kubeconfig=_kubeconfig(tmp_path, server.url)) as cluster:
        await cluster.get(REF)
    assert server.requests[0].headers["Authorization"] == "Bearer secret"


def _kubeconfig(folder: Path, url: str) -> Path:
    file = folder / "config"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(config))
    return file


@cases(
    ("missing", None, None, "no such file"),
    ("not YAML", "contexts: [", None, "config"),
    ("without a context", "clusters: []\ncontexts: []\nusers: []\n", None, "current-context"),
    ("not a mapping", "just text", None, "config"),
    ("a context that is not there", ..., "other", "other"),
)
async def test_a_kubeconfig_that_cannot_be_used_is_named(
    text: object, context: str | None, message: str, tmp_path: Path
) -> None:
    file = _kubeconfig(tmp_path, "http://127.0.0.1:1")
    if text is None:
        file.unlink()
    elif isinstance(text, str):
        file.write_text(text)
    with pytest.raises(errors.UserError, match=message) as caught:
        await Cluster.connect(kubeconfig=file, context=context)
    assert str(file) in str(caught.value)


@cases(
    ("none", [], []),
    ("one", ['299 - "as you wish"'], ["as you wish"]),
    ("several in one", ['299 - "one, or 299 - two", 299 - "three"'], ["one, or 299 - two", "three"]),
    ("several headers", ['299 - "one"', '299 kube "two" "Mon, 23 Nov 2026 07:00:00 GMT"'], ["one", "two"]),
    ("quoted", [r'299 - "say \"no\" \\"'], [r'say "no" \ '.strip()]),
    ("of a cache", ['110 - "stale"'], []),
    ("no warning", ["299", '299 - "open'], []),
)
def test_the_texts_of_warning_headers(headers: list[str], wanted: list[str]) -> None:
    assert transport.warnings(headers) == wanted


async def test_the_servers_warnings_are_told(server: Server) -> None:
    told: list[str] = []
    async with Cluster(ApiAccess(server.url), timeout=5, in_flight=4, warned=told.append) as cluster:
        server.says(201, {"metadata": {}}, Warning='299 - "unknown field \\"spec.x\\""')
        await cluster.create(JOB, {"metadata": {"namespace": "default", "name": "a"}})
        server.says(422, status(422, "Invalid"), Warning='299 - "and this"')
        with pytest.raises(errors.Invalid):
            await cluster.get(REF)
    assert told == ['unknown field "spec.x"', "and this"]


async def test_a_call_site_is_told_the_warnings_about_its_own_requests(server: Server, cluster: Cluster) -> None:
    told: list[str] = []
    server.says(201, {"metadata": {}}, Warning='299 - "unknown field \\"spec.x\\""')
    with requests(Priority.START, warned=told.append):
        await cluster.create(JOB, {"metadata": {"namespace": "default", "name": "a"}})
    assert told == ['unknown field "spec.x"']


async def test_a_busy_server_is_asked_by_fewer_at_once(server: Server, cluster: Cluster) -> None:
    server.says(429, "Too many requests, please try again later.", **{"Retry-After": "1"})
    with pytest.raises(errors.Unavailable, match="429: Too many requests"):
        await cluster.get(REF)
    assert cluster.limiter.allowed == 5
    with pytest.raises(errors.Unavailable, match="429: Too many requests"):
        await cluster.get(REF)
    # It answers nothing any more: it is left alone for a second.
    with pytest.raises(errors.Throttled) as caught:
        await cluster.get(REF)
    assert 0 < (caught.value.retry_after or 0) < 2
    with pytest.raises(errors.Throttled):
        async with aclosing(cluster.watch(JOB, resource_version="1", timeout=5)) as events:
            await anext(events)
    assert len(server.requests) == 2


@cases(
    ("an admission that denies", 429, status(429, "TooManyRequests", "a webhook denies"), None),
    ("a conflict", 409, status(409, "Conflict"), None),
    ("a quota", 403, status(403, "Forbidden"), None),
)
async def test_a_refusal_that_is_about_the_object_lowers_no_limit(
    code: int, body: object, retry_after: float | None, server: Server, cluster: Cluster
) -> None:
    server.says(code, body)
    for _ in range(3):
        with pytest.raises(errors.ClusterError):
            await cluster.get(REF)
    assert cluster.limiter.allowed == 8


async def test_what_priority_and_fairness_refuses_names_the_level(server: Server, cluster: Cluster) -> None:
    told = {transport.FLOW_SCHEMA: "schema-uid", transport.PRIORITY_LEVEL: "level-uid"}
    server.says(429, "Too many requests, please try again later.", **told)
    with pytest.raises(errors.Unavailable, match=r"\(flow schema schema-uid, priority level level-uid\)"):
        await cluster.get(REF)


async def test_a_broken_connection_lowers_the_limit_and_a_time_out_beside_answers_does_not(server: Server) -> None:
    async with Cluster(ApiAccess(host="http://127.0.0.1:1"), timeout=5, in_flight=4) as nowhere:
        with pytest.raises(errors.Unavailable):
            await nowhere.get(REF)
        assert nowhere.limiter.allowed == 5

    async def hang(request: web.Request) -> web.StreamResponse:
        if "/default/" in request.path:
            await server.leaving.wait()
        return web.json_response({})

    server.answer = hang
    async with Cluster(ApiAccess(host=server.url), timeout=0.2, in_flight=4) as cluster:
        hanging = asyncio.create_task(cluster.get(REF))
        await cluster.get(Ref(JOB, "other", "a"))
        with pytest.raises(errors.Unavailable, match="no answer in time"):
            await hanging
        assert cluster.limiter.allowed == 8


async def test_a_check_that_fails_after_the_wait_sends_nothing(server: Server, cluster: Cluster) -> None:
    def lost() -> None:
        raise RuntimeError("the lease ran out")

    with requests(Priority.START, lost), pytest.raises(RuntimeError, match="the lease ran out"):
        await cluster.create(JOB, {"metadata": {"name": "a", "namespace": "default"}})
    assert server.requests == []
    assert cluster.limiter.in_flight == 0


async def test_what_waits_goes_back_when_refused_watches_bring_the_pause(server: Server, cluster: Cluster) -> None:
    held = [
        await cluster.limiter.enter(Priority.READ, f"namespace-{number}", "")
        for number in range(cluster.limiter.allowed)
    ]
    waiting = asyncio.create_task(cluster.get(REF))
    await eventually(lambda: cluster.limiter.waiting[Priority.READ] == 1)
    server.says(429, "Too many requests, please try again later.", **{"Retry-After": "1"})
    for _ in range(2):
        with pytest.raises(errors.Unavailable, match="429"):
            async with aclosing(cluster.watch(JOB, resource_version="1", timeout=5)) as events:
                await anext(events)
    for ticket in held:
        cluster.limiter.leave(ticket)
    # Places are free, and the pause lets nothing go: it would wait for the next request, or until its patience ends.
    assert cluster.limiter.waiting[Priority.READ] == 0
    with pytest.raises(errors.Throttled):
        await waiting


async def test_a_redirect_is_not_followed(server: Server) -> None:
    server.says(307, "elsewhere", Location=f"{server.url}/other")
    async with Cluster(ApiAccess(server.url), timeout=5, in_flight=4) as cluster:
        with pytest.raises(errors.Unavailable, match="307"):
            await cluster.get(REF)
    assert len(server.requests) == 1


async def test_readiness_does_not_wait_for_the_work_that_the_limiter_holds_back(
    server: Server, cluster: Cluster
) -> None:
    server.says(200, {})
    for number in range(cluster.limiter.allowed):
        await cluster.limiter.enter(Priority.READ, f"namespace-{number}", "")
    async with asyncio.timeout(1):
        assert await wiring.cluster_answers(cluster)() is None
