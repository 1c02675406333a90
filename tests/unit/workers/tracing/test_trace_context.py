"""W3C trace contexts: what is one, and which ids follow from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import for_each
from workers.tracing import trace_context
from workers.tracing.trace_context import TraceContext

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TEXT = f"00-{TRACE}-{SPAN}-01"


@for_each(
    (TEXT, TraceContext(TRACE, SPAN)),
    (f"00-{TRACE}-{SPAN}-00", TraceContext(TRACE, SPAN, sampled=False)),
    (f"00-{TRACE}-{SPAN}-03", TraceContext(TRACE, SPAN)),
    (f"01-{TRACE}-{SPAN}-01-what-comes-later", TraceContext(TRACE, SPAN)),
    (f"{TEXT}-more", None),
    (f"ff-{TRACE}-{SPAN}-01", None),
    (f"00-{'0' * 32}-{SPAN}-01", None),
    (f"00-{TRACE}-{'0' * 16}-01", None),
    (TEXT.upper(), None),
    (f" {TEXT}", None),
    (f"{TEXT}\n", None),
    ("", None),
    (None, None),
    (7, None),
)
def test_parse(text: object, expected: TraceContext | None) -> None:
    assert trace_context.parse(text) == expected


def test_a_context_is_rendered_as_it_was() -> None:
    assert TraceContext(TRACE, SPAN).text == TEXT
    assert TraceContext(TRACE, SPAN, sampled=False).text == f"00-{TRACE}-{SPAN}-00"


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_derived_spans_are_of_the_trace_and_told_apart_by_their_parts(one: list[str], other: list[str]) -> None:
    context = TraceContext(TRACE, SPAN, sampled=False)
    derived = context.derived(*one)
    assert (derived.trace_id, derived.sampled) == (TRACE, False)
    assert trace_context.parse(derived.text) == derived
    if "\0".join(one) != "\0".join(other):
        assert derived != context.derived(*other)


@given(st.binary(min_size=24, max_size=40))
def test_any_bytes_begin_a_valid_trace(entropy: bytes) -> None:
    found = trace_context.root(entropy)
    assert trace_context.parse(found.text) == found


def test_too_few_bytes_begin_none() -> None:
    with pytest.raises(ValueError, match="24"):
        trace_context.root(b"x" * 23)


ITEM = f'{{"id": "1", "traceparent": "{TEXT}"}}'


@for_each(
    ({"penstock.dev/traceparent": TEXT}, True),
    ({"penstock.dev/item": ITEM, "penstock.dev/item-encoding": "json"}, True),
    ({"penstock.dev/item": ITEM, "penstock.dev/item-encoding": "text"}, False),
    ({"penstock.dev/item": '["traceparent"]', "penstock.dev/item-encoding": "json"}, False),
    ({"penstock.dev/item": '{"traceparent": 1}', "penstock.dev/item-encoding": "json"}, False),
    ({"penstock.dev/item": '{"traceparent"', "penstock.dev/item-encoding": "json"}, False),
    ({"penstock.dev/traceparent": "nonsense"}, False),
    ({}, False),
    (None, False),
)
def test_the_context_of_a_job(annotations: dict[str, str] | None, found: bool) -> None:
    context = trace_context.of_job({"metadata": {"name": "a", "annotations": annotations}})
    assert context == (TraceContext(TRACE, SPAN) if found else None)
