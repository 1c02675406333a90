"""The OpenAPI documents that clients explain, validate and patch by: version 3 per group, and version 2 in one piece.

Built-in kinds are described from their definitions; a custom resource brings its own schema. `kubectl` insists on
version 2 as protobuf, which is `protobuf_openapi`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import orjson

from deploy.local.apiserver.codec.definitions import Type, TypeDefinition, TypeField, definition, model_of, spelled
from deploy.local.apiserver.strategies.kept import KEPT
from workers.api.kinds import Kind, Object

#: The `openAPIV3Schema` of each custom resource among the kinds of a document; built-in kinds have none.
CustomSchemas = Mapping[Kind, Object]

V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_META_TYPES = frozenset(
    {"ObjectMeta", "ListMeta", "OwnerReference", "ManagedFieldsEntry", "LabelSelector", "LabelSelectorRequirement"}
    | {"Condition", "Status", "StatusCause", "StatusDetails", "DeleteOptions", "Preconditions"}
)
#: The package of each group's types and its root types. A type of several groups belongs to the first of them.
_PACKAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "": (
        "io.k8s.api.core",
        (
            *("V1Pod", "V1Service", "V1Node", "V1ConfigMap", "V1Secret", "V1Namespace", "V1ServiceAccount"),
            *("V1Endpoints", "V1PersistentVolumeClaim", "CoreV1Event", "V1PodTemplateSpec"),
        ),
    ),
    "apps": ("io.k8s.api.apps", ("V1Deployment", "V1ReplicaSet", "V1StatefulSet", "V1ControllerRevision")),
    "batch": ("io.k8s.api.batch", ("V1Job", "V1CronJob")),
    "coordination.k8s.io": ("io.k8s.api.coordination", ("V1Lease",)),
    "events.k8s.io": ("io.k8s.api.events", ("EventsV1Event",)),
    "apiextensions.k8s.io": (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        ("V1CustomResourceDefinition",),
    ),
}
#: The last part of the package of every other group is the first one of the group's name, except for this one.
_AGGREGATOR = {"apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration"}
#: Leaf types that have a definition of their own.
_NAMED_LEAVES: dict[str, str] = {
    "v1.Time": f"{_META}.Time",
    "v1.MicroTime": f"{_META}.MicroTime",
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "int-or-string": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}
_LEAVES: dict[str, Object] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "[]uint8": {"type": "string", "format": "byte"},
    "any": {},
    "v1.Time": {"type": "string", "format": "date-time", "description": "An instant: RFC 3339, whole seconds."},
    "v1.MicroTime": {"type": "string", "format": "date-time", "description": "An instant with microseconds."},
    "quantity": {"type": "string", "description": "A number with a suffix: 500m, 2, 1536Mi."},
    "int-or-string": {"type": "string", "format": "int-or-string", "description": "A number or a text."},
}
_API_VERSION = "The version of the API that this object is written in."
_KIND = "What kind of object this is."
#: Keywords that version 2 does not have.
_NOT_IN_V2 = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable"})


def v3_index(group_versions: Mapping[str, Object]) -> Object:
    """The document at ``/openapi/v3``. group_versions: by group and version (``v1``, ``batch/v1``), the documents."""
    return {
        "paths": {
            _root(name): {"serverRelativeURL": f"/openapi/v3/{_root(name)}?hash={_hash(document)}"}
            for name, document in group_versions.items()
        }
    }


def _root(group_version: str) -> str:
    return f"apis/{group_version}" if "/" in group_version else f"api/{group_version}"


def _hash(document: Object) -> str:
    return hashlib.sha256(orjson.dumps(document)).hexdigest().upper()


def v3_document(group_version: str, kinds: Sequence[Kind], schemas: CustomSchemas) -> Object:
    """The document at ``/openapi/v3/apis/<group_version>``: it describes those of `kinds` that belong there."""
    served = [kind for kind in kinds if kind.api_version == group_version]
    paths: Object = {}
    for kind in served:
        paths.update(_paths(kind, schemas))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": _schemas(served, schemas, v3=True)},
    }


def v2_document(kinds: Sequence[Kind], schemas: CustomSchemas) -> Object:
    """The document at ``/openapi/v2``: all kinds of all groups. Paths are left to version 3."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {},
        "definitions": _schemas(kinds, schemas, v3=False),
    }


def _schemas(kinds: Sequence[Kind], schemas: CustomSchemas, *, v3: bool) -> Object:
    result: Object = {}
    for kind in kinds:
        custom = schemas.get(kind)
        model = "V1ObjectMeta" if custom is not None else model_of(kind)
        result.update(_reachable(model, v3=v3))
        if custom is not None:
            result[type_name(kind, schemas)] = _custom(kind, custom, v3=v3)
        else:
            name = full_name(model)
            result[name] = {**result[name], "x-kubernetes-group-version-kind": [_gvk(kind)]}
    return result


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}


def type_name(kind: Kind, schemas: CustomSchemas) -> str:
    """The full name of a kind's type: ``io.k8s.api.batch.v1.Job``, ``sh.keda.v1alpha1.ScaledJob``."""
    if kind not in schemas:
        return full_name(model_of(kind))
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


@cache
def full_name(model: str) -> str:
    """The full name of a built-in type."""
    name, version = spelled(model)
    if name in _META_TYPES:
        return f"{_META}.{name}"
    for package, roots in (*_PACKAGES.values(), *_kept_packages()):
        if any(model in _models(root) for root in roots):
            return f"{package}.{version}.{name}"
    return f"{_META}.{name}"


