"""Parameters of the `push` trigger, and what an event is."""

from typing import Any

import pytest

from penstock import cloudevents
from penstock.parameters import SettingsError, Trigger
from scalers.sources.events.push import Push
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.own_broker import OwnBroker, own_broker
from scheduler.broker.address import BrokerTLS
from tests.support.tables import cases, for_each

OWN = "redis://:hush@broker:1/2"


def trigger(*, broker: str = OWN, authentication: dict[str, str] | None = None, **metadata: str) -> Trigger:
    return Trigger(
        *(3, "push"),
        metadata=metadata,
        authentication=authentication or {},
        namespace="team",
        owner="orders",
        broker=broker,
        prefix="penstock",
    )


def scaler(**more: Any) -> Push:
    return Push.parse(trigger(**more))


def test_no_text_of_a_scaler_shows_a_secret() -> None:
    found = scaler()
    assert "hush" not in f"{found} {found!r} {found.server} {found.server!r} {trigger()!r}"


@cases(
    ("Penstock's own broker", {}, own_broker(OWN, "penstock")),
    ("with TLS", {"broker": "rediss://b"}, own_broker("rediss://b", "penstock")),
    ("behind sentinels", {"broker": "sentinel://b?master=m"}, own_broker("sentinel://b?master=m", "penstock")),
    ("another server", {"address": "a:1"}, RedisServer("a", 1)),
    ("by host and port", {"host": "a", "port": "1"}, RedisServer("a", 1)),
    ("without a broker of one's own", {"address": "a:1", "broker": ""}, RedisServer("a", 1)),
)
def test_where_the_intake_is(more: dict[str, str], server: RedisServer) -> None:
    assert scaler(**more).server == server


def test_the_broker_is_reached_as_its_url_says() -> None:
    found = scaler(broker="sentinel://:hush@b/2?master=m&ssl=true&ssl_ca_certs=/ca.pem").server
    assert isinstance(found, OwnBroker)
    assert (found.address.master, found.address.database, found.address.password) == ("m", 2, "hush")
    assert found.address.tls == BrokerTLS("/ca.pem")
    assert found.database == 2, "whose keyspace notifications are followed"


