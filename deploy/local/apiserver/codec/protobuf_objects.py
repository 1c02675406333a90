"""Kubernetes' protobuf encoding of objects, read only: kubectl and Go programs send built-in kinds in it.

Answers are JSON, which these clients accept. messages.yaml says what the field numbers mean.
"""

import base64
import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson

from workers.api.kinds import Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
#: The first bytes of an encoded object.
MAGIC = b"k8s\x00"
#: Kinds whose message is not called like the kind, by apiVersion and kind.
RENAMED = {
    ("events.k8s.io/v1", "Event"): "events.Event",
    ("autoscaling/v1", "Scale"): "autoscaling.Scale",
    ("autoscaling/v1", "HorizontalPodAutoscaler"): "autoscaling.HorizontalPodAutoscaler",
}

# Wire types.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a message. name: in JSON, empty for a message whose fields stand beside the others.

    optional: it can be absent, so that zero is a value. form: ``*`` for a list, ``%`` for a map, or empty.
    """

    name: str
    type: str
    form: str
    optional: bool


@cache
def _messages() -> dict[str, dict[int, WireField]]:
    """The fields of every message by number."""
    text = importlib.resources.files(__package__).joinpath("messages.yaml").read_text()
    found: dict[str, dict[int, WireField]] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        message, _, rest = line.partition(": ")
        found[message] = fields = {}
        for word in rest.split():
            number, _, named = word.partition("=")
            name, _, kind = named.rpartition(":")
            form = kind[0] if kind[0] in "*%" else ""
            fields[int(number)] = WireField(name.removesuffix("?"), kind[len(form) :], form, name.endswith("?"))
    return found


def embedded(message: str) -> frozenset[str]:
    """Returns the members of a struct that are structs themselves and never absent; none for an unknown message."""
    fields = _messages().get(message, {}).values()
    return frozenset(f.name for f in fields if f.name and not f.form and not f.optional and f.type in _messages())


def decode(data: bytes) -> Object:
    """The object of an encoded body, as its JSON would decode. Raises ValueError for anything else."""
    if not data.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix")
    envelope = dict(_parts(data[len(MAGIC) :]))
    head = {number: _text(value) for number, value in _parts(_bytes(envelope.get(1, b"")))}
    version, kind = head.get(1, ""), head.get(2, "")
    message = RENAMED.get((version, kind), kind)
    if message not in _messages():
        raise ValueError(f"no kind {kind!r} in version {version!r} can be read from protobuf here")
    return {"apiVersion": version, "kind": kind, **_message(message, _bytes(envelope.get(2, b"")))}


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as they stand: numbers as unsigned integers, everything else as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"illegal wire type {wire}")
        if at + size > len(data):
            raise ValueError("unexpected end of the message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a malformed number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message should be")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _message(name: str, data: bytes) -> Object:
    """Returns one message as JSON, without the zeros that Go cannot distinguish from absent fields."""
    fields = _messages()[name]
    result: Object = {}
    for number, raw in _parts(data):
        field = fields.get(number)
        if field is None:
            continue
        if field.form == "%":
            key, value = _entry(field, _bytes(raw))
            result.setdefault(field.name, {})[key] = value
        elif field.form == "*":
            result.setdefault(field.name, []).extend(_items(field, raw))
        else:
            value = _value(field.type, raw)
            if not field.name:
                result.update(value)
            elif value is not None and (value or field.optional):
                result[field.name] = value
    return result


def _entry(field: WireField, data: bytes) -> tuple[str, Any]:
    """One pair of a map."""
    pair = dict(_parts(data))
    return _text(pair.get(1, b"")), _value(field.type, pair.get(2, b""))


def _items(field: WireField, raw: int | bytes) -> Iterator[Any]:
    """The items one field of a list holds: several for packed numbers."""
    if field.type == "i" and isinstance(raw, bytes):
        at = 0
        while at < len(raw):
            number, at = _varint(raw, at)
            yield _signed(number)
    else:
        yield _value(field.type, raw)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _value(kind: str, raw: int | bytes) -> Any:
    """One value as JSON has it; None for a time that is not set."""
    match kind:
        case "i" | "b" if isinstance(raw, int):
            return bool(raw) if kind == "b" else _signed(raw)
        case "s":
            return _text(raw)
        case "y":
            return base64.b64encode(_bytes(raw)).decode()
        case "Time" | "MicroTime":
            return _time(_bytes(raw), "microseconds" if kind == "MicroTime" else "seconds")
        case "Quantity":
            return _text(dict(_parts(_bytes(raw))).get(1, b""))
        case "IntOrString":
            parts = dict(_parts(_bytes(raw)))
            return _text(parts.get(3, b"")) if parts.get(1) else _signed(int(parts.get(2, 0)))
        case "RawExtension":
            content = _bytes(dict(_parts(_bytes(raw))).get(1, b""))
            return orjson.loads(content) if content else None
        case _ if kind in _messages():
            return _message(kind, _bytes(raw))
    raise ValueError(f"a value of type {kind} in the wrong form")


def _time(data: bytes, precision: str) -> str | None:
    parts = dict(_parts(data))
    seconds, nanos = (_signed(int(parts.get(number, 0))) for number in (1, 2))
    if not data:
        return None
    instant = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)
    return instant.isoformat(timespec=precision).replace("+00:00", "Z")
