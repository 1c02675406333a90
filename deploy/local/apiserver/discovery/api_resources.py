"""The registry of served resources: built-in ones, and those that CustomResourceDefinitions add at run time."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from deploy.local.apiserver import strategies
from deploy.local.apiserver.discovery import autoscaler_versions
from deploy.local.apiserver.patch.apply import merge_types
from deploy.local.apiserver.schema import schema
from deploy.local.apiserver.storage.object_store import StoredObject
from deploy.local.apiserver.strategies.kept import KEPT, KeptKind
from workers.api.kinds import POD_METRICS, Kind, Object

#: Verbs of a resource that can be read and written, in the order discovery lists them.
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The fields behind the scale subresource, as dotted paths (``.spec.replicas``)."""

    replicas: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str | None = None


@dataclass(frozen=True, eq=False)
class ServedResource:
    """One resource in one version, and how it behaves.

    storage: the id under which its objects are kept, shared by all versions (and by both event APIs). inward and
    outward: between the stored and the served form, None when they are the same. orphans: deletion without a policy
    leaves dependents alone (batch/v1 Jobs). returns: a completed deletion answers with the object, not a Status.
    definition: the CustomResourceDefinition of a custom resource. kept: the row of a kind that nothing acts on here.
    deprecation: the warning of a deprecated version, empty for others.
    """

    kind: Kind
    schema: schema.Schema
    strategy: strategies.Strategy
    singular: str = ""
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: ScalePaths | None = None
    orphans: bool = False
    returns: bool = False
    inward: Callable[[Object], Object] | None = None
    outward: Callable[[Object], Object] | None = None
    stored_as: str = ""
    definition: Object | None = None
    columns: list[Object] | None = None
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    list_kind: str = ""
    kept: KeptKind | None = None
    deprecation: str = ""

    @cached_property
    def storage(self) -> str:
        """The id of the table that holds the objects."""
        return self.stored_as or self.kind.id

    @property
    def custom(self) -> bool:
        """Defined by a CustomResourceDefinition."""
        return self.definition is not None

    @cached_property
    def merge_type(self) -> merge_types.MergeType:
        """The rules by which server-side apply merges the objects."""
        if self.definition is None:
            return merge_types.builtin(self.kind)
        versions = self.definition["spec"]["versions"]
        return merge_types.custom(next(version for version in versions if version["name"] == self.kind.version))

    @cached_property
    def prefix(self) -> bytes:
        """The beginning of the JSON of every object of this resource."""
        head = orjson.dumps({"kind": self.kind.kind, "apiVersion": self.kind.api_version})
        return head[:-1] + b","

    def encode(self, record: StoredObject) -> bytes:
        """The JSON of an object as clients of this resource see it."""
        if self.outward is None:
            return self.prefix + record.raw[1:]
        return orjson.dumps(self.present(record))

    def encode_list(self, items: Iterable[bytes], metadata: Object) -> bytes:
        """The JSON of a list of objects that are JSON already."""
        kind = self.list_kind or f"{self.kind.kind}List"
        head = orjson.dumps({"kind": kind, "apiVersion": self.kind.api_version, "metadata": metadata})
        return b"".join((head[:-1], b',"items":[', b",".join(items), b"]}\n"))

    def present(self, record: StoredObject) -> Object:
        """The object as clients of this resource see it, decoded: a fresh copy."""
        body = record.body
        if self.outward is not None:
            body = self.outward(body)
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **body}

    def strip(self, body: Object) -> Object:
        """The object as it is stored."""
        stored = {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}
        return self.inward(stored) if self.inward is not None else stored


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The resource, object and subresource that a path of the API addresses."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """The object's key within its resource."""
        return f"{self.namespace}/{self.name}"


