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


def _schemas(schemas: Mapping[str, Object]) -> bytes:
    """A map from names to schemas, which is a list of pairs."""
    return b"".join(_bytes(1, _text(1, name) + _bytes(2, schema(form))) for name, form in schemas.items())


def _additional(number: int, value: Any) -> bytes:
    return _bytes(number, _integer(2, value) if isinstance(value, bool) else _bytes(1, schema(value)))


#: By member of a schema, its number and encoder.
_MEMBERS: dict[str, tuple[int, Callable[[int, Any], bytes]]] = {
    **{"$ref": (1, _text), "format": (2, _text), "title": (3, _text), "description": (4, _text)},
    "default": (5, lambda number, value: _bytes(number, _any(value))),
    **{"multipleOf": (6, _double), "maximum": (7, _double), "exclusiveMaximum": (8, _integer)},
    **{"minimum": (9, _double), "exclusiveMinimum": (10, _integer), "maxLength": (11, _integer)},
    **{"minLength": (12, _integer), "pattern": (13, _text), "maxItems": (14, _integer), "minItems": (15, _integer)},
    **{"uniqueItems": (16, _integer), "maxProperties": (17, _integer), "minProperties": (18, _integer)},
    "required": (19, lambda number, value: b"".join(_text(number, name) for name in value)),
    "enum": (20, lambda number, value: b"".join(_bytes(number, _any(item)) for item in value)),
    "additionalProperties": (21, _additional),
    "type": (22, lambda number, value: _bytes(number, _text(1, value))),
    "items": (23, lambda number, value: _bytes(number, _bytes(1, schema(value)))),
    "properties": (25, lambda number, value: _bytes(number, _schemas(value))),
}


def schema(form: Object) -> bytes:
    """The message ``Schema``. Members that the message has no place for are left out."""
    known = b"".join(encode(number, form[name]) for name, (number, encode) in _MEMBERS.items() if name in form)
    extensions = (
        _bytes(31, _text(1, name) + _bytes(2, _any(value))) for name, value in form.items() if name.startswith("x-")
    )
    return known + b"".join(extensions)


def document(body: Object) -> bytes:
    """The message ``Document`` of a version 2 document without paths."""
    info = _text(1, body["info"]["title"]) + _text(2, body["info"]["version"])
    return _text(1, body["swagger"]) + _bytes(2, info) + _bytes(8, b"") + _bytes(9, _schemas(body["definitions"]))