@cache
def _kept_packages() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Package and root types of each group of the kinds that nothing acts on."""
    groups: dict[str, list[str]] = {}
    for row in KEPT:
        group = row.kind.group.partition(".")[0] or "core"
        groups.setdefault(_AGGREGATOR.get(group, f"io.k8s.api.{group}"), []).append(model_of(row.kind))
    return tuple((package, tuple(roots)) for package, roots in groups.items())


@cache
def _models(root: str) -> frozenset[str]:
    """All structs that a struct is made of, itself included."""
    found: set[str] = set()
    waiting = [root]
    while waiting:
        model = waiting.pop()
        if model not in found:
            found.add(model)
            waiting += [leaf.name for field in definition(model).fields.values() if (leaf := _leaf(field.type)).struct]
    return frozenset(found)


def _leaf(kind: Type) -> Type:
    inner = kind.items or kind.values
    return kind if inner is None else _leaf(inner)


@lru_cache(maxsize=64)
def _reachable(root: str, *, v3: bool) -> Object:
    """The schemas of a struct and of everything it is made of."""
    result: Object = {}
    for model in sorted(_models(root)):
        form = definition(model)
        result[full_name(model)] = _struct(form, v3=v3)
        for field in form.fields.values():
            if (name := _NAMED_LEAVES.get(leaf := _leaf(field.type).name)) is not None:
                result[name] = _v3_leaf(leaf) if v3 else _LEAVES[leaf]
    return result


def _v3_leaf(name: str) -> Object:
    either = {"quantity": "number", "int-or-string": "integer"}.get(name)
    if either is None:
        return _LEAVES[name]
    return {"description": _LEAVES[name]["description"], "oneOf": [{"type": "string"}, {"type": either}]}


def _struct(form: TypeDefinition, *, v3: bool) -> Object:
    result: Object = {"type": "object", "description": form.description}
    if form.fields:
        result["properties"] = {name: _property(field, v3=v3) for name, field in form.fields.items()}
    if required := sorted(name for name, field in form.fields.items() if field.required):
        result["required"] = required
    return result


def _property(field: TypeField, *, v3: bool) -> Object:
    shape = _type(field.type, v3=v3)
    # Version 3 allows nothing beside a reference.
    result: Object = {"allOf": [shape]} if v3 and "$ref" in shape else dict(shape)
    if field.description:
        result["description"] = field.description
    if (merging := field.merging) is not None:
        names = [name for name, used in (("merge", merging.elements), ("retainKeys", merging.retain)) if used]
        result["x-kubernetes-patch-strategy"] = ",".join(names)
        if merging.key is not None:
            result["x-kubernetes-patch-merge-key"] = merging.key
    return result


def _type(kind: Type, *, v3: bool) -> Object:
    if kind.items is not None:
        return {"type": "array", "items": _type(kind.items, v3=v3)}
    if kind.values is not None:
        return {"type": "object", "additionalProperties": _type(kind.values, v3=v3)}
    name = full_name(kind.name) if kind.struct else _NAMED_LEAVES.get(kind.name)
    return _LEAVES[kind.name] if name is None else {"$ref": _ref(name, v3=v3)}


def _ref(name: str, *, v3: bool) -> str:
    return f"#/components/schemas/{name}" if v3 else f"#/definitions/{name}"


def _custom(kind: Kind, schema: Object, *, v3: bool) -> Object:
    form = schema if v3 else _as_v2(schema)
    reference = {"$ref": _ref(full_name("V1ObjectMeta"), v3=v3)}
    head = {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {"allOf": [reference]} if v3 else reference,
    }
    return {
        **form,
        "properties": {**(form.get("properties") or {}), **head},
        "x-kubernetes-group-version-kind": [_gvk(kind)],
    }


def _as_v2(schema: Any) -> Any:
    """Returns a schema reduced to version 2. Constraints that it cannot express are dropped."""
    if not isinstance(schema, dict):
        return schema
    result = {name: value for name, value in schema.items() if name not in _NOT_IN_V2}
    if schema.get("nullable") or schema.get("x-kubernetes-int-or-string"):
        for name in ("type", "items", "properties"):
            result.pop(name, None)
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        result.pop("properties", None)
    if "items" in result:
        result["items"] = _as_v2(result["items"])
    if "additionalProperties" in result:
        result["additionalProperties"] = _as_v2(result["additionalProperties"])
    if "properties" in result:
        result["properties"] = {name: _as_v2(member) for name, member in result["properties"].items()}
    return result


def _paths(kind: Kind, schemas: CustomSchemas) -> Iterator[tuple[str, Object]]:
    """Yields the paths of a kind's collection and of one of its objects, with the parameters that clients check for."""
    collection = kind.path("{namespace}")
    reference = {"$ref": _ref(type_name(kind, schemas), v3=True)}
    places = [_parameter(name, "path") for name in ("namespace",) if kind.namespaced]
    yield (
        collection,
        {"get": _operation(kind, "list", reference), "post": _operation(kind, "post", reference), "parameters": places},
    )
    verbs = {verb: _operation(kind, verb, reference) for verb in ("get", "put", "patch", "delete")}
    yield f"{collection}/{{name}}", {**verbs, "parameters": [*places, _parameter("name", "path")]}


def _parameter(name: str, where: str) -> Object:
    return {"name": name, "in": where, "schema": {"type": "string"}, **({"required": True} if where == "path" else {})}


def _operation(kind: Kind, action: str, reference: Object) -> Object:
    written: Iterable[str] = ("dryRun", "fieldManager", "fieldValidation") if action in ("post", "put", "patch") else ()
    return {
        "parameters": [_parameter(name, "query") for name in written],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
