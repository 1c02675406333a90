"""Structural OpenAPI v3 schemas for CustomResourceDefinitions, from the typed models."""

from typing import Any

from workers.api.kinds import Object
from workers.api.model import Model

#: Keywords of JSON Schema that a structural schema must not or need not have.
_DROPPED = frozenset({"title", "$defs"})
_NULL = {"type": "null"}


def structural(model: type[Model]) -> Object:
    """Returns the schema of one model with all references resolved.

    A field that may be None becomes one that may be absent; a free-form object preserves unknown fields. Defaults are
    kept for texts, numbers and flags: the server fills them in, so that a stored object shows them.
    """
    document = model.model_json_schema(by_alias=True)
    schema = _node(document, document.get("$defs", {}))
    assert isinstance(schema, dict)
    return schema


def _node(node: Any, definitions: Object) -> Any:
    if isinstance(node, list):
        return [_node(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        target = definitions[reference.removeprefix("#/$defs/")]
        return _node({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    # Alternatives without null constrain a value beside its type, and stay.
    if _NULL in (options := node.get("anyOf", ())):
        (given,) = (option for option in options if option != _NULL)
        return _node({**given, **{key: value for key, value in node.items() if key != "anyOf"}}, definitions)
    return dict(_members(node, definitions))


def _members(node: Object, definitions: Object) -> list[tuple[str, Any]]:
    members: list[tuple[str, Any]] = []
    for key, value in node.items():
        if key == "properties":
            # The names in here are fields, not keywords: a field may be called "title".
            # The API server drops an empty list of properties.
            if value:
                members.append((key, {name: _node(each, definitions) for name, each in value.items()}))
        elif key == "additionalProperties" and value is True:
            members.append(("x-kubernetes-preserve-unknown-fields", True))
        elif key == "default":
            # kube-apiserver 1.20 reads an empty text as null.
            if isinstance(value, str | int | float) and value != "":
                members.append((key, value))
        elif key not in _DROPPED:
            members.append((key, _node(value, definitions)))
    return members
