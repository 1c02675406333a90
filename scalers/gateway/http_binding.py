"""Requests as CloudEvents: the HTTP protocol binding 1.0.2, and events made of bodies that are none. Pure.

A request is *structured* or a *batch* by its content type, *binary* if it has a header `ce-…`, and *plain* otherwise.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs

import orjson

from penstock import cloudevents
from scalers.gateway.form_data import NotAForm, multipart_fields
from scalers.gateway.problem import RequestRefused, refused
from scalers.gateway.push_request import RawHeaders
from workers.events.event_scope import as_json

#: Events of one batch.
MOST_EVENTS = 1_000

Mode = Literal["binary", "structured", "batch", "plain"]
Event = dict[str, str]

_STRUCTURED, _BATCH = "application/cloudevents", "application/cloudevents-batch"
_ATTRIBUTE = re.compile(r"[a-z0-9]+")
#: The attributes that other parts of a request carry.
_ELSEWHERE = {"datacontenttype": "Content-Type", "data": "the body", "data_base64": "the body"}
#: The values of headers that leave a body as it is.
_AS_IT_IS = {b"content-encoding": b"identity", b"transfer-encoding": b"chunked"}
_ESCAPED, _QUOTED_PAIR = re.compile(rb"%([0-9A-Fa-f]{2})"), re.compile(rb"\\(.)", re.DOTALL)
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
#: A whole number that may have more than 64 bits.
_LONG_NUMBER = re.compile(rb"\d{19}")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+/[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class PlainEvent(NamedTuple):
    """The attributes of an event that is made of a body which is none. time: RFC 3339."""

    id: str
    source: str
    type: str
    time: str
    subject: str | None = None


@dataclass(frozen=True)
class ContentType:
    """A media type in lower case, its parameters by lower-case name, and the text as it came.

    mode: how it carries events; None if that is the headers' to say. is_json: true for JSON and what is built on it.
    """

    media: str
    parameters: Mapping[str, str]
    text: str

    @cached_property
    def mode(self) -> Literal["batch", "structured"] | None:
        if self.media == _BATCH or self.media.startswith(f"{_BATCH}+"):
            return "batch"
        return "structured" if self.media == _STRUCTURED or self.media.startswith(f"{_STRUCTURED}+") else None

    @cached_property
    def is_json(self) -> bool:
        return cloudevents.is_json(self.media)


class Binding(NamedTuple):
    """The way in which a request carries its events, read from its headers once.

    headers: as they came, names in lower case. values: the same by name, of repeated ones the last. content: None
    without a content type.
    """

    mode: Mode
    content: ContentType | None
    headers: RawHeaders
    values: Mapping[bytes, bytes]

    @property
    def without_attributes(self) -> "Binding":
        """The binding without the headers that are attributes of the event."""
        kept = [(name, value) for name, value in self.headers if not name.startswith(b"ce-")]
        return self if len(kept) == len(self.headers) else binding_of(kept)


def binding_of(headers: RawHeaders) -> Binding:
    """Returns the binding of a request. Raises RequestRefused for a content type that is malformed or there twice."""
    values, content = dict(headers), None
    if (given := values.get(b"content-type")) is not None:
        once = len(values) == len(headers) or sum(name == b"content-type" for name, _ in headers) == 1
        if not once or (content := _media_type(given)) is None:
            raise refused(400, "content-type", "Content-Type must be one media type")
        if content.mode:
            return Binding(content.mode, content, headers, values)
    for name in values:
        if name.startswith(b"ce-"):
            return Binding("binary", content, headers, values)
    return Binding("plain", content, headers, values)


def read_events(binding: Binding, body: bytes, plain: PlainEvent) -> list[Event]:
    """Returns the events of a request, each valid by docs/events.md.

    Raises RequestRefused that names the attribute or header: 400 for what is no event, 413 for too many, 415 for a
    format or a compression that is not supported.
    """
    mode, content, headers, values = binding
    if b"content-encoding" in values or b"transfer-encoding" in values:
        _check_encoding(headers)
    if mode == "batch":
        return _batch(content, body)
    if mode == "structured":
        event = _valid(_structured(_json(_json_format(content), body)))
    elif mode == "binary":
        event = _valid(_binary(headers, content, body))
    else:
        event = _valid(_plain(content, body, plain))
    return [_traced(event, values) if b"traceparent" in values else event]


def _check_encoding(headers: RawHeaders) -> None:
    for name, value in headers:
        plain = _AS_IT_IS.get(name)
        if plain is not None and value.strip().lower() != plain:
            # A sender without a signature may not make this process decompress a body of any size.
            detail = f"the body is compressed ({name.decode().title()}); push it as it is"
            raise refused(415, "content-encoding", detail, headers={"Accept-Encoding": "identity"})


@lru_cache(maxsize=256)
def _media_type(value: bytes) -> ContentType | None:
    """Returns the content type of a header's value, None for a malformed one. Senders use few, and each often."""
    # An empty parameter is none: some senders end every content type with a semicolon.
    text = value.decode("latin-1").strip().rstrip("; \t")
    media, *rest = text.split(";")
    if not _TOKEN.fullmatch(media.strip()):
        return None
    pairs = (part.partition("=") for part in rest)
    parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
    return ContentType(media.strip().lower(), parameters, text)


def decoded(name: str, value: bytes) -> str:
    """Returns the attribute of a header's value: quotes are removed first, then percent signs are decoded once.

    Raises RequestRefused, naming the header, for a text that does not end its quotes or is no UTF-8.
    """
    text = value.strip(b" \t")
    if text.startswith(b'"'):
        if len(text) < 2 or not re.fullmatch(rb'"(?:[^"\\]|\\.)*"', text, re.DOTALL):
            raise refused(400, "invalid-event", f"{name} begins a quoted string and does not end it")
        text = _QUOTED_PAIR.sub(rb"\1", text[1:-1])
    if b"%" in text:
        text = _ESCAPED.sub(lambda match: bytes((int(match[1], 16),)), text)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise refused(400, "invalid-event", f"{name} is not UTF-8") from None


