"""Schemas of definitions that a real API server refuses, with what it names, and some that it accepts."""

from typing import Any

TEXT = {"type": "string"}
LIST = {"type": "array", "x-kubernetes-list-type": "map"}
SET = {"type": "array", "x-kubernetes-list-type": "set"}


def keyed(properties: dict[str, Any], *keys: str, **items: Any) -> dict[str, Any]:
    """A list of type map."""
    return {
        **LIST,
        "x-kubernetes-list-map-keys": [*keys],
        "items": {"type": "object", "properties": properties, **items},
    }


def struct(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


#: By what is tested: the schema of the field `a`, and the fields below it that are named.
FIELDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a default of another type": ({"type": "integer", "default": "x"}, ["default"]),
    "one out of bounds": ({"type": "integer", "maximum": 2, "default": 3}, ["default"]),
    "one that is none of the words": ({**TEXT, "enum": ["x"], "default": "y"}, ["default"]),
    "one of another form": ({**TEXT, "format": "ipv4", "default": "y"}, ["default"]),
    "one with an unknown field": ({**struct(b=TEXT), "default": {"c": 1}}, ["default"]),
    "one without a required field": (
        {**struct(b={**TEXT, "default": "z"}), "required": ["b"], "default": {}},
        ["default.b"],
    ),
    "one in another": (
        {**struct(b={"type": "integer", "default": "q"}), "default": {"b": "x"}},
        ["default.b", "properties[b].default"],
    ),
    "one of an item": ({"type": "array", "items": struct(q={**TEXT, "default": 1})}, ["items.properties[q].default"]),
    "one of an object": (
        {"type": "object", "x-kubernetes-embedded-resource": True, "default": {}, "properties": {"b": TEXT}},
        ["default.apiVersion", "default.kind"],
    ),
    "null": ({**TEXT, "default": None}, []),
    "a default that fits": ({"type": "integer", "default": 1.0}, []),
    "no keys": ({**LIST, "items": struct(k=TEXT)}, ["x-kubernetes-list-map-keys"]),
    "a key that is no field": (keyed({"k": TEXT}, "z"), ["x-kubernetes-list-map-keys"]),
    "a key twice": (keyed({"k": TEXT}, "k", "k", required=["k"]), ["x-kubernetes-list-map-keys"]),
    "a key that may be missing": (keyed({"k": TEXT}, "k"), ["items.properties[k].default"]),
    "a key that is an object": (keyed({"k": {"type": "object"}}, "k", required=["k"]), ["items.properties[k].type"]),
    "items that may be null": (keyed({"k": TEXT}, "k", required=["k"], nullable=True), ["items.nullable"]),
    "a map of texts": ({**LIST, "x-kubernetes-list-map-keys": ["k"], "items": TEXT}, ["items.type"]),
    "a map": (keyed({"k": {**TEXT, "default": "x"}}, "k"), []),
    "keys of no map": (
        {"type": "array", "x-kubernetes-list-map-keys": ["k"], "items": struct(k=TEXT)},
        ["x-kubernetes-list-type"],
    ),
    "an unknown kind of list": ({**SET, "x-kubernetes-list-type": "bag", "items": TEXT}, ["x-kubernetes-list-type"]),
    "a list that is none": ({**struct(b=TEXT), "x-kubernetes-list-type": "set"}, ["type"]),
    "a set of objects": ({**SET, "items": struct(b=TEXT)}, ["items.x-kubernetes-map-type"]),
    "a set of whole objects": ({**SET, "items": {**struct(b=TEXT), "x-kubernetes-map-type": "atomic"}}, []),
    "a set of lists": ({**SET, "items": {"type": "array", "items": TEXT}}, []),
    "a set with null": ({**SET, "items": {**TEXT, "nullable": True}}, ["items.nullable"]),
    "an unknown kind of object": ({**struct(b=TEXT), "x-kubernetes-map-type": "bag"}, ["x-kubernetes-map-type"]),
    "an object that is none": ({"type": "array", "items": TEXT, "x-kubernetes-map-type": "atomic"}, ["type"]),
    "several schemas of items": ({"type": "array", "items": [TEXT]}, ["items"]),
    "fields that stay or not": (
        {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
        ["x-kubernetes-preserve-unknown-fields"],
    ),
    "an object that is a text": ({**TEXT, "x-kubernetes-embedded-resource": True}, ["properties", "type"]),
    "a type in a condition": ({**TEXT, "anyOf": [TEXT]}, ["anyOf[0].type"]),
    "a default in a condition": ({**TEXT, "allOf": [{"default": "x"}]}, ["allOf[0].default"]),
    "a description in a condition": ({**TEXT, "not": {"description": "x"}}, ["not.description"]),
    "a type in a field of a condition": (
        {**struct(b=TEXT), "oneOf": [{"properties": {"b": TEXT}}]},
        ["oneOf[0].properties[b].type"],
    ),
    "the types of a number or text": (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        [],
    ),
    "those beside a pattern": (
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^a"}],
        },
        [],
    ),
    "a condition": ({**struct(b=TEXT, c=TEXT), "oneOf": [{"required": ["b"]}, {"required": ["c"]}]}, []),
}
#: The same for the properties of the schema itself.
ROOTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "metadata with a default": ({"metadata": {"type": "object", "default": {}}}, ["properties[metadata].default"]),
    "metadata with labels": ({"metadata": struct(labels={"type": "object"})}, ["properties[metadata]"]),
    "metadata with a name": ({"metadata": struct(name={**TEXT, "maxLength": 3})}, []),
    "a kind that is a number": ({"kind": {"type": "integer"}}, ["properties[kind].type"]),
}
#: By what is tested: a schema, and the fields below it that are named.
FAULTS = {
    **{name: (struct(a=form), [f"properties[a].{field}" for field in found]) for name, (form, found) in FIELDS.items()},
    **{name: (struct(**properties), found) for name, (properties, found) in ROOTS.items()},
}
