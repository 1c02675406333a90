"""The rules for the schema of a CustomResourceDefinition: it is structural, with defaults that keep it."""

from collections.abc import Iterator
from typing import Any

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.schema import patterns, structural
from deploy.local.apiserver.schema.quick_checks import PRESERVE
from deploy.local.apiserver.schema.structural import EMBEDDED, INT_OR_STRING
from workers.api.kinds import Object

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_SCALARS = ("boolean", "integer", "number", "string")
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "deprecated", "discriminator", "id", "patternProperties")
_LIST_TYPE, _KEYS, _MAP_TYPE = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
#: What a condition on values may not say, and how that is refused.
_NOT_IN_CONDITIONS = {
    **dict.fromkeys(("default", "additionalProperties", _LIST_TYPE, _MAP_TYPE), "must be undefined to be structural"),
    **dict.fromkeys(("type", "title", "description", _KEYS), "must be empty to be structural"),
    **dict.fromkeys(("nullable", PRESERVE, EMBEDDED, INT_OR_STRING), "must be false to be structural"),
}
_INTEGER_OR_TEXT = [{"type": "integer"}, {"type": "string"}]


def problems(form: Object, path: str) -> Iterator[FieldError]:
    """Yields what is wrong with the schema of a version. path: of the schema."""
    if form.get("type") != "object":
        yield field_errors.invalid(f"{path}.type", form.get("type", ""), "must be object at the root")
    yield from _of_identity(form, path)
    yield from _of_place(form, path)


def _of_identity(form: Object, path: str) -> Iterator[FieldError]:
    """apiVersion, kind and metadata, which every object has, may hardly be restricted."""
    known = form.get("properties") or {}
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        if isinstance(part := known.get(name), dict) and (found := part.get("type")) != wanted:
            yield field_errors.invalid(f"{path}.properties[{name}].type", found or "", f"must be {wanted}")
    metadata = known.get("metadata")
    if not isinstance(metadata, dict):
        return
    if "default" in metadata:
        yield field_errors.forbidden(f"{path}.properties[metadata].default", "must not be set in top-level metadata")
    fields = metadata.get("properties") or {}
    if metadata.keys() - {"type", "description", "default", "properties"} or fields.keys() - {"name", "generateName"}:
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield field_errors.forbidden(f"{path}.properties[metadata]", detail)