def _binary(headers: RawHeaders, content: ContentType | None, body: bytes) -> Event:
    event: Event = {}
    for header, value in headers:
        if not header.startswith(b"ce-"):
            continue
        full = header.decode("latin-1")
        name = full.removeprefix("ce-")
        if name in _ELSEWHERE:
            raise refused(400, "invalid-event", f"{full} is no header of an event: {_ELSEWHERE[name]} has it")
        if not _ATTRIBUTE.fullmatch(name):
            raise refused(400, "invalid-event", f"{full}: attribute names are letters and digits")
        if name in event:
            raise refused(400, "invalid-event", f"{full} is there twice")
        event[name] = decoded(full, value)
    if content:
        event["datacontenttype"] = content.text
    return cloudevents.with_data(event, body) if body else event


def _batch(content: ContentType | None, body: bytes) -> list[Event]:
    found = _json(_json_format(content), body)
    if not isinstance(found, list):
        raise refused(400, "invalid-event", "the body is no JSON array")
    if len(found) > MOST_EVENTS:
        raise refused(413, "too-many-events", f"a batch has at most {MOST_EVENTS} events, this one {len(found)}")
    events = []
    for index, one in enumerate(found):
        try:
            events.append(_valid(_structured(one)))
        except RequestRefused as error:
            raise refused(400, "invalid-event", f"event {index}: {error}", members={"index": index}) from None
    return events


def _structured(found: Any) -> Event:
    found = cloudevents.with_json_data(found)
    if isinstance(found, dict) and (data := found.get("data")) is not None and not isinstance(data, str):
        declared = found.get("datacontenttype")
        if isinstance(declared, str) and not cloudevents.is_json(declared):
            raise refused(400, "invalid-event", "data must be a text, because datacontenttype is not JSON")
        found = {**found, "datacontenttype": declared or "application/json", "data": _dumped(data)}
    try:
        return cloudevents.from_json(found)
    except ValueError as error:
        raise refused(400, "invalid-event", str(error)) from None


def _plain(content: ContentType | None, body: bytes, plain: PlainEvent) -> Event:
    id_, source, type_, time, subject = plain
    event = {"specversion": "1.0", "id": id_, "source": source, "type": type_, "time": time}
    if subject:
        event["subject"] = subject
    if not body:
        return event
    if content is None:
        raise refused(415, "content-type", "Content-Type is required: it says how the body is to be read")
    if content.media == "application/x-www-form-urlencoded":
        return {**event, "datacontenttype": "application/json", "data": _dumped(_urlencoded(body))}
    if content.media == "multipart/form-data":
        try:
            fields = multipart_fields(body, content.parameters.get("boundary", ""))
        except NotAForm as error:
            raise refused(error.status, "invalid-form", str(error)) from None
        return {**event, "datacontenttype": "application/json", "data": _dumped(fields)}
    if content.is_json:
        _check_json(content, body)
    event["datacontenttype"] = content.text
    return cloudevents.with_data(event, body)


def _urlencoded(body: bytes) -> Any:
    try:
        fields = parse_qs(
            body.decode(), keep_blank_values=True, strict_parsing=False, errors="strict", max_num_fields=1000
        )
    except ValueError:
        raise refused(400, "invalid-form", "the body is no form in UTF-8 with at most 1,000 fields") from None
    if len(fields) <= 1 and body.lstrip()[:1] in (b"{", b"["):
        detail = "the body looks like JSON and is declared as a form; say Content-Type: application/json"
        raise refused(415, "content-type", detail)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _valid(event: Event) -> Event:
    if problem := cloudevents.wrong(event):
        raise refused(400, "invalid-event", problem)
    return event


def _traced(event: Event, given: Mapping[bytes, bytes]) -> Event:
    """Returns the event with the request's trace context, unless it has one of its own."""
    if "traceparent" in event:
        return event
    parent = given.get(b"traceparent", b"").decode("latin-1").strip()
    if not _TRACEPARENT.fullmatch(parent):
        return event
    state = given.get(b"tracestate", b"").decode("latin-1").strip()
    return {**event, "traceparent": parent, **({"tracestate": state} if 0 < len(state) <= 512 else {})}


def _json_format(content: ContentType | None) -> ContentType:
    if content is None or not content.is_json:
        raise refused(415, "content-type", "of the formats of CloudEvents only JSON is supported")
    return content


def _check_json(content: ContentType, body: bytes) -> None:
    """Raises RequestRefused for what `_json` refuses."""
    _check_charset(content)
    try:
        # It is quicker, and stricter: it refuses half of a surrogate pair in an escape.
        orjson.loads(body)
    except orjson.JSONDecodeError:
        _json(content, body)


def _check_charset(content: ContentType) -> None:
    if content.parameters and content.parameters.get("charset", "utf-8").lower() not in ("utf-8", "utf8", "us-ascii"):
        raise refused(415, "content-type", "JSON must be in UTF-8")


def _json(content: ContentType, body: bytes) -> Any:
    _check_charset(content)
    # orjson is quicker. It refuses more, and rounds whole numbers of more than 64 bits.
    if not _LONG_NUMBER.search(body):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(body)
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant, parse_float=_number)
    except (ValueError, RecursionError):
        raise refused(400, "invalid-json", "the body is not JSON in UTF-8") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number


def _dumped(value: Any) -> str:
    try:
        return as_json(value)
    except RecursionError:
        raise refused(400, "invalid-json", "the data are nested too deeply") from None
