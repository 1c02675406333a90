"""Who may act on the page: requests of other sites, and what the API server's answers become."""

from collections.abc import Mapping
from typing import Any

import pytest

from deploy.page import authorization
from deploy.page.authorization import ALLOWED, PageAuthorization, Refused
from tests.support.tables import cases
from workers.api.kinds import SCHEDULED_JOB
from workers.client.rest import Cluster
from workers.errors import Forbidden, Invalid, NotFound, Unavailable

LOCAL = {"host": "127.0.0.1:8080"}


@cases(
    ("a script of the page", "POST", {**LOCAL, "origin": "http://127.0.0.1:8080"}, (), ""),
    ("a command line", "POST", LOCAL, (), ""),
    ("localhost", "GET", {"host": "localhost:8080"}, (), ""),
    ("IPv6", "GET", {"host": "[::1]:8080"}, (), ""),
    ("a name that is set", "GET", {"host": "Penstock.example.com"}, ("penstock.example.com",), ""),
    ("a link on another site", "GET", {**LOCAL, "sec-fetch-site": "cross-site"}, (), ""),
    ("another name (DNS rebinding)", "GET", {"host": "evil.example:8080"}, (), "Host"),
    ("a name that begins alike", "GET", {"host": "localhost.evil.example"}, (), "Host"),
    ("no host", "GET", {}, (), "Host"),
    ("another origin", "POST", {**LOCAL, "origin": "https://evil.example"}, (), "Origin"),
    ("another port", "POST", {**LOCAL, "origin": "http://127.0.0.1:8081"}, (), "Origin"),
    ("an opaque origin", "POST", {**LOCAL, "origin": "null"}, (), "Origin"),
    ("a malformed origin", "POST", {**LOCAL, "origin": "http://["}, (), "Origin"),
    ("a read by another origin", "GET", {**LOCAL, "origin": "https://evil.example"}, (), "Origin"),
    ("a form of another site", "POST", {**LOCAL, "sec-fetch-site": "cross-site"}, (), "Sec-Fetch-Site"),
    ("a form of a sister site", "POST", {**LOCAL, "sec-fetch-site": "same-site"}, (), "Sec-Fetch-Site"),
)
def test_requests_of_other_sites(method: str, headers: Mapping[str, str], hosts: tuple[str, ...], reason: str) -> None:
    assert authorization.foreign(method, headers, hosts).partition(":")[0] == reason


class Api(Cluster):
    """An API server that answers by path; answers that are errors are raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any, Any]] = []

    async def request(self, method: str, path: str, *, query: Any = None, body: Any = None, headers: Any = None) -> Any:
        self.asked.append((path.rpartition("/")[2], body, headers))
        answer = self.answers[path.rpartition("/")[2]]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def may(answer: Any, token: str = "t") -> Any:
    api = Api(selfsubjectaccessreviews=answer)
    return await PageAuthorization(api).may(token, "patch", SCHEDULED_JOB, "team", "nightly")


@cases(
    ("yes", {"status": {"allowed": True}}, ALLOWED),
    ("no", {"status": {"allowed": False, "reason": "RBAC: no"}}, Refused("RBAC: no")),
    (
        "no reason",
        {"status": {"allowed": False}},
        Refused("the owner of the token may not patch scheduledjobs in namespace team"),
    ),
    ("nothing", {}, Refused("the owner of the token may not patch scheduledjobs in namespace team")),
    ("a text for a boolean", {"status": {"allowed": "true", "reason": "x"}}, Refused("x")),
    ("a wrong token", Forbidden("401", status=401), Refused("the token is not valid")),
    ("reviews are forbidden", Forbidden("no reviews", status=403), Refused("no reviews")),
)
async def test_answers_of_the_api_server(answer: Any, expected: Any) -> None:
    assert await may(answer) == expected


@cases(("away", Unavailable("away")), ("odd", Invalid("odd", status=422)))
async def test_no_answer_is_no_permission(error: Exception) -> None:
    with pytest.raises(Unavailable):
        await may(error)


@cases(("empty", ""), ("two lines", "a\nb"), ("a blank", "a b"), ("not ASCII", "ä"), ("too long", "a" * 20_000))
async def test_a_malformed_token_is_not_sent(token: str) -> None:
    api = Api()
    page = PageAuthorization(api)
    assert await page.may(token, "get", SCHEDULED_JOB, "team", "") == Refused("the token is not valid")
    assert await page.user(token) is None
    assert api.asked == []


async def test_the_review_is_made_with_the_visitors_token_once() -> None:
    api = Api(selfsubjectaccessreviews={"status": {"allowed": True}})
    now = [0.0]
    page = PageAuthorization(api, clock=lambda: now[0])
    for _ in range(3):
        await page.may("mine", "patch", SCHEDULED_JOB, "team", "nightly")
    [(_, body, headers)] = api.asked
    assert headers == {"Authorization": "Bearer mine"}
    assert body["spec"]["resourceAttributes"] == {
        "verb": "patch",
        "group": "penstock.dev",
        "version": "v1alpha1",
        "resource": "scheduledjobs",
        "namespace": "team",
        "name": "nightly",
    }
    await page.may("another's", "patch", SCHEDULED_JOB, "team", "nightly")
    now[0] = 11.0
    await page.may("mine", "patch", SCHEDULED_JOB, "team", "nightly")
    assert len(api.asked) == 3


@cases(
    ("a name", {"selfsubjectreviews": {"status": {"userInfo": {"username": "ann"}}}}, "ann"),
    ("a wrong token", {"selfsubjectreviews": Forbidden("no", status=401)}, None),
    (
        "an old server",
        {"selfsubjectreviews": NotFound("no", status=404), "selfsubjectaccessreviews": {"status": {}}},
        "unknown",
    ),
    (
        "an old server and a wrong token",
        {
            "selfsubjectreviews": NotFound("no", status=404),
            "selfsubjectaccessreviews": Forbidden("no", status=401),
        },
        None,
    ),
)
async def test_names_of_visitors(answers: Mapping[str, Any], user: str | None) -> None:
    assert await PageAuthorization(Api(**answers)).user("token") == user


async def test_no_header_replaces_the_visitors_token() -> None:
    api = Api(x={})
    await PageAuthorization(api).visitor("mine").request("POST", "/x", headers={"Authorization": "Bearer other"})
    assert api.asked == [("x", None, {"Authorization": "Bearer mine"})]
