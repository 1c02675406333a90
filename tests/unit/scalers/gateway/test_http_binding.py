"""The HTTP binding of CloudEvents: a table of requests, and what becomes of them."""

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scalers.gateway.http_binding import MOST_EVENTS, PlainEvent, binding_of, read_events
from scalers.gateway.problem import RequestRefused
from tests.support.tables import cases, for_each

PLAIN = PlainEvent("p1", "/events/team/orders", "dev.penstock.push", "2026-03-01T08:00:00.000Z")
BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "placed"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "placed"}
STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
JSON = "application/json"


def raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def events(headers: dict[str, str], body: bytes | str | Any = b"") -> list[dict[str, str]]:
    if isinstance(body, str):
        body = body.encode()
    return read_events(binding_of(raw(headers)), body if isinstance(body, bytes) else json.dumps(body).encode(), PLAIN)


def one(headers: dict[str, str], body: bytes | str | Any = b"") -> dict[str, str]:
    [event] = events(headers, body)
    return event


def plain(**more: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": "p1", "source": PLAIN.source, "type": PLAIN.type, "time": PLAIN.time, **more}


@for_each(
    ({}, "plain"),
    ({"content-type": JSON}, "plain"),
    (BINARY, "binary"),
    ({"ce-id": "1"}, "binary"),
    ({**BINARY, "content-type": STRUCTURED}, "structured"),
    ({"content-type": "Application/CloudEvents+JSON; charset=UTF-8"}, "structured"),
    ({"content-type": "application/cloudevents"}, "structured"),
    ({"content-type": BATCH}, "batch"),
    ({"content-type": "application/cloudevents-other"}, "plain"),
    ({"content-type": "application/json; profile=cloudevents"}, "plain"),
)
def test_the_mode_of_a_request(headers: dict[str, str], mode: str) -> None:
    assert binding_of(raw(headers)).mode == mode


@for_each(
    ("plain", "plain"),
    ("  around  ", "around"),
    ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
    ("%e2%82%ac", "€"),
    ("€", "€"),
    ("100%", "100%"),
    ("%zz%4", "%zz%4"),
    ("%2541", "%41"),
    ('"quoted"', "quoted"),
    ('"a \\"b\\" \\\\ c"', 'a "b" \\ c'),
    ('"Euro%20%E2%82%AC"', "Euro €"),
    ('"%22"', '"'),
    ("a%22b", 'a"b'),
    ('in "the" middle', 'in "the" middle'),
    ("a,b;c=d", "a,b;c=d"),
    ("(no comment)", "(no comment)"),
)
def test_the_values_of_headers_are_unquoted_and_decoded_once(value: str, attribute: str) -> None:
    assert one({**BINARY, "ce-subject": value})["subject"] == attribute


@cases(
    ("no data", {}, b"", {}),
        ("names have no case", {"Ce-MyExtension": "x", "CE-Time": "2026-03-01T08:00:00Z"}, b"",
                     {"myextension": "x", "time": "2026-03-01T08:00:00Z"}),
        ("JSON", {"content-type": JSON}, b'{"a": 1}', {"datacontenttype": JSON, "data": '{"a": 1}'}),
        ("unchecked", {"content-type": JSON}, b"no JSON", {"datacontenttype": JSON, "data": "no JSON"}),
        ("text", {"content-type": "text/plain; charset=utf-8"}, "ä",
                     {"datacontenttype": "text/plain; charset=utf-8", "data": "ä"}),
        ("bytes", {}, b"\xff\x00", {"data_base64": base64.b64encode(b"\xff\x00").decode()}),
        ("a type without data", {"content-type": JSON}, b"", {"datacontenttype": JSON}),
        ("a URI is encoded twice", {"ce-source": "urn:x:%C3%A4".replace("%C3%A4", "%25C3%25A4")}, b"",
                     {"source": "urn:x:%C3%A4"}),

)  # fmt: skip
def test_binary_mode(headers: dict[str, str], body: bytes, found: dict[str, str]) -> None:
    assert one({**BINARY, **headers}, body) == {**EVENT, **found}


@for_each(
    ({}, {}),
    ({"data": {"a": [1, None, "ä"]}}, {"data": '{"a":[1,null,"ä"]}', "datacontenttype": JSON}),
    ({"data": 12345678901234567890123}, {"data": "12345678901234567890123", "datacontenttype": JSON}),
    ({"data": "text"}, {"data": "text"}),
    ({"data": "text", "datacontenttype": JSON}, {"data": '"text"', "datacontenttype": JSON}),
    ({"data": "<a/>", "datacontenttype": "text/xml"}, {"data": "<a/>", "datacontenttype": "text/xml"}),
    ({"data": [1], "datacontenttype": "x/y+json"}, {"data": "[1]", "datacontenttype": "x/y+json"}),
    ({"data_base64": "/wA="}, {"data_base64": "/wA="}),
    ({"subject": None, "data": None}, {}),
    ({"flag": True, "number": -3}, {"flag": "true", "number": "-3"}),
)
def test_structured_mode(more: dict[str, Any], found: dict[str, str]) -> None:
    assert one({"content-type": f"{STRUCTURED}; charset=utf-8"}, {**EVENT, **more}) == {**EVENT, **found}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    ).filter(lambda data: data is not None and not isinstance(data, str))
)
@example([2**64, -(2**63) - 1, 10**40])
@example([1e16, 1e-7, -0.0, 5e-324])
@example(json.loads("[" * 300 + "]" * 300))
def test_data_stay_what_they_were(data: Any) -> None:
    event = one({"content-type": STRUCTURED}, {**EVENT, "data": data})
    assert json.loads(event["data"]) == data