@cases(
    ("nowhere", {"broker": ""}, "address", "is required"),
    ("a broker that cannot be measured", {"broker": "unix:///tmp/x"}, "address", "own broker"),
    ("a broker of another kind", {"broker": "amqp://a"}, "address", "own broker: must begin with redis://"),
    ("a database of no server", {"databaseIndex": "1"}, "address", "is required by databaseIndex"),
    ("TLS to no server", {"enableTLS": "true"}, "address", "is required by enableTLS"),
    ("a user of no server", {"username": "u"}, "address", "is required by username"),
)
def test_servers_that_are_none_are_refused(more: dict[str, str], field: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as refused:
        scaler(**more)
    assert refused.value.field == field
    assert "hush" not in str(refused.value)


def test_the_numbers() -> None:
    found = scaler(
        eventsPerJob="7", activationEvents="2", maxEvents="5", deduplicationWindow="1m30s", countTaken="false"
    )
    assert (found.target, found.activation) == (7, 2)
    assert (found.question.limit, found.question.window, found.question.held) == (5, 90_000, False)


@cases(
    ("its own", {}, "{penstock}:events:team/orders", "{penstock}:events:team/orders:accepted"),
    ("given: its name becomes the tag of the others", {"stream": "in"}, "in", "{in}:accepted"),
    ("given with a tag", {"stream": "{in}:x"}, "{in}:x", "{in}:x:accepted"),
)
def test_where_events_are(metadata: dict[str, str], stream: str, accepted: str) -> None:
    found = scaler(**metadata)
    assert (found.question.stream, found.watched, found.queue) == (stream, (stream,), accepted)
    assert found.metric == f"push-{stream}"


@cases(
    ("of its namespace", "{penstock}:events:team/others", {}, False),
    ("of another namespace", "{penstock}:events:other/orders", {}, True),
    ("of no namespace", "{penstock}:events:team", {}, True),
    ("what is no stream of events", "{penstock}:mirror", {}, True),
    ("the keys beside it would be Penstock's", "penstock", {}, True),
    ("any other name", "orders", {}, False),
    ("another server", "{penstock}:events:other/orders", {"address": "redis.example:6379"}, False),
)
def test_of_penstocks_own_keys_only_its_namespaces_events_are_named(
    stream: str, elsewhere: dict[str, str], refused: bool
) -> None:
    if not refused:
        assert scaler(stream=stream, **elsewhere).question.stream == stream
        return
    with pytest.raises(SettingsError, match=r"must begin with \{penstock\}:events:team/") as error:
        scaler(stream=stream, **elsewhere)
    assert error.value.field == "stream"


GOOD = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order"}

#: What was pushed, and a part of the complaint; None for an event. Lua is asked the same in test_push.
EVENTS: dict[str, tuple[dict[str, str], str | None]] = {
    "the least": (GOOD, None),
    "everything": (
        {
            **GOOD,
            "time": "2026-03-01T08:00:00.25+01:00",
            "subject": "s",
            "datacontenttype": "text/plain",
            "dataschema": "http://a/b",
            "data": "{}",
            "traceparent": "00-1",
        },
        None,
    ),
    "binary data": ({**GOOD, "data_base64": "AA=="}, None),
    "UTC": ({**GOOD, "time": "2026-03-01T08:00:00Z"}, None),
    "empty data": ({**GOOD, "data": ""}, None),
    "no version": ({name: GOOD[name] for name in ("id", "source", "type")}, "specversion must be 1.0"),
    "another version": ({**GOOD, "specversion": "0.3"}, "specversion must be 1.0"),
    "no id": ({**GOOD, "id": ""}, "id is required"),
    "no source": ({**GOOD, "source": ""}, "source is required"),
    "no type": ({**GOOD, "type": ""}, "type is required"),
    "time in words": ({**GOOD, "time": "yesterday"}, "time must be"),
    "time without zone": ({**GOOD, "time": "2026-03-01T08:00:00"}, "time must be"),
    "a month too many": ({**GOOD, "time": "2026-13-01T08:00:00Z"}, "time must be"),
    "month 0": ({**GOOD, "time": "2026-00-01T08:00:00Z"}, "time must be"),
    "day 0": ({**GOOD, "time": "2026-03-00T08:00:00Z"}, "time must be"),
    "a day too many": ({**GOOD, "time": "2026-03-32T08:00:00Z"}, "time must be"),
    **{
        f"day {day} of no month": ({**GOOD, "time": f"{day}T08:00:00Z"}, "time must be")
        for day in ("2026-02-29", "1900-02-29", "2024-02-30", "2026-04-31", "2026-06-31", "2026-09-31", "2026-11-31")
    },
    **{
        f"day {day}": ({**GOOD, "time": f"{day}T08:00:00Z"}, None)
        for day in ("2024-02-29", "2000-02-29", "0000-02-29", "2026-02-28", "2026-01-31", "2026-04-30", "2026-12-31")
    },
    "the last of all": ({**GOOD, "time": "2026-12-31T23:59:60+23:59"}, None),
    "a minute too many": ({**GOOD, "time": "2026-03-01T08:60:00Z"}, "time must be"),
    "a second too many": ({**GOOD, "time": "2026-03-01T08:00:61Z"}, "time must be"),
    "a zone too far": ({**GOOD, "time": "2026-03-01T08:00:00+24:00"}, "time must be"),
    "a zone of sixty minutes": ({**GOOD, "time": "2026-03-01T08:00:00+01:60"}, "time must be"),
    "an hour too many": ({**GOOD, "time": "2026-03-01T24:00:00Z"}, "time must be"),
    "a broken zone": ({**GOOD, "time": "2026-03-01T08:00:00+1"}, "time must be"),
    "a point and no fraction": ({**GOOD, "time": "2026-03-01T08:00:00.Z"}, "time must be"),
    "a leap second": ({**GOOD, "time": "2016-12-31t23:59:60-00:00"}, None),
    **{
        f"source {source}": ({**GOOD, "source": source}, None)
        for source in (
            "https://github.com/cloudevents",
            "mailto:a@example.org",
            "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
            "/cloudevents/spec/pull/123",
            "1-555-123-4567",
            "a%20b",
            "?q",
            "#f",
            ".",
            "a/b:c",
        )
    },
    "a source with an address": ({**GOOD, "source": "http://u@[2001:db8::1]:80/x?y#z"}, None),
    **{
        f"source {source!r}": ({**GOOD, "source": source}, "source must be a URI reference")
        for source in (
            "bad source %zz",
            "a b",
            "%zz",
            "%2",
            "a%",
            "ü",
            "<x>",
            "a#b#c",
            "1:2",
            ":a",
            "/[",
            "a\\b",
            "[::1]",
        )
    },
    "a control character": ({**GOOD, "type": "a\nb"}, "type has control characters"),
    "a control character in data": ({**GOOD, "data": "a\nb\x00"}, None),
    "an empty subject": ({**GOOD, "subject": ""}, "subject must not be empty"),
    "a schema that is relative": ({**GOOD, "dataschema": "/a"}, "dataschema must be a URI"),
    "a schema that is none": ({**GOOD, "dataschema": "http://a b"}, "dataschema must be a URI"),
    "a type with parameters": ({**GOOD, "datacontenttype": "text/plain; charset=utf-8"}, None),
    **{
        f"content type {text!r}": ({**GOOD, "datacontenttype": text}, "datacontenttype must be a media type")
        for text in ("", "json", "a/", "a/b/c", "a b/c", "a/b;")
    },
    **{f"base64 {text!r}": ({**GOOD, "data_base64": text}, None) for text in ("", "AAAA", "AAA=", "AA==", "+/+/")},
    **{
        f"base64 {text!r}": ({**GOOD, "data_base64": text}, "data_base64 must be base64")
        for text in ("***", "AAA", "A===", "AA=A", "A-_A", "AAAA=", "====", "AA AA=AA")
    },
    "an attribute in capitals": ({**GOOD, "traceParent": "x"}, "attribute names"),
    "an attribute without a name": ({**GOOD, "": "x"}, "attribute names"),
    "data twice": ({**GOOD, "data": "x", "data_base64": "eA=="}, "exclude each other"),
    "too large": ({**GOOD, "data": "x" * (1 << 20)}, "is larger than 1048576 bytes"),
    "too many": ({**GOOD, **{f"a{n}": "" for n in range(97)}}, "more than 100 attributes"),
    "as many as there may be": ({**GOOD, **{f"a{n}": "" for n in range(96)}}, None),
}


@cases(EVENTS)
def test_what_an_event_is(event: dict[str, str], complaint: str | None) -> None:
    found = cloudevents.wrong(event)
    assert found is None if complaint is None else complaint in (found or "")


@cases(
    ("attributes", {"id": 5, "flag": True, "subject": None}, {"id": "5", "flag": "true"}),
    ("text", {"data": "text"}, {"data": "text"}),
    ("an object as JSON", {"data": {"n": 1}}, {"data": '{"n":1}', "datacontenttype": "application/json"}),
    ("its type", {"data": [1], "datacontenttype": "a/b+json"}, {"data": "[1]", "datacontenttype": "a/b+json"}),
)
def test_events_in_json(body: dict[str, Any], event: dict[str, str]) -> None:
    assert cloudevents.from_json(body) == event


@for_each(5, ["a"], "a", None, {"subject": {"a": 1}}, {"id": 1.5}, {"data": [float("nan")]})
def test_json_that_is_no_event(body: Any) -> None:
    with pytest.raises(ValueError, match=r"no JSON object|must be a text|cannot be pushed as JSON"):
        cloudevents.from_json(body)


@cases(("text", "ü".encode(), {"data": "ü"}), ("binary", b"\xff", {"data_base64": "/w=="}))
def test_data(data: bytes, more: dict[str, str]) -> None:
    assert cloudevents.with_data(GOOD, data) == {**GOOD, **more}
