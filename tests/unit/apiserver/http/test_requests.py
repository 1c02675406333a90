"""Bodies of requests: what they decode to, and that nothing but JSON's values ever comes out of them."""

from typing import Any

import pytest

from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.http.request import DEEPEST, parse_json, parse_yaml
from tests.unit.tables import cases


@cases(
    ("text", "value"),
    {
        "a date is a text": (b"day: 2026-01-01", {"day": "2026-01-01"}),
        "a key is a text": (b"1: one", {"1": "one"}),
        "a number that is none": (b"a: .nan", {"a": None}),
        "a list": (b"- true\n- yes", [True, True]),
    },
)
def test_yaml_is_read_as_json(text: bytes, value: Any) -> None:
    assert parse_yaml(text) == value


@cases(
    "text",
    {
        "broken": b"a: [",
        "bytes": b"a: !!binary AAAA",
        "a set": b"a: !!set {b}",
        "a number beyond all bounds": b"a: 1" + b"0" * 40,
        "a list in itself": b"a: &x [*x]",
        "too deep": b"[" * 5000,
        "an object of another language": b"a: !!python/object:os.system {}",
    },
)
def test_yaml_that_json_cannot_express_is_refused(text: bytes) -> None:
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
