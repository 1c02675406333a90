"""Kinds that ordinary bundles contain and that nothing acts on here: a row each, and the strategy of all of them.

Their objects are typed, validated as far as their types say, and stored. Clients that create one are told what does
not happen.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.definitions import Type, definition, model_of
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies.base import Strategy
from deploy.local.apiserver.strategies.pod_specs import podspec
from workers.api import names
from workers.api.kinds import Kind, Object

_RBAC, _NETWORK, _STORAGE = "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
#: The server itself obeys roles and bindings (deploy/local/apiserver/access).
_OBEYED = ""
_NO_NETWORK = "pods are processes of this machine, and no requests are passed on to them"
_NO_VOLUMES = "claims are folders of this machine"
_NO_WEBHOOK = "no webhook is called"
_NO_POLICY = "no policy is evaluated"
_CREATED = ("Created At=.metadata.creationTimestamp",)
_SUBJECTS = tuple(f'*{name}s=.subjects[?(@.kind=="{name}")].name' for name in ("User", "Group", "ServiceAccount"))
_BOUND = ("Role=.roleRef.kind/.roleRef.name", "Age", *_SUBJECTS)
_POD_COLUMNS = ("*Containers=.spec.template.spec.containers[*].name", "*Images=.spec.template.spec.containers[*].image")


@dataclass(frozen=True, slots=True, eq=False)
class KeptKind:
    """One kind. why: what does not happen, for people; empty for a kind that is acted upon. short: short names.

    columns: of tables after the name: ``Age``, or a title and the paths of its cell (``Title=.a.b/.c``), joined by a
    slash; ``*`` before a title is for wide output only. grouped: kubectl's ``all`` contains it. generation: changes of
    the spec are counted. initial: the status of new objects, None for a kind without status. fixed: top-level fields
    that never change. template: the path of a pod template. any_name: every text that a path can hold is a name. once:
    one Event per namespace tells of all objects, because bundles contain many.
    """

    kind: Kind
    why: str
    short: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("Age",)
    grouped: bool = False
    generation: bool = False
    initial: Mapping[str, Any] | None = None
    fixed: tuple[str, ...] = ()
    template: tuple[str, ...] = ()
    any_name: bool = False
    once: bool = False

    @property
    def warning(self) -> str:
        """The warning that clients get when they create an object."""
        return f"{self.kind.kind} is stored and nothing acts on it here: {self.why}"


def _row(group: str, kind: str, plural: str, why: str, /, *, version: str = "v1", **more: Any) -> KeptKind:
    """The row of a kind; `cluster` says that its objects have no namespace."""
    return KeptKind(Kind(group, version, kind, plural, namespaced=not more.pop("cluster", False)), why, **more)


def _right(kind: str, plural: str, columns: tuple[str, ...], *, cluster: bool) -> KeptKind:
    fixed = ("roleRef",) if kind.endswith("Binding") else ()
    more: dict[str, Any] = {"columns": columns, "cluster": cluster, "fixed": fixed, "any_name": True, "once": True}
    return _row(_RBAC, kind, plural, _OBEYED, **more)


_CLUSTER: dict[str, Any] = {"cluster": True}
_COUNTED: dict[str, Any] = {**_CLUSTER, "generation": True}
_WEBHOOKS: dict[str, Any] = {**_COUNTED, "columns": ("Webhooks=.webhooks[*].name", "Age")}
_SCALERS: dict[str, Any] = {
    "short": ("hpa",),
    "grouped": True,
    "initial": {"currentReplicas": 0, "desiredReplicas": 0},
    "columns": (
        *("Reference=.spec.scaleTargetRef.kind/.spec.scaleTargetRef.name", "MinPods=.spec.minReplicas"),
        *("MaxPods=.spec.maxReplicas", "Replicas=.status.currentReplicas", "Age"),
    ),
}
_NOT_SCALED = "no workload is scaled by it, a ScaledObject scales one"
_NONE_SCHEDULED = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
#: All of them, in the order of discovery: the first version of a group is the one that clients prefer.
KEPT: tuple[KeptKind, ...] = (
    _row(
        *("", "LimitRange", "limitranges", "no defaults and no limits are taken from it"),
        short=("limits",),
        columns=_CREATED,
    ),
    _row(
        *("", "PersistentVolume", "persistentvolumes", _NO_VOLUMES),
        **_CLUSTER,
        short=("pv",),
        initial={"phase": "Pending"},
        columns=(
            *("Capacity=.spec.capacity.storage", "Access Modes=.spec.accessModes[*]"),
            *("Reclaim Policy=.spec.persistentVolumeReclaimPolicy", "Status=.status.phase"),
            *("Claim=.spec.claimRef.namespace/.spec.claimRef.name", "StorageClass=.spec.storageClassName", "Age"),
        ),
    ),
    _row(
        *("", "PodTemplate", "podtemplates", "nothing makes pods from it"),
        template=("template",),
        columns=("Containers=.template.spec.containers[*].name", "Images=.template.spec.containers[*].image"),
    ),
    _row(
        *("", "ReplicationController", "replicationcontrollers", "no pods are made, a Deployment makes them"),
        short=("rc",),
        grouped=True,
        generation=True,
        initial={"replicas": 0},
        template=("spec", "template"),
        columns=(
            *("Desired=.spec.replicas", "Current=.status.replicas", "Ready=.status.readyReplicas", "Age"),
            *_POD_COLUMNS,
        ),
    ),
    _row(
        *("apps", "DaemonSet", "daemonsets", "no pods are made, a Deployment makes them"),
        short=("ds",),
        grouped=True,
        generation=True,
        initial=dict.fromkeys(_NONE_SCHEDULED, 0),
        template=("spec", "template"),
        columns=(
            *("Desired=.status.desiredNumberScheduled", "Current=.status.currentNumberScheduled"),
            *("Ready=.status.numberReady", "Age", *_POD_COLUMNS),
        ),
    ),
    _row("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", _NOT_SCALED, version="v2", **_SCALERS),
    _row("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", _NOT_SCALED, **_SCALERS),
    _row(
        *("policy", "PodDisruptionBudget", "poddisruptionbudgets", "no eviction is refused"),
        short=("pdb",),
        generation=True,
        initial={"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
        columns=(
            *("Min Available=.spec.minAvailable", "Max Unavailable=.spec.maxUnavailable"),
            *("Allowed Disruptions=.status.disruptionsAllowed", "Age"),
        ),
    ),
    _right("Role", "roles", _CREATED, cluster=False),
    _right("RoleBinding", "rolebindings", _BOUND, cluster=False),
    _right("ClusterRole", "clusterroles", _CREATED, cluster=True),
    _right("ClusterRoleBinding", "clusterrolebindings", _BOUND, cluster=True),
    _row(
        *(_NETWORK, "Ingress", "ingresses", _NO_NETWORK),
        short=("ing",),
        generation=True,
        initial={"loadBalancer": {}},
        columns=(
            *("Class=.spec.ingressClassName", "Hosts=.spec.rules[*].host"),
            *("Address=.status.loadBalancer.ingress[*].ip", "Age"),
        ),
    ),
    _row(
        *(_NETWORK, "IngressClass", "ingressclasses", _NO_NETWORK),
        **_COUNTED,
        columns=("Controller=.spec.controller", "Parameters=.spec.parameters.kind/.spec.parameters.name", "Age"),
    ),
    _row(
        *("discovery.k8s.io", "EndpointSlice", "endpointslices", _NO_NETWORK),
        once=True,
        fixed=("addressType",),
        columns=(
            *("AddressType=.addressType", "Ports=.ports[*].port"),
            *("Endpoints=.endpoints[*].addresses[*]", "Age"),
        ),
    ),
    _row(
        *(_STORAGE, "StorageClass", "storageclasses", _NO_VOLUMES),
        **_CLUSTER,
        short=("sc",),
        fixed=("provisioner", "parameters", "volumeBindingMode"),
        columns=(
            *("Provisioner=.provisioner", "ReclaimPolicy=.reclaimPolicy", "VolumeBindingMode=.volumeBindingMode"),
            *("AllowVolumeExpansion=.allowVolumeExpansion", "Age"),
        ),
    ),
    _row(
        *("node.k8s.io", "RuntimeClass", "runtimeclasses", "pods are processes of this machine"),
        **_CLUSTER,
        fixed=("handler",),
        columns=("Handler=.handler", "Age"),
    ),
    _row(_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", _NO_WEBHOOK, **_WEBHOOKS),
    _row(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", _NO_WEBHOOK, **_WEBHOOKS),
    _row(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", _NO_POLICY, **_COUNTED, initial={}),
    _row(
        *(_ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", _NO_POLICY),
        **_COUNTED,
        columns=("PolicyName=.spec.policyName", "Age"),
    ),
    _row(
        *("apiregistration.k8s.io", "APIService", "apiservices", "no requests are passed on to another server"),
        **_CLUSTER,
        initial={},
        columns=("Service=.spec.service.namespace/.spec.service.name", "Age"),
    ),
)
_ROWS = {(row.kind.id, row.kind.version): row for row in KEPT}


def row_of(kind: Kind) -> KeptKind | None:
    """Returns the row of a kind, None for one that something acts on."""
    return _ROWS.get((kind.id, kind.version))


def path_segment(text: str) -> tuple[str, ...]:
    """Checks a name that may hold all that a path can: names of roles have colons and capitals."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{part}'" for part in "/%" if part in text)


