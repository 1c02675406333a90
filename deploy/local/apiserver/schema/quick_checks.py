"""Fast paths of a structural schema: compiled tests that accept nearly all objects that are ever written.

Both functions compile a test from the schema once. Its True is certain; after False the full check (`structural`)
decides, which takes several times as long.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from deploy.local.apiserver.schema import formats
from workers.api.kinds import Object

Test = Callable[[Any], bool]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
#: Values without fields.
_PLAIN = frozenset({str, int, float, bool, type(None)})
#: Keywords of a schema that do not restrict values.
_NOT_RESTRICTING = frozenset(
    {"default", "description", "example", "externalDocs", "title", PRESERVE, "x-kubernetes-validations"}
)
#: By type, the keywords that the compiled tests cover.
_COVERED: Mapping[str, frozenset[str]] = {
    "string": frozenset({"enum", "format", "maxLength", "minLength"}),
    # int32 and int64 restrict nothing.
    "integer": frozenset({"format"}),
    "boolean": frozenset(),
    "array": frozenset({"items", "x-kubernetes-list-type"}),
    "object": frozenset({"properties", "additionalProperties", "required"}),
}


def in_64_bits(value: int) -> bool:
    """True for a whole number that Go reads as one; it makes a float of any other."""
    return -(2**63) <= value < 2**63


def knows(schema: Object) -> Test:
    """Returns the test that a schema knows all fields of a value."""
    fields = {name: knows(known) for name, known in (schema.get("properties") or {}).items()}
    items = knows(schema["items"]) if isinstance(schema.get("items"), dict) else None
    more = schema.get("additionalProperties")
    others: Test | None = knows(more) if isinstance(more, dict) else None
    anything = bool(schema.get(PRESERVE)) or more is True

    def test(value: Any) -> bool:
        if type(value) is dict:
            for name, member in value.items():
                known = fields.get(name, others)
                if known is None:
                    if not anything:
                        return False
                elif type(member) not in _PLAIN and not known(member):
                    return False
        elif type(value) is list and items is not None:
            for item in value:
                if type(item) not in _PLAIN and not items(item):
                    return False
        return True

    return test


def fits(schema: Object, otherwise: Callable[[Object, Any], bool]) -> Test:
    """Returns the test that a value keeps a schema. otherwise: the full check, for schemas with other keywords."""
    kind = str(schema.get("type"))
    keywords = schema.keys() - _NOT_RESTRICTING - {"type", "nullable"}
    if (
        kind not in _COVERED
        or not keywords <= _COVERED[kind]
        or schema.get("x-kubernetes-list-type", "atomic") != "atomic"
    ):
        return partial(otherwise, schema)
    match kind:
        case "string":
            return _text(schema)
        case "integer":
            return lambda value: type(value) is int and in_64_bits(value)
        case "boolean":
            return lambda value: type(value) is bool
        case "array":
            items = schema.get("items")
            item = fits(items, otherwise) if isinstance(items, dict) else None
            return lambda value: type(value) is list and (item is None or all(map(item, value)))
        case _:
            return _object(schema, otherwise)


def _text(schema: Object) -> Test:
    least, most = schema.get("minLength") or 0, schema.get("maxLength")
    words = schema.get("enum")
    has_form = formats.of(schema.get("format"))

    def test(value: Any) -> bool:
        return (
            type(value) is str
            and (words is None or value in words)
            and len(value) >= least
            and (most is None or len(value) <= most)
            and (has_form is None or has_form(value))
        )

    return test


def _object(schema: Object, otherwise: Callable[[Object, Any], bool]) -> Test:
    fields = {name: fits(known, otherwise) for name, known in (schema.get("properties") or {}).items()}
    more = schema.get("additionalProperties")
    others: Test | None = fits(more, otherwise) if isinstance(more, dict) else None
    required = tuple(schema.get("required") or ())

    def test(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, member in value.items():
            known = fields.get(name, others)
            if known is not None and not known(member):
                return False
        return True

    return test