class ResourceRegistry:
    """The resources by path, and by where their objects are kept."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], ServedResource] = {}
        for resource in builtins():
            self.add(resource)

    def add(self, resource: ServedResource) -> None:
        """Serves a resource, instead of what was served at its place."""
        kind = resource.kind
        self._resources[kind.group, kind.version, kind.plural] = resource

    def drop(self, group: str, plural: str) -> None:
        """Stops serving all versions of a resource."""
        for place in [p for p in self._resources if p[0] == group and p[2] == plural]:
            del self._resources[place]

    def get(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The resource at a path."""
        return self._resources.get((group, version, plural))

    def by_storage(self, storage: str) -> ServedResource | None:
        """A resource whose objects are kept under this id."""
        return next((r for r in self._resources.values() if r.storage == storage and not r.inward), None)

    def by_owner(self, api_version: str, kind: str) -> ServedResource | None:
        """The resource an owner reference means."""
        return next(
            (r for r in self._resources.values() if r.kind.api_version == api_version and r.kind.kind == kind), None
        )

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(list(self._resources.values()))

    def served(self) -> dict[str, dict[str, list[ServedResource]]]:
        """All resources by group and version, in the order discovery lists them."""
        tree: dict[str, dict[str, list[ServedResource]]] = {}
        for resource in self:
            tree.setdefault(resource.kind.group, {}).setdefault(resource.kind.version, []).append(resource)
        return {
            group: dict(sorted(versions.items(), key=lambda one: _rank(one[0]))) for group, versions in tree.items()
        }


