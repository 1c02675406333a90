"""The route of an event: its filter, its keys and its time."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.events.texts import event, spec
from workers.events import routing
from workers.events.expressions import ExpressionFailed
from workers.events.routing import NotTaken, Route

ARRIVED = datetime(2026, 2, 1, tzinfo=UTC)
TAKEN = Route(None, None, None)


@cases(
    ("exact", {"exact": {"type": "order.placed"}}, True),
    ("exact is case-sensitive", {"exact": {"type": "Order.placed"}}, False),
    ("exact compares all its attributes", {"exact": {"type": "order.placed", "source": "/other"}}, False),
    ("exact of a missing attribute", {"exact": {"subject": "x"}}, False),
    ("prefix", {"prefix": {"type": "order."}}, True),
    ("prefix is no pattern", {"prefix": {"type": "o.der"}}, False),
    ("prefix of a missing attribute", {"prefix": {"subject": "x"}}, False),
    ("suffix", {"suffix": {"type": ".placed"}}, True),
    ("suffix of another text", {"suffix": {"type": ".cancelled"}}, False),
    ("all of them", {"all": [{"prefix": {"type": "order."}}, {"exact": {"source": "/shop"}}]}, True),
    ("all but one", {"all": [{"prefix": {"type": "order."}}, {"exact": {"source": "/x"}}]}, False),
    ("any of them", {"any": [{"exact": {"source": "/x"}}, {"prefix": {"type": "order."}}]}, True),
    ("none of any", {"any": [{"exact": {"source": "/x"}}, {"exact": {"id": "1"}}]}, False),
    ("not", {"not": {"exact": {"source": "/x"}}}, True),
    ("not of a missing attribute", {"not": {"exact": {"subject": "x"}}}, True),
    ("not of what holds", {"not": {"prefix": {"source": "/"}}}, False),
    ("an expression", {"cel": "event.data.total > 10 && event.type.startsWith('order.')"}, True),
    ("an expression that is false", {"cel": "event.data.total > 12"}, False),
    ("an expression about what is missing", {"cel": "has(event.subject)"}, False),
    ("expressions in others", {"not": {"all": [{"cel": "event.data.total == 12"}]}}, False),
)
def test_a_filter_takes_or_leaves_an_event(condition: Any, taken: bool) -> None:
    found = routing.route(spec(filter=condition), event('{"total": 12}'), ARRIVED)
    assert found == (TAKEN if taken else NotTaken())


ATTRIBUTES, TEXTS = ("type", "source", "subject"), st.sampled_from(("", "a", "ab", "b", "order.placed", "/shop", "A"))
COMPARISONS = {"exact": str.__eq__, "prefix": str.startswith, "suffix": str.endswith}


def holds(condition: Any, attributes: Mapping[str, str]) -> bool:
    """Returns whether a filter takes an event, by the words of the specification."""
    [(name, inner)] = condition.items()
    if name == "not":
        return not holds(inner, attributes)
    if name in ("all", "any"):
        return {"all": all, "any": any}[name](holds(each, attributes) for each in inner)
    compare = COMPARISONS[name]
    return all(each in attributes and compare(attributes[each], text) for each, text in inner.items())


@given(
    st.recursive(
        st.tuples(
            st.sampled_from(tuple(COMPARISONS)),
            st.dictionaries(st.sampled_from(ATTRIBUTES), TEXTS.filter(bool), min_size=1),
        ),
        lambda each: (
            st.tuples(st.just("not"), each.map(lambda one: dict([one])))
            | st.tuples(
                st.sampled_from(("all", "any")), st.lists(each.map(lambda one: dict([one])), min_size=1, max_size=4)
            )
        ),
        max_leaves=12,
    ).map(lambda one: dict([one])),
    st.fixed_dictionaries({"type": TEXTS.filter(bool)}, optional={"subject": TEXTS.filter(bool)}),
)
def test_a_filter_means_what_its_parts_mean(condition: Any, attributes: dict[str, str]) -> None:
    fields = event(**attributes)
    found = routing.route(spec(filter=condition), fields, ARRIVED)
    assert found == (TAKEN if holds(condition, fields) else NotTaken())


@cases(
    ("a text", "event.data.customer", '{"customer": "c-1"}', "c-1"),
    ("a whole number", "event.data.customer", '{"customer": 7}', "7"),
    ("a number", "event.data.customer", '{"customer": 7.5}', "7.5"),
    ("true", "event.data.customer", '{"customer": true}', "true"),
    ("null is no key", "event.data.customer", '{"customer": null}', None),
    ("an attribute", "event.source + '/' + event.type", None, "/shop/order.placed"),
)
def test_keys_are_texts(key: str, data: str | None, found: str | None) -> None:
    wanted = spec(concurrency={"orderingKey": key}, dedup={"key": key})
    assert routing.route(wanted, event(data), ARRIVED) == Route(found, found, None)


@cases(
    ("missing", "event.data.customer", "{}", "the event has no customer"),
    ("no data", "event.data.customer", None, "the event has no data"),
    ("an object", "event.data", "{}", "gave an object"),
    ("a list", "event.data.customer", '{"customer": []}', "gave a list"),
    ("not finite", "event.data.customer * 1e300", '{"customer": 1e300}', "not finite"),
    ("too long", "event.data.customer", '{"customer": "' + 1025 * "x" + '"}', "more than 1024 bytes"),
)
def test_a_key_without_a_text_names_its_field_and_the_reason(key: str, data: str | None, reason: str) -> None:
    with pytest.raises(ExpressionFailed, match=reason) as caught:
        routing.route(spec(concurrency={"orderingKey": key}), event(data), ARRIVED)
    assert caught.value.field == "spec.concurrency.orderingKey"


@cases(("any", "any"), ("all", "all"))
def test_a_failed_filter_names_its_place(name: str) -> None:
    first = {"exact": {"id": "1" if name == "any" else "4711"}}
    condition = {name: [first, {"not": {"cel": "event.data.total"}}]}
    with pytest.raises(ExpressionFailed, match="gave a number") as caught:
        routing.route(spec(filter=condition), event('{"total": 1}'), ARRIVED)
    assert caught.value.field == f"spec.filter.{name}[1].not.cel"


def test_an_event_may_name_its_time() -> None:
    found = routing.route(spec(), event(notbefore="2026-03-01T08:00:00+01:00"), ARRIVED)
    assert found == Route(None, None, datetime(2026, 3, 1, 7, tzinfo=UTC))


@cases(
    ("no instant", "tomorrow", "no RFC 3339 instant"),
    ("too late", "2027-02-02T00:00:00.001Z", "more than 366 days after the event's arrival"),
    ("in a thousand years", "3026-03-01T00:00:00Z", "more than 366 days"),
)
def test_an_event_whose_time_cannot_be_waited_for_is_told_why(text: str, reason: str) -> None:
    with pytest.raises(ExpressionFailed, match=reason) as caught:
        routing.route(spec(), event(notbefore=text), ARRIVED)
    assert caught.value.field == "event.notbefore"
    assert isinstance(routing.route(spec(), event(notbefore="2027-02-02T00:00:00Z"), ARRIVED), Route)


@cases(
    ("syntax", {"filter": {"cel": "event.type =="}}, "spec.filter.cel", "line 1, column 14"),
    ("an attribute in upper case", {"filter": {"exact": {"Type": "x"}}}, "spec.filter.exact", "no attribute"),
    ("data is no attribute", {"filter": {"not": {"prefix": {"data": "x"}}}}, "spec.filter.not.prefix", "no attribute"),
    ("an empty text", {"filter": {"suffix": {"type": ""}}}, "spec.filter.suffix.type", "must not be empty"),
    (
        "the ordering key",
        {"concurrency": {"orderingKey": "evnt.id"}},
        "spec.concurrency.orderingKey",
        "no variable evnt",
    ),
    ("the key of duplicates", {"dedup": {"key": "now()"}}, "spec.dedup.key", "no function now"),
)
def test_what_can_never_be_evaluated_is_a_problem_of_its_field(fields: Any, field: str, reason: str) -> None:
    [(place, text)] = routing.problems(spec(**fields))
    assert place == field
    assert reason in text


def test_filters_have_a_bound() -> None:
    deep: Any = {"exact": {"id": "1"}}
    for _ in range(20):
        deep = {"not": deep}
    assert [text for _, text in routing.problems(spec(filter=deep))] == ["is nested deeper than 16 levels"]
    wide = {"any": [{"exact": {"id": "1"}}] * 300}
    assert [text for _, text in routing.problems(spec(filter=wide))] == ["has more than 256 conditions"]
