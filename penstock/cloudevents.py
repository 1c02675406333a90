"""CloudEvents as names and texts, as the fields of an intake's entries hold them, and the checks of their attributes.

docs/events.md is the interface. The script that takes events in (scalers/lua/accept_events.lua) checks the same.
"""

import base64
import calendar
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

#: Bytes of the largest event, names and values together.
LARGEST = 1 << 20

_NAME = re.compile(r"[a-z0-9]+|data_base64")
_USUAL = frozenset(("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"))
_TIME = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)"
    r"(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_CHARACTERS = r"[a-zA-Z0-9._~:/?#\[\]@!$&'()*+,;=-]*"
_URI = re.compile(rf"{_CHARACTERS}(?:%[0-9a-fA-F]{{2}}{_CHARACTERS})*")
_IPV6 = re.compile(r"//[^/?#\[\]]*\[[0-9a-fA-F:.]+\]")
_TOKEN = r"[a-zA-Z0-9!#$&^_.+-]+"
_MEDIA = re.compile(rf"{_TOKEN}/{_TOKEN}[ ]*(;.+)?")
_BASE64 = re.compile(r"[a-zA-Z0-9+/]*=?=?")


def malformed(event: Mapping[str, str]) -> str | None:
    """Returns the problem of the values of an event with all required attributes; None if there is none."""
    attributes = "".join([value for name, value in event.items() if name != "data"])
    if not attributes.isprintable() and _CONTROL.search(attributes):
        name = next(name for name, value in event.items() if name != "data" and _CONTROL.search(value))
        return f"{name} has control characters"
    if not is_reference(event["source"]):
        return "source must be a URI reference"
    if "time" in event and not _is_instant(event["time"]):
        return "time must be an RFC 3339 instant"
    if event.get("subject") == "":
        return "subject must not be empty"
    if "dataschema" in event and not (is_reference(event["dataschema"]) and _SCHEME.match(event["dataschema"])):
        return "dataschema must be a URI"
    if "datacontenttype" in event and not _MEDIA.fullmatch(event["datacontenttype"]):
        return "datacontenttype must be a media type"
    if "data" in event and "data_base64" in event:
        return "data and data_base64 exclude each other"
    if "data_base64" in event and not is_base64(event["data_base64"]):
        return "data_base64 must be base64"
    return None


def _is_instant(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    return day <= 28 or day <= calendar.monthrange(year, month)[1]


def is_reference(text: str) -> bool:
    """Returns whether this is a URI or a relative reference (RFC 3986)."""
    # Most events have the source of others; long texts would fill the memory.
    return _is_known_reference(text) if len(text) <= 200 else _is_reference(text)


def _is_reference(text: str) -> bool:
    if not text or not _URI.fullmatch(text) or text.count("#") > 1:
        return False
    # Brackets are for an address of IPv6.
    if ("[" in text or "]" in text) and re.search(r"[\[\]]", _IPV6.sub("//", text, count=1)):
        return False
    return ":" not in text or ":" not in re.split(r"[/?#]", text, maxsplit=1)[0] or bool(_SCHEME.match(text))


_is_known_reference = lru_cache(maxsize=1024)(_is_reference)


def is_base64(text: str) -> bool:
    """Returns whether this is base64 (RFC 4648), padded."""
    return len(text) % 4 == 0 and bool(_BASE64.fullmatch(text))


def is_json(media: str) -> bool:
    """Returns whether data of this media type are JSON."""
    kind = media.partition(";")[0].strip().lower()
    return kind in ("application/json", "text/json") or kind.endswith("+json")


def wrong(event: Mapping[str, str]) -> str | None:
    """Returns the reason why this is no event, naming the attribute; None if it is one."""
    try:
        if size(event) > LARGEST:
            return f"is larger than {LARGEST} bytes"
    except UnicodeEncodeError:
        return "an attribute or the data has half of a surrogate pair, which is no character"
    if not event.keys() <= _USUAL:
        for name in event:
            if not _NAME.fullmatch(name):
                return f"{name!r}: attribute names are lower-case letters and digits"
    if len(event) > 100:
        return "has more than 100 attributes"
    if event.get("specversion") != "1.0":
        return "specversion must be 1.0"
    for name in ("id", "source", "type"):
        if not event.get(name):
            return f"{name} is required"
    return malformed(event)


def size(event: Mapping[str, str]) -> int:
    """Returns the bytes of an event, names and values together. Raises UnicodeEncodeError for half of a pair."""
    text = "".join([*event, *event.values()])
    return len(text) if text.isascii() else len(text.encode())


def digest(source: str, id: str) -> str:
    """Returns the digest under which an intake remembers an event."""
    return hashlib.sha1(f"{source}\n{id}".encode(), usedforsecurity=False).hexdigest()


def with_json_data(body: Any) -> Any:
    """Returns the body of an event with JSON data that are a string as the text that `from_json` takes.

    CloudEvents' JSON format has such data as a JSON string; without a media type a string is the text itself. Anything
    else is returned as it is.
    """
    if not isinstance(body, dict) or not isinstance(data := body.get("data"), str):
        return body
    declared = body.get("datacontenttype")
    return {**body, "data": _json(data)} if isinstance(declared, str) and is_json(declared) else body


def from_json(body: Any) -> dict[str, str]:
    """Returns an event in CloudEvents' JSON format as names and texts. Raises ValueError for anything else."""
    if not isinstance(body, dict):
        raise ValueError("is no JSON object")
    event: dict[str, str] = {}
    for name, value in body.items():
        if value is None:
            continue
        if name == "data" and not isinstance(value, str):
            event.setdefault("datacontenttype", "application/json")
            event[name] = _json(value)
        elif isinstance(value, bool):
            event[name] = str(value).lower()
        elif isinstance(value, str | int):
            event[name] = str(value)
        else:
            raise ValueError(f"{name} must be a text, a whole number, or true or false")
    return event


def _json(data: Any) -> str:
    """Returns the data as JSON. Raises ValueError for what JSON cannot hold, such as NaN."""
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"data cannot be pushed as JSON: {error}") from None


def with_data(event: Mapping[str, str], data: bytes) -> dict[str, str]:
    """Returns the event with these data: as text if they are UTF-8, otherwise in base64."""
    try:
        return {**event, "data": data.decode()}
    except UnicodeDecodeError:
        return {**event, "data_base64": base64.b64encode(data).decode()}


def data_of(event: Mapping[str, str]) -> bytes:
    """Returns the data of an event that has passed `wrong`, as bytes; none for an event without."""
    if "data_base64" in event:
        return base64.b64decode(event["data_base64"])
    return event.get("data", "").encode()
