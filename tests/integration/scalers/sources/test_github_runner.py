"""The `github-runner` trigger against a fake of GitHub's API."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.http.github_runner import GitHubRunner
from tests.support.servers import answering
from tests.support.tables import cases, for_each

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def job(status: str = "queued", *labels: str) -> dict[str, Any]:
    return {"status": status, "labels": list(labels)}


@dataclass
class Fake:
    """GitHub with some repositories, each with runs by their ids, each with its state and jobs.

    size: entries of a page. limited: headers of the refusal that every request gets. token: what is accepted.
    """

    url: str = ""
    repos: dict[str, dict[int, tuple[str, list[dict[str, Any]]]]] = field(default_factory=dict)
    size: int = 100
    status: int = 200
    limited: dict[str, str] = field(default_factory=dict)
    token: str = "hush"
    lasts: float = 3600
    asked: list[web.BaseRequest] = field(default_factory=list)
    told: list[int] = field(default_factory=list)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        response = self._respond(request)
        self.told.append(response.status)
        return response

    def _respond(self, request: web.BaseRequest) -> web.Response:
        shown = request.headers["Authorization"].removeprefix("Bearer ")
        if request.path == "/api/app/installations/7/access_tokens" and request.method == "POST":
            claims = jwt.decode(shown, KEY.public_key(), algorithms=["RS256"])
            assert claims["iss"] == "42"
            ends = datetime.fromtimestamp(time.time() + self.lasts, UTC)
            return web.json_response({"token": self.token, "expires_at": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}, status=201)
        if shown != self.token:
            return web.Response(status=401)
        if self.status != 200:
            return web.Response(status=self.status, headers=self.limited)
        match request.path.strip("/").split("/")[1:]:
            case ["orgs" | "users", "acme", "repos"]:
                return self._page(request, "", [{"name": name} for name in self.repos])
            case ["repos", "acme", repo, "actions", "runs"] if repo in self.repos:
                runs = [{"id": id, "status": status} for id, (status, _) in self.repos[repo].items()]
                return self._page(request, "workflow_runs", [r for r in runs if r["status"] == request.query["status"]])
            case ["repos", "acme", repo, "actions", "runs", id, "jobs"]:
                return self._page(request, "jobs", self.repos[repo][int(id)][1])
        return web.Response(status=404)

    def _page(self, request: web.BaseRequest, inside: str, entries: list[Any]) -> web.Response:
        number = int(request.query["page"])
        shown = entries[(number - 1) * self.size : number * self.size]
        headers = {"ETag": f'W/"{hash(str((inside, shown))):x}"'}
        if len(entries) > number * self.size:
            headers["Link"] = f'<{self.url}?page={number + 1}>; rel="next", <{self.url}>; rel="last"'
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.json_response({inside: shown} if inside else shown, headers=headers)


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    server = Fake()
    async with answering(server.answer) as url:
        server.url = f"{url}/api"
        yield server


def scaler(fake: Fake, authentication: dict[str, str] | None = None, **metadata: str) -> GitHubRunner:
    metadata = {"githubApiURL": fake.url, "owner": "acme", "runnerScope": "org", **metadata}
    return GitHubRunner.parse(
        Trigger(0, "t", metadata=metadata, authentication=authentication or {"personalAccessToken": "hush"})
    )


async def count(connections: Connections, scaler: GitHubRunner) -> Any:
    [answer] = await GitHubRunner.read([scaler], connections)
    return answer.value if isinstance(answer, Measure) else answer


@for_each(("org", "orgs"), ("ent", "orgs"), ("repo", "users"))
async def test_jobs_of_all_repositories_of_an_owner(
    scope: str, kind: str, fake: Fake, connections: Connections
) -> None:
    fake.repos = {
        "one": {1: ("queued", [job(), job("completed")]), 2: ("in_progress", [job("in_progress"), job("waiting")])},
        "two": {3: ("completed", [job()]), 4: ("queued", [job("queued", "self-hosted"), job("queued", "gpu")])},
        "none": {},
    }
    assert await count(connections, scaler(fake, runnerScope=scope)) == 3.0
    assert fake.asked[0].path == f"/api/{kind}/acme/repos"
    assert {request.headers["X-GitHub-Api-Version"] for request in fake.asked} == {"2022-11-28"}


async def test_only_the_repositories_that_are_named_are_asked(fake: Fake, connections: Connections) -> None:
    fake.repos = {"one": {1: ("queued", [job()])}, "two": {2: ("queued", [job()])}}
    assert await count(connections, scaler(fake, repos="two")) == 1.0
    assert not [request for request in fake.asked if "/one/" in request.path or request.path.endswith("/repos")]


async def test_every_page_is_read(fake: Fake, connections: Connections) -> None:
    fake.size = 2
    fake.repos = {f"repo-{n}": {n: ("queued", [job()] * 3)} for n in range(5)}
    fake.repos["repo-0"] |= {100 + n: ("queued", [job()]) for n in range(4)}
    assert await count(connections, scaler(fake)) == 19.0


@cases(
    ("none", 0, "1", False),
    ("as many as the target", 1, "1", True),
    ("below the target", 1, "2", False),
    ("above the target", 3, "2", True),
)
async def test_active_from_the_target_on(
    jobs: int, target: str, active: bool, fake: Fake, connections: Connections
) -> None:
    fake.repos = {"one": {1: ("queued", [job()] * jobs)}}
    answers = await GitHubRunner.read([scaler(fake, targetWorkflowQueueLength=target)], connections)
    assert answers == [Measure(float(jobs), active)]


async def test_what_has_not_changed_is_not_sent_again(fake: Fake, connections: Connections) -> None:
    fake.size = 2
    fake.repos = {"one": {1: ("queued", [job()] * 5), 2: ("queued", [job()])}}
    asking = scaler(fake, enableEtags="true")
    assert await count(connections, asking) == 6.0
    assert set(fake.told) == {200}
    first = len(fake.told)
    assert await count(connections, asking) == 6.0
    assert fake.told[first:] == [304] * first
    fake.repos["one"][2] = ("queued", [])
    assert await count(connections, asking) == 5.0
    assert fake.told.count(200) == first + 1


async def test_without_etags_everything_is_sent(fake: Fake, connections: Connections) -> None:
    fake.repos = {"one": {1: ("queued", [job()])}}
    for _ in range(2):
        assert await count(connections, scaler(fake)) == 1.0
    assert set(fake.told) == {200}


@cases(
    ("until a time", 403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}),
    ("for so many seconds", 429, {"Retry-After": "3600"}),
)
async def test_while_the_rate_limit_is_exhausted_the_last_count_holds(
    status: int, headers: dict[str, str], fake: Fake, connections: Connections
) -> None:
    fake.repos = {"one": {1: ("queued", [job()] * 3)}}
    assert await count(connections, scaler(fake)) == 3.0
    fake.status, fake.limited, fake.repos = status, headers, {}
    asked = len(fake.asked)
    assert await count(connections, scaler(fake)) == 3.0
    assert len(fake.asked) == asked + 1
    assert await count(connections, scaler(fake)) == 3.0
    assert len(fake.asked) == asked + 1, "GitHub is not asked before the time"
    other = await count(connections, scaler(fake, labels="gpu"))
    assert isinstance(other, SourceError)
    assert "rate limit is exhausted" in str(other)


async def test_an_exhausted_limit_that_is_over_is_forgotten(fake: Fake, connections: Connections) -> None:
    fake.repos = {"one": {1: ("queued", [job()])}}
    fake.status, fake.limited = 403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}
    refused = await count(connections, scaler(fake))
    assert str(refused).endswith("answered 403")
    fake.status = 200
    assert await count(connections, scaler(fake)) == 1.0


@cases(
    ("no owner", {"owner": "nobody"}, 200, "there is no owner nobody"),
    ("no repository", {"repos": "gone"}, 200, "there is no repository acme/gone"),
    ("a failure", {}, 500, "answered 500"),
    ("no answer", {}, 204, "is not one of GitHub"),
)
async def test_what_is_unknown_is_not_zero(
    metadata: dict[str, str], status: int, complaint: str, fake: Fake, connections: Connections
) -> None:
    fake.status = status
    answer = await count(connections, scaler(fake, **metadata))
    assert isinstance(answer, SourceError)
    assert complaint in str(answer)


async def test_an_app_gets_a_token_and_keeps_it(fake: Fake, connections: Connections) -> None:
    fake.repos, fake.token = {"one": {1: ("queued", [job()])}}, "of-the-app"
    asking = scaler(fake, {"appKey": PEM}, applicationID="42", installationID="7")
    for _ in range(2):
        assert await count(connections, asking) == 1.0
    assert [request.method for request in fake.asked].count("POST") == 1


async def test_an_apps_token_is_replaced_before_it_ends(fake: Fake, connections: Connections) -> None:
    fake.repos, fake.lasts = {"one": {}}, 30
    asking = scaler(fake, {"appKey": PEM}, applicationID="42", installationID="7")
    assert await count(connections, asking) == 0.0
    assert all(one.method == "POST" for one in fake.asked[::2])


@cases(("old enough", 0.0, 1.0), ("just issued", 60.0, None))
async def test_an_apps_token_that_is_refused_is_replaced_unless_it_is_new(
    new: float, replaced: float | None, fake: Fake, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalers.sources.http.github_api.NEW", new)
    fake.repos = {"one": {1: ("queued", [job()])}}
    asking = scaler(fake, {"appKey": PEM}, applicationID="42", installationID="7")
    assert await count(connections, asking) == 1.0
    fake.token = "of-another-day"
    assert str(await count(connections, asking)).endswith("answered 401")
    later = await count(connections, asking)
    assert later == replaced if replaced else str(later).endswith("answered 401")
    assert [request.method for request in fake.asked].count("POST") == (2 if replaced else 1)


async def test_a_wrong_token_is_an_error_that_does_not_tell_it(fake: Fake, connections: Connections) -> None:
    answer = await count(connections, scaler(fake, {"personalAccessToken": "wrong-one"}))
    assert str(answer).endswith("answered 401")