def test_a_batch_is_as_many_events() -> None:
    two = [EVENT, {**EVENT, "id": "2", "data": 1}]
    assert [event["id"] for event in events({"content-type": BATCH}, two)] == ["1", "2"]
    assert events({"content-type": BATCH}, []) == []


@for_each(

        # Parsers differ about these; they are data, and the next reader's to judge.
        (JSON, b'"\\ud800"', {"datacontenttype": JSON, "data": '"\\ud800"'}),
        (JSON, b"[%d]" % 10**40, {"datacontenttype": JSON, "data": f"[{10**40}]"}),
        ("", b"", {}),
        (JSON, b'{"a": 1.10}', {"datacontenttype": JSON, "data": '{"a": 1.10}'}),
        ("application/vnd.x+json", b"[]", {"datacontenttype": "application/vnd.x+json", "data": "[]"}),
        ("application/x-www-form-urlencoded", b"a=1&b=x%20y&b=&%C3%A4=%E2%82%AC",
         {"datacontenttype": JSON, "data": '{"a":"1","b":["x y",""],"ä":"€"}'}),
        ("text/plain", "grüß", {"datacontenttype": "text/plain", "data": "grüß"}),
        ("application/json;", b"1", {"datacontenttype": "application/json", "data": "1"}),
        ("text/plain; charset=utf-8 ; ", b"1", {"datacontenttype": "text/plain; charset=utf-8", "data": "1"}),
        ("image/png", b"\x89PNG", {"datacontenttype": "image/png", "data_base64": "iVBORw=="}),
        ("multipart/form-data; boundary=x",
         b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x\r\n'
         b'Content-Disposition: form-data; name="a"\r\nContent-Type: text/plain\r\n\r\n\xc3\xa4\r\n--x--\r\n',
         {"datacontenttype": JSON, "data": '{"a":["1","ä"]}'}),

)  # fmt: skip
def test_bodies_that_are_no_events_become_some(content: str, body: bytes, found: dict[str, str]) -> None:
    assert one({"content-type": content} if content else {}, body) == plain(**found)


FILE = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n1\r\n--x--\r\n'
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=x"


