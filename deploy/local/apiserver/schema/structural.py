"""The structural schemas of CustomResourceDefinitions: what they prune, fill in and refuse.

A structural schema is an OpenAPI v3 schema in which every field has a type. The sentences are those of a real API
server. Rules in the Common Expression Language (``x-kubernetes-validations``) are not evaluated.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import orjson

from deploy.local.apiserver.codec import field_errors as fields
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.schema import formats, patterns, quick_checks
from deploy.local.apiserver.schema.quick_checks import PRESERVE, in_64_bits
from workers.api.kinds import Object

INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
#: A number with a fraction of zero, as orjson writes it before what may follow; texts may have it, too.
_FRACTION_OF_ZERO = re.compile(rb"\.0[,}\]]")
_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


def pruner(schema: Object) -> Callable[[Any], tuple[Any, list[str]]]:
    """Returns the function that removes unknown fields and names their paths."""

    knows = quick_checks.knows(schema)

    def prune(value: Any) -> tuple[Any, list[str]]:
        if knows(value):
            return value, []
        unknown: list[str] = []
        return _prune(schema, value, "", unknown, keep=False), unknown

    return prune


def _prune(schema: Object, value: Any, path: str, unknown: list[str], *, keep: bool) -> Any:
    keep = keep or bool(schema.get(PRESERVE))
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_prune(items, item, f"{path}[{index}]", unknown, keep=False) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    result = {}
    for name, member in value.items():
        place = f"{path}.{name}" if path else name
        if (known := properties.get(name)) is not None:
            result[name] = _prune(known, member, place, unknown, keep=False)
        elif isinstance(others, dict):
            result[name] = _prune(others, member, place, unknown, keep=False)
        elif keep or others is True or (schema.get(EMBEDDED) and name in _IDENTITY):
            result[name] = member
        else:
            unknown.append(place)
    return result


def defaulter(schema: Object) -> Callable[[Any], Any]:
    """Returns the function that fills in defaults: for absent fields, and for nulls where null is not allowed.

    Such nulls without a default are left out. Whole numbers lose a fraction of zero, as Go writes them.
    """
    filling = _filling(schema)

    def default(value: Any) -> Any:
        filled = _default(filling, value) if filling else value
        # Nearly all objects have neither; their text costs a small part of a walk through the schema.
        text = _written(filled)
        if text is None or b"null" in text:
            filled = _without_nulls(schema, filled)
        return without_fractions(filled) if text is None or _FRACTION_OF_ZERO.search(text) else filled

    return default


def _written(value: Any) -> bytes | None:
    """Returns a value as JSON; None for one with a whole number beyond 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return None


def without_fractions(value: Any) -> Any:
    """Returns a value whose whole numbers have no fraction of zero: ``2`` for ``2.0``."""
    match value:
        case dict():
            return {name: without_fractions(member) for name, member in value.items()}
        case list():
            return [without_fractions(item) for item in value]
        case float() if _is_whole(value):
            return int(value)
        case _:
            return value


