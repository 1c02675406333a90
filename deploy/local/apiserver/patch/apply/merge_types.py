"""The types of fields as server-side apply sees them: which values are owned as a whole and which are merged by member.

Built-in kinds are read off their definitions, custom resources off their schemas (``x-kubernetes-list-type``,
``x-kubernetes-list-map-keys``, ``x-kubernetes-map-type``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from typing import Any

from deploy.local.apiserver.codec import protobuf_objects
from deploy.local.apiserver.codec.definitions import Type, TypeField, definition, model_of
from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.apply import field_sets
from workers.api.kinds import Kind, Object


class MergeForm(Enum):
    """The treatment of a value."""

    #: Owned as a whole: a plain value, or an object or list that is atomic.
    LEAF = "leaf"
    #: An object whose members are owned one by one.
    MAP = "map"
    #: A list whose items are told apart by keys or by their values.
    LIST = "list"
    #: Nothing is known: objects are maps, everything else is owned as a whole.
    ANY = "any"


@dataclass(frozen=True, eq=False)
class MergeType:
    """The type of one field.

    struct: makes the types of a MAP's declared members. values: the type of its other members. present: the value of
    members that an object of this type always has, as structs of Go that are no pointers. items, keys and defaults: of
    a LIST; without keys it is a set of plain values, and an absent key has its default.
    """

    form: MergeForm
    struct: Callable[[], Mapping[str, "MergeType"]] = dict
    values: "MergeType | None" = None
    present: Mapping[str, Any] = field(default_factory=dict)
    items: "MergeType | None" = None
    keys: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def declared(self) -> Mapping[str, "MergeType"]:
        """The types of declared members."""
        return self.struct()

    def member(self, name: str) -> "MergeType | None":
        """Returns the type of a member, None for one that the schema does not have."""
        if self.form is MergeForm.ANY:
            return self
        return self.declared.get(name) or self.values

    def below(self, element: str) -> "MergeType":
        """Returns the type at an element of a path."""
        if element.startswith("f:"):
            return self.member(element[2:]) or LEAF
        return self.items or LEAF

    def form_of(self, value: Any) -> MergeForm:
        """Returns the form of a value of this type."""
        if self.form is not MergeForm.ANY:
            return self.form
        return MergeForm.MAP if isinstance(value, dict) else MergeForm.LEAF

    def element(self, item: Any) -> str:
        """Returns the element of a path that means an item of this LIST. Raises PatchError for an item without keys."""
        if not self.keys:
            if isinstance(item, (dict, list)) or item is None:
                raise PatchError("associative list without keys has an element that is no plain value", status=400)
            return field_sets.value(item)
        if not isinstance(item, dict):
            raise PatchError("associative list with keys may not have non-map elements", status=400)
        known = {**self.defaults, **item}
        found = {key: known[key] for key in self.keys if key in known}
        if not found:
            why = f"associative list with keys has an element that omits all key fields [{' '.join(self.keys)}]"
            raise PatchError(why, status=400)
        return field_sets.item(found)


LEAF = MergeType(MergeForm.LEAF)
ANY = MergeType(MergeForm.ANY)

#: Structs that are owned as a whole.
_ATOMIC_STRUCTS = frozenset(
    {"LabelSelector", "NodeSelector", "NodeSelectorTerm", "LocalObjectReference", "ObjectReference", "OwnerReference"}
    | {"SecretReference", "ConfigMapKeySelector", "SecretKeySelector", "ObjectFieldSelector", "ResourceFieldSelector"}
    | {"TypedLocalObjectReference", "ScopeSelector", "ScopedResourceSelectorRequirement", "EndpointAddress"}
    | {"EndpointPort", "FileKeySelector"}
)
#: Lists and maps that a strategic merge patch merges and that are owned as a whole, and maps that are.
_ATOMIC = frozenset({"JobStatus.conditions", "PodStatus.hostIPs", "PodSpec.nodeSelector", "ServiceSpec.selector"})
_PORT, _TYPE, _NAME = ("containerPort", "protocol"), ("type",), ("name",)
#: Keys of lists, where a strategic merge patch has others or none. Sets have no keys.
_KEYS: dict[str, Sequence[str]] = {
    **{"Container.ports": _PORT, "EphemeralContainer.ports": _PORT, "ServiceSpec.ports": ("port", "protocol")},
    **{"PodSpec.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"), "ResourceRequirements.claims": _NAME},
    "CustomResourceDefinitionStatus.conditions": _TYPE,
    **dict.fromkeys(("UncountedTerminatedPods.succeeded", "UncountedTerminatedPods.failed"), ()),
}
_DEFAULTS = {"protocol": "TCP"}
#: What Go writes as null when it is absent.
_NULLS: dict[str, Mapping[str, Any]] = {"PodSpec": {"containers": None}, "ObjectMeta": {"creationTimestamp": None}}


def builtin(kind: Kind) -> MergeType:
    """Returns the type of a built-in kind's objects. Raises LookupError for a kind that is none."""
    return _struct(model_of(kind))


