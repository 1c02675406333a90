"""Our reading of requests beside that of the package `cloudevents`."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from penstock import cloudevents
from scalers.gateway.http_binding import PlainEvent, binding_of, read_events
from scalers.gateway.problem import RequestRefused
from tests.support.tables import cases

PLAIN = PlainEvent("never", "/never", "never", "2026-03-01T08:00:00Z")
JSON = "application/json"

#: Texts without control characters, for which CloudEvents has no place in attributes.
texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
extensions = st.dictionaries(st.from_regex(r"ext[a-z0-9]{1,8}", fullmatch=True), texts, max_size=3)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@st.composite
def made(draw: st.DrawFn) -> CloudEvent:
    attributes: dict[str, Any] = {"specversion": "1.0", "source": "/shop?a=b", "id": draw(texts), "type": draw(texts)}
    attributes |= {"time": draw(moments), **draw(extensions)}
    if draw(st.booleans()):
        attributes["subject"] = draw(texts)
    # The package sends Python's text of other data than objects, in spite of the content type.
    return CloudEvent({**attributes, "datacontenttype": JSON}, draw(st.dictionaries(texts, values, max_size=3)))


def ours(message: http.HTTPMessage) -> dict[str, str]:
    headers = [(name.lower().encode(), value.encode()) for name, value in message.headers.items()]
    [event] = read_events(binding_of(headers), message.body, PLAIN)
    return event


@given(made())
def test_what_the_package_sends_is_read_as_it_was(event: CloudEvent) -> None:
    for message in (http.to_binary(event, JSONFormat()), http.to_structured(event, JSONFormat())):
        found = ours(message)
        assert json.loads(found.pop("data")) == event.get_data()
        time = found.pop("time")
        assert datetime.fromisoformat(time) == event.get_time()
        expected = {name: value for name, value in event.get_attributes().items() if name != "time"}
        assert found == expected
        assert cloudevents.wrong({**found, "time": time}) is None


@given(made())
def test_both_read_the_same_of_the_same_request(event: CloudEvent) -> None:
    message = http.to_binary(event, JSONFormat())
    theirs = http.from_http(message, JSONFormat())
    found = ours(message)
    assert {name: value for name, value in found.items() if name not in ("data", "time")} == {
        name: value for name, value in theirs.get_attributes().items() if name != "time"
    }
    assert json.loads(found["data"]) == theirs.get_data()


BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "placed"}


@cases(
    ("quotes are left in the value", {**BINARY, "ce-subject": '"quoted"'}, b"", "quoted"),
    ("an id is made up", {key: BINARY[key] for key in BINARY if key != "ce-id"}, b"", None),
    ("the source is not checked", {**BINARY, "ce-source": "no uri"}, b"", None),
    ("bytes that are no UTF-8 are replaced", {**BINARY, "ce-subject": "%ff"}, b"", None),
)
def test_where_the_package_is_not_what_the_specification_says(headers: dict, body: bytes, found: str | None) -> None:
    """The reasons why ours stays; one that falls with a later version of the package fails here."""
    message = http.HTTPMessage(headers, body)
    theirs = http.from_http(message, JSONFormat())
    if found is None:
        with pytest.raises(RequestRefused):
            ours(message)
    else:
        assert ours(message)["subject"] == found
        assert theirs.get_subject() != found


def test_the_package_has_no_batches() -> None:
    batch = http.HTTPMessage({"content-type": "application/cloudevents-batch+json"}, b"[]")
    with pytest.raises((CloudEventValidationError, AttributeError, TypeError, ValueError)):
        http.from_http(batch, JSONFormat())
    assert read_events(binding_of([(b"content-type", b"application/cloudevents-batch+json")]), b"[]", PLAIN) == []
