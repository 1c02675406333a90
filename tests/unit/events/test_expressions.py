"""Expressions: what is refused, and the bound on the work of what is not."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.events.texts import scope
from workers.events import expressions
from workers.events.event_scope import DEEPEST
from workers.events.expressions import ExpressionFailed


@cases(
    ("map would make values of any size", "event.data.map(x, x + x)", "no function map"),
    ("map behind a comment", "event.data // '\n.map(x, x + x)", "no function map"),
    ("map behind an escaped quote", r"'\'' + string(event.data.map(x, x))", "no function map"),
    ("map behind a raw text", r"r'\' + string(event.data.map(x, x)) + r'\'", "no function map"),
    ("map behind bytes", r"[b'\'', event.data.map(x, x), b'\'']", "no function map"),
    ("three quotes", '"""a"""', "three quotes"),
    ("three loops", "[1].all(a, [1].all(b, [1].all(c, true)))", "at most two"),
    ("a loop in filter", "[1].filter(a, [1].all(b, true)).size()", "at most two"),
    ("a pattern of the event", "event.type.matches(event.id)", "spelled out"),
    ("a pattern in a loop", "[1].all(a, event.type.matches('x'))", "may not stand"),
    ("a function's pattern", "matches(event.type, 'x')", "spelled out"),
    ("a long pattern", f"event.type.matches('{257 * 'x'}')", "longer than 256"),
    ("a malformed pattern", "event.type.matches('(')", "no regular expression"),
    ("many patterns", " || ".join(["event.type.matches('x')"] * 9), "at most 8"),
    ("deep brackets", "(" * 200 + "1" + ")" * 200, "line 1"),
    ("an unknown variable in a loop", "event.data.all(x, y)", "no variable y"),
)
def test_an_expression_without_a_bound_is_refused(text: str, reason: str) -> None:
    assert reason in (expressions.check(text) or "it is accepted")


@cases(
    ("names of functions in texts", "event.type == 'map(' + \"filter(\""),
    ("a key that is called like a function", "event.data.map == 1"),
    ("loops", "event.data.items.all(i, event.data.items.exists(j, i < j))"),
    ("filter", "event.data.items.filter(i, i.price > 3).size() > 2"),
    ("a pattern", r"event.type.matches('^order\\.')"),
    ("types", "type(event.data.total) == int"),
    ("a comment", "event.id == '1' // map(\n"),
)
def test_what_is_bounded_is_accepted(text: str) -> None:
    assert expressions.check(text) is None


@cases(
    ("a long list", "event.data.exists(x, x < 0)", list(range(300_000))),
    ("a list that is copied", "event.data.filter(x, x < 0).size() > 0", list(range(2000))),
    ("a list in itself", "event.data.exists(x, event.data.exists(y, x + y < 0))", list(range(500))),
    ("texts that grow", "[event.data].exists(x, (" + "+".join(["x"] * 200) + ").size() < 0)", "a" * 100_000),
    (
        "a list in another",
        "event.data.items.exists(x, x in event.data.others)",
        {"items": list(range(2000)), "others": list(range(3000, 5000))},
    ),
    (
        "data beside a list",
        "event.data.items.exists(x, event.data.other == x)",
        {"items": list(range(3000)), "other": ""},
    ),
    (
        "a long text at each",
        "event.data.l.exists(x, event.data.s.contains('b'))",
        {"l": list(range(2000)), "s": "a" * 500_000},
    ),
)
def test_an_event_that_would_be_expensive_fails(text: str, data: Any) -> None:
    assert expressions.check(text) is None
    with pytest.raises(ExpressionFailed, match=r"too much|could make texts"):
        expressions.truth(text, scope(json.dumps(data), datacontenttype="application/json"), "spec.filter.cel")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    data=_JSON,
    text=st.sampled_from(
        [
            *("event.data / event.data", "event.data[0]", "event.data.a.b", "-event.data", "event.data % event.data"),
            *(
                "string(event.data)",
                "int(event.data)",
                "timestamp(event.data)",
                "event.data.exists(x, x == event.data)",
            ),
            *("duration(event.data)", "event.data + event.data", "event.data in event.data", "size(event.data)"),
        ]
    ),
)
def test_any_data_give_a_text_or_fail(data: Any, text: str) -> None:
    try:
        found = expressions.value(text, scope(json.dumps(data), datacontenttype="application/json"), "spec.dedup.key")
    except ExpressionFailed:
        return
    assert found is None or isinstance(found, str)


@cases(
    ("JSON by its media type", {"datacontenttype": "application/json; charset=utf-8", "data": "7"}, 7),
    ("JSON by a suffix", {"datacontenttype": "application/Vnd.x+JSON", "data": "[1]"}, [1]),
    ("an object without a media type", {"data": ' {"a": 1}'}, {"a": 1}),
    ("a number without a media type", {"data": "7"}, "7"),
    ("text", {"datacontenttype": "text/plain", "data": "{}"}, "{}"),
    ("malformed JSON", {"datacontenttype": "application/json", "data": "{"}, "{"),
    ("JSON in base64", {"datacontenttype": "application/json", "data_base64": "eyJhIjoxfQ=="}, {"a": 1}),
    ("bytes", {"data_base64": "/w=="}, b"\xff"),
    ("none", {}, None),
    ("too deep", {"datacontenttype": "application/json", "data": "[" * 2000 + "]" * 2000}, "[" * 2000 + "]" * 2000),
)
def test_data_are_what_their_media_type_says(fields: dict[str, str], data: Any) -> None:
    assert scope(**fields).data == data


@cases(("parsed", DEEPEST), ("text", DEEPEST + 1), ("text that parsed could not be written", 300))
def test_data_of_every_depth_can_be_written(levels: int) -> None:
    text = '{"a":[' * (levels // 2) + "[]" * (levels % 2) + "]}" * (levels // 2)
    found = scope(text, datacontenttype="application/json")
    assert isinstance(found.data, dict) is (levels <= DEEPEST)
    assert orjson.loads(found.structured())["data"] == found.data


def test_an_attribute_may_be_compared_with_every_entry_of_a_long_list() -> None:
    known = scope(json.dumps(list(range(3000))), datacontenttype="application/json")
    assert not expressions.truth("event.data.exists(x, x == event.id)", known, "spec.filter.cel")
