"""Bodies of requests: what they decode to, and that nothing but JSON's values ever comes out of them."""

from typing import Any

import pytest

from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.http.request import DEEPEST, parse_json, parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(b"day: 2026-01-01", {"day": "2026-01-01"}, id="a date is a text"),
        pytest.param(b"1: one", {"1": "one"}, id="a key is a text"),
        pytest.param(b"a: .nan", {"a": None}, id="a number that is none"),
        pytest.param(b"- true\n- yes", [True, True], id="a list"),
    ],
)
def test_yaml_is_read_as_json(text: bytes, value: Any) -> None:
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a: [", id="broken"),
        pytest.param(b"a: !!binary AAAA", id="bytes"),
        pytest.param(b"a: !!set {b}", id="a set"),
        pytest.param(b"a: 1" + b"0" * 40, id="a number beyond all bounds"),
        pytest.param(b"a: &x [*x]", id="a list in itself"),
        pytest.param(b"[" * 5000, id="too deep"),
        pytest.param(b"a: !!python/object:os.system {}", id="an object of another language"),
    ],
)
def test_what_json_cannot_say_is_refused(text: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        parse_yaml(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(("depth", "fine"), [(DEEPEST, True), (DEEPEST + 1, False), (1000, False), (5000, False)])
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
