"""Bodies of requests: what they decode to, and that nothing but JSON's values ever comes out of them."""

from dataclasses import replace
from typing import Any

import pytest

from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.codec.yaml_documents import DEEPEST
from deploy.local.apiserver.http.request import ApiRequest, YamlBody, parse_json
from tests.support.tables import for_each


@for_each((DEEPEST, True), (DEEPEST + 1, False), (1000, False), (5000, False))
def test_json_may_be_nested_only_as_deeply_as_it_can_be_written(depth: int, fine: bool) -> None:
    text = b'{"a":' * (depth - 1) + b"[]" + b"}" * (depth - 1)
    if fine:
        assert parse_json(text)
        return
    with pytest.raises(ApiError) as refused:
        parse_json(text)
    assert refused.value.code == 400


def test_json_may_be_long() -> None:
    assert len(parse_json(b"[" + b"{}," * 5000 + b"{}]")) == 5001


@for_each(
    ("POST", "application/json", b"{}", {}),
    ("POST", "application/yaml", b"# nothing\n[]", []),
    ("POST", "application/merge-patch+json", b"{}", None),
    ("POST", "application/merge-patch+json", b"a: 1", None),
    ("PATCH", "application/yaml", b"a: 1", {"a": 1}),
    ("PATCH", "application/merge-patch+json", b"a: 1", {"a": 1}),
    ("PATCH", "application/merge-patch+json", b' {"a": 1}', {"a": 1}),
    ("PATCH", "application/json-patch+json", b"[]", []),
    ("PATCH", "application/json", b"a: 1", None),
    ("PATCH", "application/json-patch+json", b"- 1", None),
    ("PATCH", "application/yaml", b"a: [", None),
    ("PATCH", "text/plain", b"{}", None),
)
@for_each(True, False)
def test_a_body_is_read_by_its_type(beside: bool, method: str, media: str, body: bytes, document: Any) -> None:
    request = ApiRequest(method, "/", {}, {"content-type": media}, body)
    request = replace(request, yaml=YamlBody.of(body)) if request.is_yaml and beside else request
    if document is not None:
        assert request.document() == document
        return
    with pytest.raises(ApiError) as refused:
        request.document()
    assert refused.value.code == (415 if media == "text/plain" or method == "POST" else 400)