@cache
def _struct(model: str) -> MergeType:
    form = definition(model)
    if form.name in _ATOMIC_STRUCTS:
        return LEAF
    embedded = protobuf_objects.embedded(form.name)
    present: Object = {name: {} for name, known in form.fields.items() if name in embedded and known.type.struct}
    return MergeType(
        MergeForm.MAP,
        struct=lambda: {name: _field(form.name, known) for name, known in form.fields.items()},
        present={**present, **_NULLS.get(form.name, {})},
    )


def _field(struct: str, known: TypeField) -> MergeType:
    path, merging = f"{struct}.{known.name}", known.merging
    if path in _ATOMIC:
        return LEAF
    if known.type.items is None:
        return _type(known.type)
    if path in _KEYS:
        keys = _KEYS[path]
    elif merging is not None and merging.elements:
        keys = (merging.key,) if merging.key else ()
    else:
        return LEAF
    defaults = {key: _DEFAULTS[key] for key in keys if key in _DEFAULTS}
    return MergeType(MergeForm.LIST, items=_type(known.type.items), keys=keys, defaults=defaults)


def _type(kind: Type) -> MergeType:
    if kind.struct:
        return _struct(kind.name)
    return LEAF if kind.values is None else MergeType(MergeForm.MAP, values=_type(kind.values))


def custom(version: Object) -> MergeType:
    """Returns the type of the objects of one version (an item of `spec.versions`) of a CustomResourceDefinition."""
    root = _schema((version.get("schema") or {}).get("openAPIV3Schema") or {_PRESERVE: True})
    head = {"apiVersion": LEAF, "kind": LEAF, "metadata": _struct("V1ObjectMeta")}
    return MergeType(MergeForm.MAP, struct=lambda: {**root.declared, **head}, values=root.member(""))


_PRESERVE = "x-kubernetes-preserve-unknown-fields"


def _schema(schema: Object, *, free: bool = False) -> MergeType:
    """The type of a schema. free: a schema around it preserves unknown fields, as it then does itself."""
    free = free or bool(schema.get(_PRESERVE))
    match schema.get("type"):
        case "object":
            return _object(schema, free)
        case "array":
            return _list(schema, free)
        case None if schema.get(_PRESERVE):
            return ANY
    return LEAF


def _object(schema: Object, free: bool) -> MergeType:
    if schema.get("x-kubernetes-map-type") == "atomic":
        return LEAF
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    values: MergeType | None = None
    if isinstance(others, dict):
        values = _schema(others, free=free)
    elif free or others is True or not properties or schema.get("x-kubernetes-embedded-resource"):
        values = ANY
    members = lambda: {name: _schema(known, free=free) for name, known in properties.items()}  # noqa: E731
    return MergeType(MergeForm.MAP, struct=members, values=values)


def _list(schema: Object, free: bool) -> MergeType:
    items = schema.get("items") or {}
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return MergeType(MergeForm.LIST, items=_schema(items, free=free))
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            known = items.get("properties") or {}
            defaults = {key: known[key]["default"] for key in keys if "default" in (known.get(key) or {})}
            return MergeType(MergeForm.LIST, items=_schema(items, free=free), keys=keys, defaults=defaults)
    return LEAF
