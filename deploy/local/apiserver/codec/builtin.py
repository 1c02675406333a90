"""Reading built-in objects as a server written in Go reads them: what does not fit is refused, what is zero vanishes.

Each type is compiled once into a closure; reading a Job of 3 kB then takes some tens of microseconds.
"""

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from deploy.local.apiserver.codec.definitions import Type, TypeField, definition, spelled
from deploy.local.apiserver.codec.field_errors import DecodeError
from workers.api import quantities

#: The place of a value: (its parent's place, field name or index, name of the struct the field belongs to).
Place = tuple[Any, str | int, str] | None
#: Reads one value. The list collects the paths of unknown fields.
Decoder = Callable[[Any, Place, list[str]], Any]

#: Texts whose absence means something else than their being empty (pointers in Go): kept when empty.
_KEPT_EMPTY = frozenset(
    {"storageClassName", "managedBy", "timeZone", "holderIdentity", "appProtocol", "runtimeClassName", "volumeMode"}
    | {"podReplacementPolicy", "completionMode", "preemptionPolicy", "failedIndexes", "succeededIndexes"}
)
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: Times with microseconds must have all six digits of them: Go's layout asks for exactly that.
_MICROS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{6})(Z|[+-]\d\d:\d\d)")


def path(place: Place) -> str:
    """A place as strict decoding names it: ``spec.containers[0].image``."""
    parts: list[str] = []
    while place is not None:
        place, name, _struct = place
        parts.append(f"[{name}]" if isinstance(name, int) else f".{name}")
    return "".join(reversed(parts)).removeprefix(".")


def _mismatch(value: Any, place: Place, wanted: str) -> DecodeError:
    """Go's words for a JSON value of the wrong type; its path has no list indexes."""
    match value:
        case bool():
            kind = "bool"
        case str():
            kind = "string"
        case int() if wanted.startswith("int"):
            kind = f"number {value}"
        case float() if wanted.startswith("int"):
            kind = f"number {value}"
        case int() | float():
            kind = "number"
        case dict():
            kind = "object"
        case _:
            kind = "array"
    names: list[str] = []
    struct = ""
    while place is not None:
        place, name, owner = place
        if isinstance(name, str) and owner:
            names.append(name)
            struct = struct or owner
    if not names:
        return DecodeError(f"json: cannot unmarshal {kind} into Go value of type {wanted}")
    where = ".".join([struct, *reversed(names)])
    return DecodeError(f"json: cannot unmarshal {kind} into Go struct field {where} of type {wanted}")


def _string(value: Any, place: Place, _unknown: list[str]) -> str:
    if type(value) is not str:
        raise _mismatch(value, place, "string")
    return value


def _bool(value: Any, place: Place, _unknown: list[str]) -> bool:
    if type(value) is not bool:
        raise _mismatch(value, place, "bool")
    return value


def _integer(bits: int) -> Decoder:
    limit = 1 << (bits - 1)

    def decode(value: Any, place: Place, _unknown: list[str]) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise _mismatch(value, place, f"int{bits}")
        return value

    return decode


#: Also the number of what may be a number or a text.
_int32 = _integer(32)


def _float(value: Any, place: Place, _unknown: list[str]) -> float:
    if type(value) is not int and type(value) is not float:
        raise _mismatch(value, place, "float64")
    return value


def _quantity(value: Any, _place: Place, _unknown: list[str]) -> str:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        try:
            return quantities.canonical(str(value))
        except ValueError as error:
            raise DecodeError(str(error)) from None
    raise DecodeError(quantities.MALFORMED)


def _moment(value: Any, place: Place, wanted: str) -> datetime:
    if not isinstance(value, str):
        raise _mismatch(value, place, wanted)
    match = (_RFC3339 if wanted == "v1.Time" else _MICROS).fullmatch(value)
    try:
        if match is None:
            raise ValueError(value)
        fraction = (match[2] or "")[:7]
        return datetime.fromisoformat(f"{match[1]}{fraction}{match[3]}").astimezone(UTC)
    except (ValueError, OverflowError):
        form = "2006-01-02T15:04:05Z07:00" if wanted == "v1.Time" else "2006-01-02T15:04:05.000000Z07:00"
        raise DecodeError(f'parsing time "{value}" as "{form}": cannot parse "{value}" as "2006"') from None


