"""The protobuf form of an OpenAPI version 2 document, as far as these documents need it.

Field numbers are those of the published message types ``openapi.v2.Document``, ``Schema`` and what they contain.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from workers.api.kinds import Object

_VARINT, _DOUBLE, _BYTES = 0, 1, 2


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(int(value))


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _any(value: Any) -> bytes:
    """A value of any type: its text in YAML, of which JSON is a part."""
    return _text(2, value if isinstance(value, str) else orjson.dumps(value).decode())


def _schemas(number: int, schemas: Mapping[str, Object]) -> bytes:
    """A map from names to schemas, which is a list of pairs."""
    return b"".join(_bytes(number, _text(1, name) + _bytes(2, schema(form))) for name, form in schemas.items())


def _additional(number: int, value: Any) -> bytes:
    return _bytes(number, _integer(2, value) if isinstance(value, bool) else _bytes(1, schema(value)))


_MEMBERS: dict[str, Callable[[Any], bytes]] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "title": lambda value: _text(3, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _bytes(5, _any(value)),
    "multipleOf": lambda value: _double(6, value),
    "maximum": lambda value: _double(7, value),
    "exclusiveMaximum": lambda value: _integer(8, value),
    "minimum": lambda value: _double(9, value),
    "exclusiveMinimum": lambda value: _integer(10, value),
    "maxLength": lambda value: _integer(11, value),
    "minLength": lambda value: _integer(12, value),
    "pattern": lambda value: _text(13, value),
    "maxItems": lambda value: _integer(14, value),
    "minItems": lambda value: _integer(15, value),
    "uniqueItems": lambda value: _integer(16, value),
    "maxProperties": lambda value: _integer(17, value),
    "minProperties": lambda value: _integer(18, value),
    "required": lambda value: b"".join(_text(19, name) for name in value),
    "enum": lambda value: b"".join(_bytes(20, _any(item)) for item in value),
    "additionalProperties": lambda value: _additional(21, value),
    "type": lambda value: _bytes(22, _text(1, value)),
    "items": lambda value: _bytes(23, _bytes(1, schema(value))),
    "properties": lambda value: _bytes(25, _schemas(1, value)),
}


def schema(form: Object) -> bytes:
    """The message ``Schema``. Members that the message has no place for are left out."""
    known = b"".join(encode(form[name]) for name, encode in _MEMBERS.items() if name in form)
    extensions = (
        _bytes(31, _text(1, name) + _bytes(2, _any(value))) for name, value in form.items() if name.startswith("x-")
    )
    return known + b"".join(extensions)


def document(body: Object) -> bytes:
    """The message ``Document`` of a version 2 document without paths."""
    info = _text(1, body["info"]["title"]) + _text(2, body["info"]["version"])
    return _text(1, body["swagger"]) + _bytes(2, info) + _bytes(8, b"") + _bytes(9, _schemas(1, body["definitions"]))
