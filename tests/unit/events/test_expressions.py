"""Expressions: what is refused, and the bound on the work of what is not."""

import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.events.texts import scope
from workers.events import event_scope, expression_text, expressions
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
    (
        "a very long text at each of a few",
        "event.data.l.exists(x, event.data.s.contains('b'))",
        {"l": [1, 2, 3], "s": "a" * 5_000_000},
    ),
)
def test_an_event_that_would_be_expensive_fails(text: str, data: Any) -> None:
    assert expressions.check(text) is None
    with pytest.raises(ExpressionFailed, match=r"too much|could make texts"):
        expressions.truth(text, scope(json.dumps(data), datacontenttype="application/json"), "spec.filter.cel")


@cases(
    ("unknown function", "foo(1)", "there is no function foo"),
    ("unknown variable", "zzz == 1", "there is no variable zzz; the event is `event`"),
    ("syntax", "event.type == == 1", "line 1, column 15: Syntax error: extraneous input"),
    ("a malformed pattern", "event.type.matches('(')", "matches: '(' is no regular expression that RE2 accepts"),
    ("three single quotes", "'''a'''", "texts in three quotes are not supported"),
)
def test_a_problem_begins_with_its_cause(text: str, reason: str) -> None:
    problem = expressions.check(text) or ""
    assert problem.startswith(reason)
    assert len(problem) <= 300
    assert "\n" not in problem


ANY = scope(
    '{"n": 1.5, "l": [1, 2], "o": {}, "b": true, "t": "x", "wei": 12345678901234567890123}',
    datacontenttype="application/json",
)