def _of_place(form: Any, path: str) -> Iterator[FieldError]:
    """A structural schema: a type everywhere, and nothing that makes it depend on other places."""
    if not isinstance(form, dict):
        return
    for field in _UNSUPPORTED:
        if field in form:
            yield field_errors.forbidden(f"{path}.{field}", f"{field} is not supported")
    yield from _of_type(form, path)
    if form.get("properties") and form.get("additionalProperties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield field_errors.forbidden(f"{path}.additionalProperties", detail)
    if form.get("uniqueItems"):
        yield field_errors.forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if pattern := form.get("pattern"):
        try:
            patterns.compiled(pattern)
        except ValueError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield field_errors.invalid(f"{path}.pattern", pattern, why)
    yield from _of_list(form, path)
    yield from _of_conditions(form, path)
    yield from _of_default(form, path)
    for name, member in (form.get("properties") or {}).items():
        yield from _of_place(member, f"{path}.properties[{name}]")
    yield from _of_place(form.get("items"), f"{path}.items")
    yield from _of_place(form.get("additionalProperties"), f"{path}.additionalProperties")


def _of_type(form: Object, path: str) -> Iterator[FieldError]:
    kind = form.get("type")
    if kind is None and not form.get(INT_OR_STRING) and not form.get(PRESERVE):
        yield field_errors.required(f"{path}.type", "must not be empty for specified object fields")
    elif kind is not None and kind not in _TYPES:
        yield field_errors.not_supported(f"{path}.type", kind, _TYPES)
    if kind == "array" and "items" not in form:
        yield field_errors.required(f"{path}.items", "must be specified")
    if isinstance(form.get("items"), list):
        yield field_errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if form.get(PRESERVE) is False:
        yield field_errors.invalid(f"{path}.{PRESERVE}", False, "must be true or undefined")
    if form.get(EMBEDDED):
        if kind != "object":
            yield field_errors.invalid(f"{path}.type", kind or "", f"must be object if {EMBEDDED} is true")
        if not form.get("properties") and not form.get(PRESERVE):
            detail = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
            yield field_errors.required(f"{path}.properties", detail)
    if (merged := form.get(_MAP_TYPE)) is not None:
        if kind != "object":
            yield field_errors.invalid(f"{path}.type", kind or "", f"must be object if {_MAP_TYPE} is specified")
        if merged not in ("atomic", "granular"):
            yield field_errors.not_supported(f"{path}.{_MAP_TYPE}", merged, ("atomic", "granular"))


def _of_list(form: Object, path: str) -> Iterator[FieldError]:
    """The kind of a list, and what its items must be for it."""
    sort, keys = form.get(_LIST_TYPE), form.get(_KEYS) or []
    items = form["items"] if isinstance(form.get("items"), dict) else {}
    if sort is None:
        if keys:
            yield field_errors.required(f"{path}.{_LIST_TYPE}", f"must be map if {_KEYS} is non-empty")
        return
    if form.get("type") != "array":
        detail = f"must be array if {_LIST_TYPE} is specified"
        yield field_errors.invalid(f"{path}.type", form.get("type") or "", detail)
    if sort not in ("atomic", "set", "map"):
        yield field_errors.not_supported(f"{path}.{_LIST_TYPE}", sort, ("atomic", "set", "map"))
    if keys and sort != "map":
        yield field_errors.forbidden(f"{path}.{_KEYS}", f"must not be specified if {_LIST_TYPE} is {sort}")
    if sort in ("set", "map") and items.get("nullable"):
        yield field_errors.forbidden(f"{path}.items.nullable", f"cannot be nullable when {_LIST_TYPE} is {sort}")
    if sort == "map":
        yield from _of_keys(items, keys, path)
    elif sort == "set":
        what = {"object": _MAP_TYPE, "array": _LIST_TYPE}.get(items.get("type", ""))
        unset = None if what == _MAP_TYPE else "atomic"
        if what and (found := items.get(what, unset)) != "atomic":
            detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
            yield field_errors.invalid(f"{path}.items.{what}", found, detail)


def _of_keys(items: Object, keys: list[str], path: str) -> Iterator[FieldError]:
    if items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        yield field_errors.invalid(f"{path}.items.type", items.get("type") or "", detail)
    if not keys:
        yield field_errors.required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    if len({*keys}) < len(keys):
        yield field_errors.invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
    known = items.get("properties") or {}
    if items.get("type") == "object" and not known.keys() >= {*keys}:
        yield field_errors.invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
    for key in dict.fromkeys(keys):
        if not isinstance(part := known.get(key), dict):
            continue
        place = f"{path}.items.properties[{key}]"
        if part.get("type") not in _SCALARS:
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield field_errors.invalid(f"{place}.type", part.get("type") or "", detail)
        if "default" not in part and key not in (items.get("required") or ()):
            detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
            yield field_errors.required(f"{place}.default", detail)


def _of_conditions(form: Object, path: str) -> Iterator[FieldError]:
    """allOf, anyOf, oneOf and not restrict values and declare nothing."""
    for kind in _ALTERNATIVES:
        for index, part in enumerate(form.get(kind) or ()):
            if not (form.get(INT_OR_STRING) and _is_integer_or_text(form, kind, index)):
                yield from _of_condition(part, f"{path}.{kind}[{index}]")
    yield from _of_condition(form.get("not"), f"{path}.not")


def _is_integer_or_text(form: Object, kind: str, index: int) -> bool:
    """True for the two forms in which types of `x-kubernetes-int-or-string` may be repeated."""
    if kind == "anyOf":
        return bool(form["anyOf"] == _INTEGER_OR_TEXT)
    return kind == "allOf" and index == 0 and form["allOf"][0] == {"anyOf": _INTEGER_OR_TEXT}


def _of_condition(form: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(form, dict):
        return
    for field, detail in _NOT_IN_CONDITIONS.items():
        if field in form:
            yield field_errors.forbidden(f"{path}.{field}", detail)
    for name, part in (form.get("properties") or {}).items():
        if name == "metadata":
            yield field_errors.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
        yield from _of_condition(part, f"{path}.properties[{name}]")
    yield from _of_condition(form.get("items"), f"{path}.items")
    for kind in _ALTERNATIVES:
        for index, part in enumerate(form.get(kind) or ()):
            yield from _of_condition(part, f"{path}.{kind}[{index}]")
    yield from _of_condition(form.get("not"), f"{path}.not")


def _of_default(form: Object, path: str) -> Iterator[FieldError]:
    """A default keeps its schema as it is: what further defaults would add to it must be there."""
    value = form.get("default")
    if value is None:
        return
    place = f"{path}.default"
    if structural.pruner(form)(value)[1]:
        yield field_errors.invalid(place, value, "must not have unknown fields")
        return
    for error in structural.validator(form)(value):
        below = "" if error.field in ("", "<nil>") else f".{error.field}"
        yield FieldError(place + below.replace(".[", "["), error.reason, error.message)
