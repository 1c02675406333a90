"""The registry of served resources: built-in ones, and those that CustomResourceDefinitions add at run time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from deploy.local.apiserver import strategies
from deploy.local.apiserver.schema import schema
from deploy.local.apiserver.storage.store import StoredObject
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
    definition: the CustomResourceDefinition of a custom resource.
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

    @property
    def storage(self) -> str:
        """The id of the table that holds the objects."""
        return self.stored_as or self.kind.id

    @property
    def custom(self) -> bool:
        """Defined by a CustomResourceDefinition."""
        return self.definition is not None

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
        return tree


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


def to_core(body: Object) -> Object:
    """The core/v1 form of an events.k8s.io/v1 event."""
    return {_SPELLING.get(name, name): value for name, value in body.items()}


def from_core(body: Object) -> Object:
    """The events.k8s.io/v1 form of a core/v1 event."""
    return {_REVERSED.get(name, name): value for name, value in body.items()}


_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Object = {"type": "string"}

#: As a CustomResourceDefinition would say it.
_POD_METRICS: Object = {
    "metadata": {"name": POD_METRICS.id},
    "spec": {
        "group": POD_METRICS.group,
        "names": {
            "kind": POD_METRICS.kind,
            "listKind": "PodMetricsList",
            "plural": POD_METRICS.plural,
            "singular": "",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": POD_METRICS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "timestamp": _TEXT,
                            "window": _TEXT,
                            "containers": {
                                "type": "array",
                                "items": {"type": "object", "properties": {"name": _TEXT, "usage": _ANYTHING}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


def _builtin(kind: Kind, **more: Any) -> ServedResource:
    singular = more.pop("singular", kind.kind.lower())
    return ServedResource(kind, schema.builtin(kind), strategies.strategy(kind), singular=singular, **more)


def builtins() -> Iterator[ServedResource]:
    """The resources every cluster has, as far as this one has them."""
    yield from _core()
    yield from _workloads()
    yield _builtin(Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"), short=("netpol",))
    yield _builtin(Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False), short=("pc",))
    yield _builtin(Kind("coordination.k8s.io", "v1", "Lease", "leases"))
    yield _builtin(
        Kind("events.k8s.io", "v1", "Event", "events"),
        short=("ev",),
        stored_as="events",
        inward=to_core,
        outward=from_core,
    )
    yield _builtin(
        Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False),
        short=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
    )
    yield from custom(_POD_METRICS)


def _core() -> Iterator[ServedResource]:
    yield _builtin(Kind("", "v1", "Namespace", "namespaces", namespaced=False), short=("ns",), status=True)
    yield _builtin(
        Kind("", "v1", "Pod", "pods"),
        short=("po",),
        categories=("all",),
        status=True,
        returns=True,
        subresources={"binding": ("create",), "eviction": ("create",), "log": ("get",)},
    )
    yield _builtin(Kind("", "v1", "ConfigMap", "configmaps"), short=("cm",))
    yield _builtin(Kind("", "v1", "Secret", "secrets"))
    yield _builtin(Kind("", "v1", "Event", "events"), short=("ev",))
    yield _builtin(
        Kind("", "v1", "Service", "services"), short=("svc",), categories=("all",), status=True, returns=True
    )
    yield _builtin(Kind("", "v1", "ServiceAccount", "serviceaccounts"), short=("sa",), returns=True)
    yield _builtin(Kind("", "v1", "Endpoints", "endpoints"), singular="endpoints", short=("ep",))
    yield _builtin(
        Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"), short=("pvc",), status=True, returns=True
    )
    yield _builtin(Kind("", "v1", "Node", "nodes", namespaced=False), short=("no",), status=True)
    yield _builtin(Kind("", "v1", "ResourceQuota", "resourcequotas"), short=("quota",), status=True)


def _workloads() -> Iterator[ServedResource]:
    replicas = ScalePaths(selector=".spec.selector")
    for kind, plural, short in (
        ("Deployment", "deployments", "deploy"),
        ("ReplicaSet", "replicasets", "rs"),
        ("StatefulSet", "statefulsets", "sts"),
    ):
        yield _builtin(
            Kind("apps", "v1", kind, plural), short=(short,), categories=("all",), status=True, scale=replicas
        )
    yield _builtin(Kind("apps", "v1", "ControllerRevision", "controllerrevisions"))
    yield _builtin(Kind("batch", "v1", "Job", "jobs"), categories=("all",), status=True, orphans=True)
    yield _builtin(Kind("batch", "v1", "CronJob", "cronjobs"), short=("cj",), categories=("all",), status=True)


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
        )