def _without_nulls(schema: Object, value: Any) -> Any:
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_without_nulls(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    others = others if isinstance(others, dict) else None
    result = {}
    for name, member in value.items():
        known = properties.get(name, others)
        if known is None:
            result[name] = member
        elif member is not None or known.get("nullable"):
            result[name] = _without_nulls(known, member)
    return result


def _filling(schema: Object) -> Object:
    """Returns the part of a schema that contains defaults; empty without any."""
    fields = {name: _filling(known) for name, known in (schema.get("properties") or {}).items()}
    parts = {
        name: _filling(part) for name in ("items", "additionalProperties") if isinstance(part := schema.get(name), dict)
    }
    found: Object = {name: part for name, part in parts.items() if part}
    if "additionalProperties" in found or any(fields.values()):
        found["properties"] = fields
    if "default" in schema:
        found["default"] = schema["default"]
    if found and schema.get("nullable"):
        found["nullable"] = True
    return found


def _default(schema: Object, value: Any) -> Any:
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_default(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    result = dict(value)
    properties = schema.get("properties") or {}
    for name, known in properties.items():
        if "default" in known and (name not in result or (result[name] is None and not known.get("nullable"))):
            result[name] = known["default"]
        if known and name in result:
            result[name] = _default(known, result[name])
    if isinstance(others := schema.get("additionalProperties"), dict):
        for name in result.keys() - properties.keys():
            is_unset = "default" in others and result[name] is None and not others.get("nullable")
            result[name] = _default(others, others["default"] if is_unset else result[name])
    return result


def validator(schema: Object) -> Callable[[Any], list[FieldError]]:
    """Returns the function that lists the errors of an object."""
    fits = quick_checks.fits(schema, _fits)
    return lambda value: [] if fits(value) else list(_validate(schema, value, ""))


def _validate(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    if value is None and schema.get("nullable"):
        return
    if wrong := _wrong_type(schema, value, path):
        yield wrong
        return
    match value:
        case str():
            yield from _string(schema, value, path)
        case bool():
            pass
        case int() | float():
            yield from _number(schema, value, path)
        case list():
            yield from _array(schema, value, path)
        case dict():
            yield from _object(schema, value, path)
    if "enum" in schema and value not in schema["enum"]:
        yield fields.not_supported(path, value, (str(item) for item in schema["enum"]))
    yield from _combined(schema, value, path)


def _json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer" if in_64_bits(value) else "number"
        case float():
            return "integer" if _is_whole(value) else "number"
        case list():
            return "array"
        case _:
            return "object"


def _is_whole(value: float) -> bool:
    """True for a whole number that a float stands for alone; beyond 53 bits a float stands for its neighbours, too."""
    return value.is_integer() and abs(value) < 2**53


def _wrong_type(schema: Object, value: Any, path: str) -> FieldError | None:
    found = _json_type(value)
    if schema.get(INT_OR_STRING):
        wanted, fine = "integer,string", found in ("integer", "string")
    else:
        wanted = schema.get("type") or found
        fine = wanted == found or (wanted == "number" and found == "integer")
    if fine:
        return None
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return FieldError(path or "<nil>", "FieldValueTypeInvalid", message)


def _rule(path: str, value: Any, sentence: str) -> FieldError:
    return fields.invalid(path, value, f"{path} in body {sentence}")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of a schema; one that is none of Go's may be stored already, and is read as Python's."""
    try:
        return patterns.compiled(text)
    except ValueError:
        return re.compile(text)


def _string(schema: Object, value: str, path: str) -> Iterator[FieldError]:
    if (limit := schema.get("maxLength")) is not None and len(value) > limit:
        yield FieldError(path, "FieldValueTooLong", f"Too long: may not be longer than {limit}")
    if (limit := schema.get("minLength")) is not None and len(value) < limit:
        yield _rule(path, value, f"should be at least {limit} chars long")
    if (pattern := schema.get("pattern")) is not None and not _pattern(pattern).search(value):
        yield _rule(path, value, f"should match '{pattern}'")
    form = schema.get("format")
    if (has_form := formats.of(form)) is not None and not has_form(value):
        yield _rule(path, value, f"must be of type {form}: {fields.shown(value)}")


def _number(schema: Object, value: float, path: str) -> Iterator[FieldError]:
    if (limit := schema.get("maximum")) is not None:
        exclusive = schema.get("exclusiveMaximum")
        if value > limit or (exclusive and value == limit):
            yield _rule(path, value, f"should be less than {'' if exclusive else 'or equal to '}{limit}")
    if (limit := schema.get("minimum")) is not None:
        exclusive = schema.get("exclusiveMinimum")
        if value < limit or (exclusive and value == limit):
            yield _rule(path, value, f"should be greater than {'' if exclusive else 'or equal to '}{limit}")
    if (step := schema.get("multipleOf")) is not None and value % step:
        yield _rule(path, value, f"should be a multiple of {step}")


def _array(schema: Object, value: list[Any], path: str) -> Iterator[FieldError]:
    if (limit := schema.get("maxItems")) is not None and len(value) > limit:
        yield fields.too_many(path, len(value), limit)
    if (limit := schema.get("minItems")) is not None and len(value) < limit:
        yield _rule(path, len(value), f"should have at least {limit} items")
    if schema.get("uniqueItems") and any(item in value[:index] for index, item in enumerate(value)):
        yield _rule(path, value, "shouldn't contain duplicates")
    if isinstance(items := schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _validate(items, item, f"{path}[{index}]")
    match schema.get("x-kubernetes-list-type"):
        case "set":
            keys = list(value)
        case "map":
            names = schema.get("x-kubernetes-list-map-keys") or ()
            keys = [{name: item.get(name) for name in names} if isinstance(item, dict) else item for item in value]
        case _:
            return
    yield from _duplicates(keys, path)


def _duplicates(keys: list[Any], path: str) -> Iterator[FieldError]:
    """Refuses items that were there before. In linear time, by their JSON: a body may have a million of them."""
    seen: set[bytes] = set()
    for index, key in enumerate(keys):
        # 1 and 1.0 are one number, 1 and true are two values.
        whole = int(key) if isinstance(key, float) and key.is_integer() else key
        text = orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)
        if text in seen:
            yield fields.duplicate(f"{path}[{index}]", key)
        seen.add(text)


def _object(schema: Object, value: Object, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield fields.required(_join(path, name))
    for name, member in value.items():
        if (known := properties.get(name)) is not None:
            yield from _validate(known, member, _join(path, name))
        elif isinstance(others, dict):
            yield from _validate(others, member, _join(path, name))
    if (limit := schema.get("maxProperties")) is not None and len(value) > limit:
        yield fields.too_many(path, len(value), limit)
    if (limit := schema.get("minProperties")) is not None and len(value) < limit:
        yield _rule(path, len(value), f"should have at least {limit} properties")
    if schema.get(EMBEDDED):
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield fields.required(_join(path, name), "must not be empty")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _combined(schema: Object, value: Any, path: str) -> Iterator[FieldError]:
    for part in schema.get("allOf") or ():
        yield from _validate(part, value, path)
    if (parts := schema.get("anyOf")) and not any(_fits(part, value) for part in parts):
        yield fields.invalid(path, "", f'"{path}" {fields.NO_ALTERNATIVE}')
    if parts := schema.get("oneOf"):
        count = sum(_fits(part, value) for part in parts)
        if count != 1:
            found = f"Found {count} valid alternatives" if count else "Found none valid"
            yield fields.invalid(path, "", f'"{path}" must validate one and only one schema (oneOf). {found}')
    if (part := schema.get("not")) is not None and _fits(part, value):
        yield fields.invalid(path, "", f'"{path}" must not validate the schema (not)')


def _fits(schema: Object, value: Any) -> bool:
    return next(_validate(schema, value, ""), None) is None