@for_each(

        ({"ce-id": "1"}, b"", 400, "specversion"),
        ({**BINARY, "ce-specversion": "0.3"}, b"", 400, "specversion must be 1.0"),
        ({**BINARY, "ce-id": ""}, b"", 400, "id is required"),
        ({**BINARY, "ce-source": "a b"}, b"", 400, "source must be a URI reference"),
        ({**BINARY, "ce-time": "yesterday"}, b"", 400, "time must be an RFC 3339"),
        ({**BINARY, "ce-subject": "%00"}, b"", 400, "subject has control characters"),
        ({**BINARY, "ce-subject": "%ff"}, b"", 400, "ce-subject is not UTF-8"),
        ({**BINARY, "ce-subject": '"open'}, b"", 400, "ce-subject begins a quoted string"),
        ({**BINARY, "ce-subject": '"a" b'}, b"", 400, "ce-subject begins a quoted string"),
        ({**BINARY, "ce-data": "x"}, b"", 400, "ce-data is no header"),
        ({**BINARY, "ce-datacontenttype": JSON}, b"", 400, "Content-Type has it"),
        ({**BINARY, "ce-with-dash": "x"}, b"", 400, "ce-with-dash"),
        ({**BINARY, "ce-": "x"}, b"", 400, "ce-: attribute names"),
        ({**BINARY, "content-type": "nothing"}, b"", 400, "Content-Type must be"),
        ({"content-type": JSON}, b"NaN", 400, "not JSON"),
        ({"content-type": JSON}, b"[1e999]", 400, "not JSON"),
        ({"content-type": JSON}, b"\xef\xbb\xbf{}", 400, "not JSON"),
        ({"content-type": STRUCTURED}, b"{", 400, "not JSON"),
        ({"content-type": STRUCTURED}, b"\xff", 400, "not JSON"),
        ({"content-type": STRUCTURED}, b"[" * 100_000, 400, "not JSON"),
        ({"content-type": STRUCTURED}, [], 400, "is no JSON object"),
        ({"content-type": STRUCTURED}, {**EVENT, "id": 1.5}, 400, "id must be a text"),
        ({"content-type": STRUCTURED}, {**EVENT, "Upper": "x"}, 400, "'Upper'"),
        ({"content-type": STRUCTURED}, {**EVENT, "ext": {"a": 1}}, 400, "ext must be a text"),
        ({"content-type": STRUCTURED}, {**EVENT, "data": 1, "data_base64": "eA=="}, 400, "exclude each other"),
        ({"content-type": STRUCTURED}, {**EVENT, "data_base64": "!"}, 400, "data_base64 must be base64"),
        ({"content-type": STRUCTURED}, {**EVENT, "data": 1, "datacontenttype": "text/xml"}, 400, "data must be a text"),
        ({"content-type": STRUCTURED}, b'{"data": NaN}', 400, "not JSON"),
        ({"content-type": STRUCTURED}, b'{"data": 1e999}', 400, "not JSON"),
        ({"content-type": STRUCTURED}, json.dumps({**EVENT, "data": "\ud800"}), 400, "surrogate"),
        ({"content-type": STRUCTURED + "; charset=latin1"}, EVENT, 415, "UTF-8"),
        ({"content-type": "application/cloudevents+xml"}, b"<a/>", 415, "only JSON"),
        ({"content-type": "application/cloudevents-batch+avro"}, b"", 415, "only JSON"),
        ({"content-type": BATCH}, {}, 400, "no JSON array"),
        ({"content-type": BATCH}, [EVENT, {}], 400, "event 1: specversion"),
        ({"content-type": BATCH}, [EVENT] * (MOST_EVENTS + 1), 413, "at most 1000"),
        ({}, b"x", 415, "Content-Type is required"),
        ({"content-type": "text/plain", "content-encoding": "gzip"}, b"x", 415, "compressed"),
        ({"content-type": "text/plain", "transfer-encoding": "gzip, chunked"}, b"x", 415, "compressed (Transfer-"),
        ({"content-type": JSON}, b"{", 400, "not JSON"),
        ({"content-type": FORM}, b'{"a": 1}', 415, "say Content-Type: application/json"),
        ({"content-type": FORM}, b"a=%ff", 400, "no form in UTF-8"),
        ({"content-type": FORM}, b"&".join([b"a=1"] * 1001), 400, "at most 1,000"),
        ({"content-type": MULTIPART}, FILE, 415, "forms with files"),
        ({"content-type": "multipart/form-data"}, FILE, 400, "names no boundary"),
        ({"content-type": MULTIPART}, FILE[:-10], 400, "ends before"),
        ({"content-type": MULTIPART}, b"--y", 400, "no multipart form"),
        ({"content-type": MULTIPART + "x" * 300}, b"--x--", 400, "no multipart form"),
        ({"content-type": MULTIPART}, b"--x\r\n\r\n1\r\n--x--\r\n", 400, "has no name"),

)  # fmt: skip
def test_what_is_refused(headers: dict[str, str], body: Any, status: int, says: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        events(headers, body)
    assert caught.value.problem.status == status
    assert says in caught.value.problem.detail


def test_deep_data_are_an_event_or_refused() -> None:
    # Reading and writing JSON end at depths that are not quite the same.
    for depth in range(500, 1_100):
        body = json.dumps({**EVENT, "data": 0}).replace(": 0", f": {'[' * depth}{']' * depth}")
        with suppress(RequestRefused):
            assert one({"content-type": STRUCTURED}, body.encode())["data"] == "[" * depth + "]" * depth


def test_headers_that_are_there_twice_are_refused() -> None:
    for name in (b"ce-id", b"content-type"):
        headers = [*raw({**BINARY, "content-type": JSON}), (name, b"a/b")]
        with pytest.raises(RequestRefused):
            read_events(binding_of(headers), b"", PLAIN)


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@for_each(
    ({"traceparent": PARENT, "tracestate": "a=b"}, {"traceparent": PARENT, "tracestate": "a=b"}),
    ({"traceparent": PARENT, "ce-traceparent": PARENT[:-1] + "0"}, {"traceparent": PARENT[:-1] + "0"}),
    ({"traceparent": "no", "tracestate": "a=b"}, {}),
)
def test_the_trace_of_the_request_is_the_events(headers: dict[str, str], found: dict[str, str]) -> None:
    assert one({**BINARY, **headers}) == {**EVENT, **found}