def _time(value: Any, place: Place, _unknown: list[str]) -> str:
    """A time of whole seconds, in UTC."""
    if type(value) is str and _SECONDS.fullmatch(value):
        _moment(value, place, "v1.Time")
        return value
    return _moment(value, place, "v1.Time").strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any, place: Place, _unknown: list[str]) -> str:
    return _moment(value, place, "v1.MicroTime").strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bytes(value: Any, place: Place, _unknown: list[str]) -> str:
    if type(value) is not str:
        raise _mismatch(value, place, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        bad = re.search("[^A-Za-z0-9+/=]", value)
        raise DecodeError(f"illegal base64 data at input byte {bad.start() if bad else len(value)}") from None
    return value


_LEAVES: dict[str, Decoder] = {
    "string": _string,
    "bool": _bool,
    "int32": _int32,
    "int64": _integer(64),
    "float64": _float,
    "v1.Time": _time,
    "v1.MicroTime": _micro_time,
    "[]uint8": _bytes,
    "quantity": _quantity,
    "int-or-string": lambda value, place, unknown: value if isinstance(value, str) else _int32(value, place, unknown),
    "any": lambda value, _place, _unknown: value,
}
_ZEROS: dict[str, Any] = {
    **{"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "[]uint8": ""},
    **{"quantity": "0", "int-or-string": 0},
}


@cache
def decoder(kind: Type) -> Decoder:
    """Returns the decoder of a type."""
    if kind.items is not None:
        return _list(kind.items)
    if kind.values is not None:
        return _map(kind.values)
    return _LEAVES.get(kind.name) or _struct(kind.name)


def _go_type(kind: Type) -> str:
    if kind.items is not None:
        return f"[]{_go_type(kind.items)}"
    if kind.values is not None:
        return f"map[string]{_go_type(kind.values)}"
    if not kind.struct:
        return {"quantity": "resource.Quantity", "any": "interface {}"}.get(kind.name, kind.name)
    name, version = spelled(kind.name)
    return f"{version}.{name}"


def _zero(kind: Type) -> Any:
    """Returns the zero value that null decodes to in a list or a map, where nothing can be absent."""
    return [] if kind.items is not None else _ZEROS.get(kind.name, {})


def _list(items: Type) -> Decoder:
    each, go_type, zero = decoder(items), f"[]{_go_type(items)}", _zero(items)

    def decode(value: Any, place: Place, unknown: list[str]) -> list[Any]:
        if type(value) is not list:
            raise _mismatch(value, place, go_type)
        return [zero if item is None else each(item, (place, index, ""), unknown) for index, item in enumerate(value)]

    return decode


def _map(values: Type) -> Decoder:
    each, go_type, zero = decoder(values), f"map[string]{_go_type(values)}", _zero(values)

    def decode(value: Any, place: Place, unknown: list[str]) -> dict[str, Any]:
        if type(value) is not dict:
            raise _mismatch(value, place, go_type)
        return {name: zero if item is None else each(item, (place, name, ""), unknown) for name, item in value.items()}

    return decode


def _keeps_empty(field: TypeField) -> bool:
    """True if the field is written back even when it is empty or zero."""
    kind = field.type
    if field.omitted:
        return False
    if kind.items is None and kind.values is None and kind.name not in ("string", "[]uint8"):
        return True
    return field.required or field.name in _KEPT_EMPTY


def _struct(model: str) -> Decoder:
    struct, version = spelled(model)
    go_type = f"{version}.{struct}"
    fields: dict[str, tuple[Decoder, bool]] = {}

    def decode(value: Any, place: Place, unknown: list[str]) -> dict[str, Any]:
        if type(value) is not dict:
            raise _mismatch(value, place, go_type)
        if not fields:  # filled on first use: types refer to themselves, and loading a type takes milliseconds
            known_fields = definition(model).fields.values()
            fields.update((field.name, (decoder(field.type), _keeps_empty(field))) for field in known_fields)
        result = {}
        for name, member in value.items():
            known = fields.get(name)
            if known is None:
                unknown.append(path((place, name, struct)))
            elif member is not None:
                read = known[0](member, (place, name, struct), unknown)
                if read or known[1]:
                    result[name] = read
        return result

    return decode
