"""Kinds of objects, their addresses, and the text key of one object.

A key names one object in the work queue, the store and the logs. Its form is
``<plural>.<group>/<namespace>/<name>`` (``jobs.batch/default/crunch``); the core group has no suffix
(``pods/default/crunch-x``) and a cluster-scoped object has an empty namespace (``nodes//local``).
"""

from dataclasses import dataclass, field
from typing import Any

#: A Kubernetes object as plain JSON. Objects are never mutated once read: change is a copy.
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of the Kubernetes API. Manifests spell it `kind`, paths `plural`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    status: bool = True
    """The status is a subresource; without one it is written with the rest of the object."""
    id: str = field(init=False, repr=False, compare=False)
    """``<plural>.<group>``, or the plural for the core group: the first part of a key."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.plural}.{self.group}" if self.group else self.plural)

    def __hash__(self) -> int:
        # Every address has a kind and is looked up by it: the hash of all fields takes twice as long.
        return hash(self.id)

    @property
    def api_version(self) -> str:
        """Returns the ``apiVersion`` of a manifest: ``batch/v1``, ``v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type_meta(self) -> Object:
        """Returns the two fields that every manifest of the kind begins with."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the REST path of the collection, of one object, or of one of its subresources."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Ref:
    """The address of one object."""

    kind: Kind
    namespace: str
    name: str

    def __hash__(self) -> int:
        # Without a call of the kind's own.
        return hash((self.kind.id, self.namespace, self.name))

    @property
    def key(self) -> str:
        """Returns the object's key, see the module's docstring."""
        return f"{self.kind.id}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.kind} {where}"


SCALED_JOB = Kind("keda.sh", "v1alpha1", "ScaledJob", "scaledjobs")
SCALED_OBJECT = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
TRIGGER_AUTHENTICATION = Kind("keda.sh", "v1alpha1", "TriggerAuthentication", "triggerauthentications")
CLUSTER_TRIGGER_AUTHENTICATION = Kind(
    "keda.sh", "v1alpha1", "ClusterTriggerAuthentication", "clustertriggerauthentications", namespaced=False
)
JOB = Kind("batch", "v1", "Job", "jobs")
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")
SCHEDULED_JOB = Kind("penstock.dev", "v1alpha1", "ScheduledJob", "scheduledjobs")
EVENT_JOB = Kind("penstock.dev", "v1alpha1", "EventJob", "eventjobs")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
SCALE_POLICY = Kind("penstock.dev", "v1alpha1", "ScalePolicy", "scalepolicies", namespaced=False)
POD = Kind("", "v1", "Pod", "pods")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")
HORIZONTAL_POD_AUTOSCALER = Kind("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
EVENT = Kind("", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
SERVICE = Kind("", "v1", "Service", "services")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
VC_JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
VC_CRON_JOB = Kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs")
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False)
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", status=False)
COMMAND = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands", status=False)
JOB_FLOW = Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows")
JOB_TEMPLATE = Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates")
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

_WITHOUT_KEYS = (POD_METRICS, HORIZONTAL_POD_AUTOSCALER, ENDPOINTS)
#: Kinds that have keys, by id: all of the above that are observed or written, not those that are only read or deleted.
KINDS: dict[str, Kind] = {
    kind.id: kind for kind in list(globals().values()) if isinstance(kind, Kind) and kind not in _WITHOUT_KEYS
}


def by_manifest(api_version: str, kind: str) -> Kind | None:
    """Returns the known kind that a manifest or an owner reference spells like this, or None."""
    group = api_version.rpartition("/")[0]
    return next((known for known in KINDS.values() if known.kind == kind and known.group == group), None)


def ref_of(kind: Kind, body: Object) -> Ref:
    """Returns the address that an object carries in its metadata."""
    metadata = body["metadata"]
    return Ref(kind, metadata.get("namespace", ""), metadata["name"])


def reference(kind: Kind, body: Object) -> Object:
    """Returns an ObjectReference to this version of an object."""
    metadata = body["metadata"]
    described = {
        **kind.type_meta,
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {key: value for key, value in described.items() if value}


def owner_reference(kind: Kind, owner: Object) -> Object:
    """Returns the reference of the one owner that manages an object. kind, owner: the owner's."""
    return {
        **kind.type_meta,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def parse_key(key: str) -> Ref:
    """Returns the address that a key stands for.

    Raises ValueError for a text that is not a key or names an unknown kind.
    """
    kind_id, _, rest = key.partition("/")
    namespace, slash, name = rest.partition("/")
    if not slash or not name or kind_id not in KINDS:
        raise ValueError(f"not a key of a known kind: {key!r}")
    return Ref(KINDS[kind_id], namespace, name)


def finalizers_of(body: Object) -> list[str]:
    """Returns the object's finalizers."""
    return list(body["metadata"].get("finalizers") or ())


def controller_of(body: Object) -> Object | None:
    """Returns the owner reference marked ``controller: true``, the one owner that manages this object, or None."""
    for reference in body["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None
