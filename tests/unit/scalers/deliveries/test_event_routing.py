"""Accepted entries become deliveries: what of an event is kept where, and when it is due."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from scalers.deliveries import event_routing
from scalers.deliveries.event_routing import RoutedEvent
from tests.support.event_jobs import spec_of
from tests.support.tables import cases
from tests.unit.events.texts import event
from workers.api.penstock_dev.eventjob import EventJobSpec

ENTRY = "1772366400000-3"
ARRIVED = 1772366400000 * 1000
EVENT = event()
ATTRIBUTES = orjson.dumps(EVENT).decode()
TAKEN = RoutedEvent(ENTRY, "take", "4711", ATTRIBUTES)


def fields(**more: bytes) -> list[bytes]:
    known = {name: text.encode() for name, text in EVENT.items()} | more
    return [each for name, value in known.items() for each in (name.encode(), value)]


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@cases(
    ("attributes alone", spec_of(), {}, TAKEN),
    ("text", spec_of(), {"data": b'{"a": 1}'}, replace(TAKEN, content='t{"a": 1}')),
    ("an empty text", spec_of(), {"data": b""}, replace(TAKEN, content="t")),
    ("bytes", spec_of(), {"data": b"\xff"}, replace(TAKEN, content="b/w==")),
    ("base64", spec_of(), {"data_base64": b"/w=="}, replace(TAKEN, content="b/w==")),
    ("a key", spec_of(concurrency={"orderingKey": "event.source"}), {}, replace(TAKEN, key="/shop")),
    ("a key of null", spec_of(concurrency={"orderingKey": "null"}), {}, replace(TAKEN, key=None)),
    ("a digest", spec_of(dedup={"key": "event.type"}), {}, replace(TAKEN, dedup=sha1("order.placed"))),
    ("a delay", spec_of(delaySeconds=5), {}, replace(TAKEN, due=ARRIVED + 5_000_000)),
    ("not taken", spec_of(filter={"exact": {"type": "order.cancelled"}}), {}, None),
    (
        "a filter that fails", spec_of(filter={"cel": "event.nope == 1"}), {},
        RoutedEvent(ENTRY, "park", "4711", ATTRIBUTES, reason="spec.filter.cel: the event has no nope"),
    ),
)  # fmt: skip
def test_an_entry_is_routed(spec: EventJobSpec, more: dict[str, bytes], found: RoutedEvent | None) -> None:
    assert event_routing.routed(spec, ENTRY, fields(**more)) == found


@cases(
    ("later than the delay", "2026-03-01T12:00:09Z", 1772366409_000_000),
    ("sooner than the delay", "2026-03-01T12:00:02Z", ARRIVED + 5_000_000),
)
def test_the_later_of_delay_and_time_holds(text: str, due: int) -> None:
    assert datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1e6 == ARRIVED
    found = event_routing.routed(spec_of(delaySeconds=5), ENTRY, fields(notbefore=text.encode()))
    assert found is not None
    assert (found.how, found.due) == ("take", due)


def test_an_attribute_that_is_no_text_parks_the_event_and_is_shown() -> None:
    found = event_routing.routed(spec_of(), ENTRY, [*fields(), b"na\xffme", b"va\xfelue", b"data", b"\xff"])
    assert found is not None
    assert (found.how, found.content, found.due) == ("park", "b/w==", 0)
    assert found.reason == r"event.na\xffme: is not UTF-8"
    assert orjson.loads(found.attributes) == {**EVENT, r"na\xffme": r"va\xfelue"}


def test_a_reason_is_one_line_of_five_hundred_characters() -> None:
    found = event_routing.routed(spec_of(), ENTRY, [*fields(), b"a\n b" * 200 + b"\xff", b""])
    assert found is not None
    assert found.reason == ("event." + "a b" * 200)[:500]


def test_half_of_a_pair_of_surrogates_stays_as_it_was_sent() -> None:
    """No text of an expression has one: the library takes it for no text."""
    spec = spec_of(concurrency={"orderingKey": "event.data"}, dedup={"key": "event.data"})
    found = event_routing.routed(spec, ENTRY, fields(data=rb'"\ud800"', datacontenttype=b"application/json"))
    assert found is not None
    assert (found.key, found.dedup) == (r'"\ud800"', sha1(r'"\ud800"'))


def test_the_arguments_of_the_script() -> None:
    routed = RoutedEvent("1-0", "take", "a", "{}", "tx", "", "dd", 7, "why")
    assert routed.arguments == ("1-0", "take", "{}", "tx", "k", "dd", 7, "why", "a")
    assert TAKEN.arguments == (ENTRY, "take", ATTRIBUTES, "", "", "", "", "", "4711")