#: A version as Kubernetes counts them; others come after all of these, by name.
_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def _rank(version: str) -> tuple[int, int, int, str]:
    """Orders the versions of a group: clients that name none take the first one."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    major, stage, minor = found.groups()
    return (None, "beta", "alpha").index(stage), -int(major), -int(minor or 0), ""


#: events.k8s.io/v1 spelling -> core/v1 spelling, where they differ.
_SPELLING = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_REVERSED = {core: new for new, core in _SPELLING.items()}


def _spelled(names: Mapping[str, str]) -> Callable[[Object], Object]:
    """Returns the form of an event with its fields renamed."""
    return lambda body: {names.get(name, name): value for name, value in body.items()}


_TEXT: Object = {"type": "string"}
_USAGE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONTAINERS: Object = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": _TEXT, "usage": _USAGE}},
}
_POD_METRICS_FIELDS: Object = {"timestamp": _TEXT, "window": _TEXT, "containers": _CONTAINERS}
_POD_METRICS_SCHEMA: Object = {"openAPIV3Schema": {"type": "object", "properties": _POD_METRICS_FIELDS}}
#: The resource usage of pods, as a CustomResourceDefinition. On a real cluster metrics-server answers; here the kubelet
#: writes the objects.
_POD_METRICS: Object = {
    "metadata": {"name": POD_METRICS.id},
    "spec": {
        "group": POD_METRICS.group,
        "names": {"kind": POD_METRICS.kind, "listKind": "PodMetricsList", "plural": POD_METRICS.plural, "singular": ""},
        "scope": "Namespaced",
        "versions": [{"name": POD_METRICS.version, "served": True, "storage": True, "schema": _POD_METRICS_SCHEMA}],
    },
}


def _builtin(kind: Kind, more: Mapping[str, Any]) -> ServedResource:
    options = {name: value for name, value in more.items() if name != "namespaced"}
    return ServedResource(kind, schema.builtin(kind), strategies.strategy(kind), singular=kind.kind.lower(), **options)


def builtins() -> Iterator[ServedResource]:
    """Yields the resources that every cluster has, as far as this one has them, in the order of discovery."""
    for group, kind, plural, more in _BUILTINS:
        yield _builtin(Kind(group, "v1", kind, plural, namespaced=more.get("namespaced", True)), more)
    for row in KEPT:
        names = {"short": row.short, "categories": ("all",) if row.grouped else ()}
        forms = _VERSIONS.get(row.kind.api_version, {})
        yield _builtin(
            row.kind, {**names, **forms, "status": row.initial is not None, "kept": row if row.why else None}
        )
    yield from custom(_POD_METRICS)


#: Versions that are stored in the form of another one.
_VERSIONS: dict[str, dict[str, Any]] = {
    "autoscaling/v1": {"inward": autoscaler_versions.from_v1, "outward": autoscaler_versions.to_v1}
}


_EVENTS = {"short": ("ev",)}
_BOTH = {"stored_as": "events", "inward": _spelled(_SPELLING), "outward": _spelled(_REVERSED)}
_ALL: dict[str, Any] = {"categories": ("all",), "status": True}
_SCALED = {**_ALL, "scale": ScalePaths(selector=".spec.selector")}
_CLUSTER = {"namespaced": False}
#: Subresources of pods whose connections change to another protocol.
STREAMS = ("attach", "exec", "portforward")
_FINALIZE = {"finalize": ("update",)}
_POD_PARTS = {
    **{"binding": ("create",), "eviction": ("create",), "log": ("get",)},
    **dict.fromkeys(STREAMS, ("create", "get")),
}
#: Group, kind, plural and the rest of every built-in resource; all are version v1.
_BUILTINS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("", "Namespace", "namespaces", {**_CLUSTER, "short": ("ns",), "status": True, "subresources": _FINALIZE}),
    ("", "Pod", "pods", {**_ALL, "short": ("po",), "returns": True, "subresources": _POD_PARTS}),
    ("", "ConfigMap", "configmaps", {"short": ("cm",)}),
    ("", "Secret", "secrets", {}),
    ("", "Event", "events", _EVENTS),
    ("", "Service", "services", {**_ALL, "short": ("svc",), "returns": True}),
    (
        "",
        "ServiceAccount",
        "serviceaccounts",
        {"short": ("sa",), "returns": True, "subresources": {"token": ("create",)}},
    ),
    ("", "Endpoints", "endpoints", {"short": ("ep",)}),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", {"short": ("pvc",), "status": True, "returns": True}),
    ("", "Node", "nodes", {**_CLUSTER, "short": ("no",), "status": True}),
    ("", "ResourceQuota", "resourcequotas", {"short": ("quota",), "status": True}),
    ("apps", "Deployment", "deployments", {**_SCALED, "short": ("deploy",)}),
    ("apps", "ReplicaSet", "replicasets", {**_SCALED, "short": ("rs",)}),
    ("apps", "StatefulSet", "statefulsets", {**_SCALED, "short": ("sts",)}),
    ("apps", "ControllerRevision", "controllerrevisions", {}),
    ("batch", "Job", "jobs", {**_ALL, "orphans": True}),
    ("batch", "CronJob", "cronjobs", {**_ALL, "short": ("cj",)}),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", {"short": ("netpol",)}),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", {**_CLUSTER, "short": ("pc",)}),
    ("coordination.k8s.io", "Lease", "leases", {}),
    ("events.k8s.io", "Event", "events", {**_EVENTS, **_BOTH}),
    (
        *("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions"),
        {**_CLUSTER, "short": ("crd", "crds"), "categories": ("api-extensions",), "status": True},
    ),
)


def custom(definition: Object) -> Iterator[ServedResource]:
    """The resources one CustomResourceDefinition asks for: one per served version."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        kind = Kind(spec["group"], version["name"], names["kind"], names["plural"], spec["scope"] == "Namespaced")
        parts = version.get("subresources") or {}
        scale = parts.get("scale")
        yield ServedResource(
            kind,
            schema.custom(version),
            strategies.strategy(kind, definition),
            singular=names.get("singular") or names["kind"].lower(),
            short=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            status="status" in parts,
            scale=ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath"))
            if scale
            else None,
            definition=definition,
            columns=version.get("additionalPrinterColumns"),
            list_kind=names.get("listKind", ""),
            deprecation=_deprecation(version, spec) if version.get("deprecated") else "",
        )


def _deprecation(version: Object, spec: Object) -> str:
    """Returns the warning of a deprecated version: its own, or one that names a version to use instead."""
    if own := version.get("deprecationWarning"):
        return str(own)
    name, group, kind = version["name"], spec["group"], spec["names"]["kind"]
    better = [
        one["name"]
        for one in spec["versions"]
        if one.get("served") and not one.get("deprecated") and _rank(one["name"]) < _rank(name)
    ]
    instead = f"; use {group}/{min(better, key=_rank)} {kind}" if better else ""
    return f"{group}/{name} {kind} is deprecated{instead}"
