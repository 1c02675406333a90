"""Paths beside resources, and methods that they do not have: both servers answer with the same code and body."""

import pytest

from tests.integration.apiserver.client import Api
from tests.support.tables import cases

JSON, TEXT = "application/json", "text/plain; charset=utf-8"


@cases(
    ("version", "/version", 405, JSON, "Status"),
    ("below the version", "/version/x", 404, JSON, "Status"),
    ("versions of the core", "/api", 405, JSON, "Status"),
    ("resources of the core", "/api/v1", 405, JSON, "Status"),
    ("another version of the core", "/api/v2", 404, JSON, "Status"),
    ("groups", "/apis", 200, JSON, "APIGroupList"),
    ("a group", "/apis/batch", 200, JSON, "APIGroup"),
    ("resources of a group", "/apis/batch/v1", 405, JSON, "Status"),
    ("another version of a group", "/apis/batch/v7", 404, JSON, "Status"),
    ("another group", "/apis/none", 404, TEXT, ""),
    ("a version of another group", "/apis/none/v1", 404, TEXT, ""),
    ("another path", "/nothing/else", 404, JSON, "paths"),
    ("another check of health", "/readyz/nope", 404, JSON, "paths"),
    ("another document", "/openapi/v9", 404, JSON, "paths"),
    ("another resource", "/api/v1/nothing", 404, JSON, "Status"),
    ("the index", "/", 200, JSON, "paths"),
    ("a check of health", "/readyz/ping", 200, TEXT, ""),
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_a_path_answers_a_method_as_on_a_real_server(
    path: str, code: int, media: str, body: str, method: str, api: Api
) -> None:
    answer = api(method, path)
    if method == "GET" and code == 405:
        assert answer.code == 200
        return
    assert (answer.code, answer.headers["content-type"]) == (code, media)
    if method == "HEAD" or media == TEXT:
        return
    if body == "paths":
        assert "/version" in answer.body["paths"]
    else:
        assert answer.body["kind"] == body
        assert answer.body.get("code", 200) == code