class KeptStrategy(Strategy):
    """The strategy of these kinds: what their types require must be there, and pod templates are judged as always."""

    def __init__(self, row: KeptKind) -> None:
        self.row = row
        self.generation = row.generation
        self.status = row.initial is not None
        self.initial = dict(row.initial) if row.initial else None
        self.name_rule = path_segment if row.any_name else names.dns_subdomain
        self._model = model_of(row.kind)

    def validate(self, body: Object) -> list[FieldError]:
        declared = {name: value for name, value in body.items() if name not in ("metadata", "status")}
        errors = list(_missing(self._model, declared, ""))
        if self.row.template and not errors:
            template: Object = body
            for name in self.row.template:
                template = template.get(name) or {}
            errors += podspec.template(template, ".".join(self.row.template))
        return errors

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        return [
            error for name in self.row.fixed for error in field_errors.immutable(name, new.get(name), old.get(name))
        ]


def _missing(model: str, body: Object, path: str) -> Iterator[FieldError]:
    """Yields the required fields that are absent. An absent list or map is an empty one."""
    for name, known in definition(model).fields.items():
        place = f"{path}.{name}" if path else name
        if name not in body:
            if known.required and known.type.name and name not in ("metadata", "status"):
                yield field_errors.required(place)
            continue
        yield from _inside(known.type, body[name], place)


def _inside(kind: Type, value: Any, place: str) -> Iterator[FieldError]:
    if kind.struct:
        # Pod templates have rules of their own.
        if kind.name != "V1PodTemplateSpec":
            yield from _missing(kind.name, value, place)
    elif kind.items is not None and kind.items.struct:
        for index, item in enumerate(value):
            yield from _missing(kind.items.name, item, f"{place}[{index}]")