@cases(
    ("a number", "event.data.n", "gave a number; true or false is needed"),
    ("no number", "0.0 / 0.0", "gave a number that is not finite; true or false is needed"),
    ("a text", "event.data.t", "gave a text; true or false is needed"),
    ("null", "null", "gave null; true or false is needed"),
    ("an object", "event.data.o", "gave an object; true or false is needed"),
    ("an attribute that is not there", "event.nope == 1", "the event has no nope"),
    ("an entry that is not there", "event.data.l[7] == 1", "index out of bounds: 7"),
    ("an expression that is refused", "foo(1)", "there is no function foo"),
)
def test_what_a_condition_gave_is_told(text: str, message: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        expressions.truth(text, ANY, "spec.filter.cel")
    assert (failed.value.field, failed.value.message) == ("spec.filter.cel", message)
    assert str(failed.value) == f"spec.filter.cel: {message}"


@cases(
    ("a list", "event.data.l", "gave a list; a text, a number, true, false or null is needed"),
    ("no number", "1.0 / 0.0", "gave a number that is not finite; a text, a number, true, false or null is needed"),
    ("a long text", f"'{1025 * 'x'}'", "gave a text of more than 1024 bytes"),
    ("a long number", "event.data.wei", "gave a number of more than 64 bits, whose last digits CEL drops; push a text"),
    ("one below zero", "-1.0e19", "gave a number of more than 64 bits, whose last digits CEL drops; push a text"),
)
def test_what_a_key_gave_is_told(text: str, message: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        expressions.value(text, ANY, "spec.dedup.key")
    assert failed.value.message == message


@for_each(
    ("event.data.n", "1.5"), ("event.data.b", "true"), ("null", None), (f"'{1024 * 'x'}'", 1024 * "x"), ("7 + 1", "8")
)  # fmt: skip
def test_a_key_is_a_text(text: str, key: str | None) -> None:
    assert expressions.value(text, ANY, "spec.dedup.key") == key


@cases(
    ("a comment", "event.id == 'a' // [1].all(x\n", "operations=6"),
    (
        "a loop over the data", "event.data.l.all(x, x > 1 + 2 && event.data.n > 1)",
        "loops=1 additions=1 elements=1 operations=25 bound=x called=all needs_data rescans",
    ),
    (
        "loops in each other, brackets in texts",
        "[1, {'a': 'b)'}].exists(i, [3].exists_one(j, i == j)) || event['data'] == 1",
        "loops=2 elements=3 operations=37 bound=i,j called=exists,exists_one needs_data",
    ),
    (
        "loops side by side", "[1].exists(i, (i) == 1) && [1].exists(j, j == 1)",
        "loops=1 elements=2 operations=30 bound=i,j called=exists",
    ),
    (
        "raw texts, bytes and a pattern", "r'\\' + b\"x\" + event.type.matches('^a')",
        "additions=2 operations=12 called=matches patterns='^a'",
    ),
    ("the event as a whole", "event", "operations=1 needs_data"),
    ("an entry of what is called like a function", "all[0] == 1", "operations=7"),
)  # fmt: skip
def test_the_shape_of_an_expression(text: str, told: str) -> None:
    shape = expression_text.shape(text)
    numbers = {name: getattr(shape, name) for name in ("loops", "additions", "elements", "operations")}
    names = {name: ",".join(sorted(getattr(shape, name))) for name in ("bound", "called", "patterns")}
    flags = [name for name in ("needs_data", "rescans") if getattr(shape, name)]
    assert [*(f"{name}={value}" for name, value in (numbers | names).items() if value), *flags] == told.split()


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
    # As the gateway and penstock.client read it, or a Job would get an object as a text in quotes.
    ("a suffix alone", {"datacontenttype": "order+json", "data": "[1]"}, [1]),
    ("an object without a media type", {"data": ' {"a": 1}'}, {"a": 1}),
    ("a list without a media type", {"data": "[1]"}, [1]),
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


@cases(("text", {"data": "x"}), ("base64", {"data_base64": "/w=="}))
def test_data_are_no_attribute(fields: dict[str, str]) -> None:
    assert set(scope(**fields).attributes) == {"specversion", "id", "source", "type"}
    with pytest.raises(ExpressionFailed):
        expressions.truth("event.data_base64 == '/w=='", scope(**fields), "spec.filter.cel")


def test_a_list_that_an_expression_reads_once_may_be_long() -> None:
    known = scope(json.dumps(list(range(60_000))), datacontenttype="application/json")
    assert not expressions.truth("event.data.exists(x, x < 0)", known, "spec.filter.cel")


def test_texts_that_an_addition_makes_of_a_large_event_fit() -> None:
    assert expressions.truth("event.id + event.id == '47114711'", scope("a" * 17_000_000), "spec.filter.cel")


def test_bytes_stay_base64_in_the_structured_form() -> None:
    bytes_ = scope(data_base64="/w==")
    assert orjson.loads(bytes_.structured()) == {**bytes_.attributes, "data_base64": "/w=="}


LONG = '{"wei":12345678901234567890123,"list":[18446744073709551616,-9223372036854775809],"price":1.5}'


@cases(("text", {"data": LONG}), ("base64", {"data_base64": base64.b64encode(LONG.encode()).decode()}))
def test_long_numbers_keep_their_digits(fields: dict[str, str]) -> None:
    found = scope(**fields, datacontenttype="application/json")
    assert event_scope.as_json(found.exact_data) == LONG
    assert ("data" in fields) == found.structured().endswith(f'"data":{LONG}}}')


@cases(
    ("the data once", "event.data.exists(x, x < 0)", ""),
    ("the data at each", "event.data.exists(x, event.data.size() < x)", ", and event.data is read at each"),
)
def test_the_size_of_what_is_too_much_is_told(text: str, more: str) -> None:
    known = scope(json.dumps(list(range(300_000))), datacontenttype="application/json")
    with pytest.raises(ExpressionFailed) as failed:
        expressions.truth(text, known, "spec.filter.cel")
    assert failed.value.message == (
        f"would do too much: the largest list or object of this event has 300000 entries{more}"
    )


def test_data_may_be_read_again_at_each_entry_of_a_short_list() -> None:
    known = scope(json.dumps([1, 2, 3]), datacontenttype="application/json")
    assert expressions.truth("event.data.exists(x, event.data.exists(y, x + y == 6))", known, "spec.filter.cel")


@cases(("parsed", DEEPEST), ("text", DEEPEST + 1), ("text that parsed could not be written", 300))
def test_data_of_every_depth_can_be_written(levels: int) -> None:
    text = '{"a":[' * (levels // 2) + "[]" * (levels % 2) + "]}" * (levels // 2)
    found = scope(text, datacontenttype="application/json")
    assert isinstance(found.data, dict) is (levels <= DEEPEST)
    assert orjson.loads(found.structured())["data"] == found.data


def test_an_attribute_may_be_compared_with_every_entry_of_a_long_list() -> None:
    known = scope(json.dumps(list(range(3000))), datacontenttype="application/json")
    assert not expressions.truth("event.data.exists(x, x == event.id)", known, "spec.filter.cel")
