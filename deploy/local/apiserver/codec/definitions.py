"""The built-in types: which fields they have and what may stand in them.

They are read off the installed official client, whose models are generated from the API's own description. What
that generation loses (the width of numbers, quantities, which fields a server writes back when they are zero) is
added by the small tables here.
"""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from penstock._deferred_imports import BLOCKING_KUBERNETES_CLIENT, deferred
from workers.api.kinds import Kind

#: Leaf types, by the name Go's decoder gives them in messages.
SCALARS = frozenset(
    {"string", "bool", "int32", "int64", "float64", "v1.Time", "v1.MicroTime", "[]uint8", "quantity", "int-or-string"}
    | {"any"}
)


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a field: a leaf (one of SCALARS), a struct (its model's name), or a list or map of another type."""

    name: str = ""
    items: "Type | None" = None
    values: "Type | None" = None

    @property
    def struct(self) -> bool:
        """True for an object with fields of its own."""
        return bool(self.name) and self.name not in SCALARS


@dataclass(frozen=True, slots=True)
class Merging:
    """The treatment of one field by a strategic merge patch.

    key: the member that tells the items of a list of objects apart; None for a list of plain values, which is then
    a set. elements: lists merge item by item rather than being replaced. retain: ``$retainKeys`` is used by clients
    to drop the members of an alternative (a union) that the new version does not have.
    """

    key: str | None = None
    elements: bool = True
    retain: bool = False


_NAMED, _TYPED = Merging("name"), Merging("type")
_CONTAINER = {
    **{"env": _NAMED, "ports": Merging("containerPort")},
    **{"volumeMounts": Merging("mountPath"), "volumeDevices": Merging("devicePath")},
}
_WITH_CONDITIONS = (
    *("JobStatus", "DeploymentStatus", "ReplicaSetStatus", "StatefulSetStatus", "NamespaceStatus"),
    *("PersistentVolumeClaimStatus", "ServiceStatus", "DaemonSetStatus", "ReplicationControllerStatus"),
    *("PodDisruptionBudgetStatus", "HorizontalPodAutoscalerStatus", "APIServiceStatus"),
)
#: By type (as spelled in the API's definitions, without group and version) and field. Everything else is replaced.
MERGING: dict[str, dict[str, Merging]] = {
    "ObjectMeta": {"finalizers": Merging(), "ownerReferences": Merging("uid")},
    "PodSpec": {
        **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), _NAMED),
        **dict.fromkeys(("imagePullSecrets", "schedulingGates"), _NAMED),
        **dict.fromkeys(("volumes", "resourceClaims"), Merging("name", retain=True)),
        **{"hostAliases": Merging("ip"), "topologySpreadConstraints": Merging("topologyKey")},
    },
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "PodStatus": {
        **{"conditions": _TYPED, "podIPs": Merging("ip"), "hostIPs": Merging("ip")},
        "resourceClaimStatuses": Merging("name", retain=True),
    },
    **{name: {"conditions": _TYPED} for name in _WITH_CONDITIONS},
    "DeploymentSpec": {"strategy": Merging(elements=False, retain=True)},
    "NodeSpec": {"podCIDRs": Merging()},
    "NodeStatus": {"conditions": _TYPED, "addresses": _TYPED},
    "ServiceSpec": {"ports": Merging("port")},
    "ServiceAccount": {"secrets": _NAMED},
    **{f"{name}WebhookConfiguration": {"webhooks": _NAMED} for name in ("Mutating", "Validating")},
    **{f"{name}Webhook": {"matchConditions": _NAMED} for name in ("Mutating", "Validating")},
}


@dataclass(frozen=True, slots=True)
class TypeField:
    """One field of a struct. merging: how strategic merge patches treat it, None if they replace it.

    omitted: the server does not write it back when it is zero (``0``, ``false``).
    """

    name: str
    type: Type
    required: bool
    description: str
    merging: Merging | None
    omitted: bool


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """One struct. name: as Go and explanations spell it (`JobSpec`)."""

    name: str
    description: str
    fields: Mapping[str, TypeField]


_MODEL = re.compile(r"^(?P<group>[A-Z][a-z]+)?(?P<version>V[0-9]+(?:alpha[0-9]+|beta[0-9]+)?)(?P<name>[A-Z].*)$")
_ANY = Type("any")
_STRING = Type("string")

_INT64 = frozenset(
    {"observedGeneration", "sizeBytes", "gracePeriodSeconds", "maxItems", "maxLength", "maxProperties", "minItems"}
    | {"minLength", "minProperties", "activeDeadlineSeconds", "remainingItemCount", "deletionGracePeriodSeconds"}
    | {"generation", "fsGroup", "runAsGroup", "runAsUser", "supplementalGroups", "terminationGracePeriodSeconds"}
    | {"expirationSeconds", "tolerationSeconds", "startingDeadlineSeconds", "seconds"}
)
_MICRO_TIMES = frozenset({"acquireTime", "renewTime", "eventTime", "lastObservedTime"})
_QUANTITIES = frozenset(
    {"EmptyDirVolumeSource.sizeLimit", "NodeStatus.allocatable", "NodeStatus.capacity", "PodSpec.overhead"}
    | {"PersistentVolumeClaimStatus.capacity", "PersistentVolumeClaimStatus.allocatedResources"}
    | {"ResourceFieldSelector.divisor", "ResourceRequirements.limits", "ResourceRequirements.requests"}
    | {"VolumeResourceRequirements.limits", "VolumeResourceRequirements.requests"}
    | {"ContainerStatus.allocatedResources", "ResourceQuotaSpec.hard"}
    | {"ResourceQuotaStatus.hard", "ResourceQuotaStatus.used", "PersistentVolumeSpec.capacity", "Overhead.podFixed"}
    | {f"LimitRangeItem.{name}" for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")}
    | {"MetricTarget.averageValue", "MetricTarget.value", "MetricValueStatus.averageValue", "MetricValueStatus.value"}
)
_INT_OR_STRING = frozenset(
    {"HTTPGetAction.port", "TCPSocketAction.port", "ServicePort.targetPort", "RollingUpdateDeployment.maxSurge"}
    | {"RollingUpdateDeployment.maxUnavailable", "RollingUpdateStatefulSetStrategy.maxUnavailable"}
    | {"NetworkPolicyPort.port", "PodDisruptionBudgetSpec.minAvailable", "PodDisruptionBudgetSpec.maxUnavailable"}
    | {"RollingUpdateDaemonSet.maxSurge", "RollingUpdateDaemonSet.maxUnavailable"}
)
#: Flags and numbers that are plain values in Go and vanish when they are zero. Others are pointers, whose zero is kept,
#: or are always written.
_OMITTED = frozenset(
    {"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly", "paused", "unschedulable"}
    | {"publishNotReadyAddresses", "hostPort", "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "nodePort"}
    | {"successThreshold", "failureThreshold", "minReadySeconds", "observedGeneration", "generation", "count"}
    | {"JobStatus.active", "JobStatus.succeeded", "JobStatus.failed", "DeploymentStatus.replicas"}
    | {"readyReplicas", "availableReplicas", "unavailableReplicas", "updatedReplicas", "fullyLabeledReplicas"}
    | {"currentReplicas", "ContainerStateTerminated.signal", "sessionAffinityConfig", "preserveUnknownFields"}
    | {"globalDefault"}
)


@cache
def _models() -> ModuleType:
    """Returns the client's models, without what the client itself needs to speak with a server."""
    with deferred(*BLOCKING_KUBERNETES_CLIENT):
        return importlib.import_module("kubernetes.client.models")


@cache
def definition(model: str) -> TypeDefinition:
    """The struct that the official client calls `model` (``V1JobSpec``). Raises AttributeError for none of its."""
    cls: Any = getattr(_models(), model)
    name, _ = spelled(model)
    infos = {info.serialization_alias or attribute: info for attribute, info in cls.model_fields.items()}
    fields: dict[str, TypeField] = {}
    for attribute, text in cls.openapi_types.items():
        json_name = cls.attribute_map[attribute]
        info = infos[json_name]
        path = f"{name}.{json_name}"
        fields[json_name] = TypeField(
            json_name,
            _type(text, name, json_name),
            info.is_required(),
            info.description or "",
            MERGING.get(name, {}).get(json_name),
            json_name in _OMITTED or path in _OMITTED,
        )
    description = (cls.__doc__ or "").partition("\n\n")[0].strip()
    return TypeDefinition(name, description, fields)


def spelled(model: str) -> tuple[str, str]:
    """A model's type name and version: ``CoreV1Event`` is (``Event``, ``v1``)."""
    match = _MODEL.match(model)
    if match is None:
        return model, "v1"
    return match["name"], match["version"].lower()


def model_of(kind: Kind) -> str:
    """The client's name for the objects of a built-in kind. Raises LookupError for a kind it does not have."""
    version = kind.version.capitalize()
    if kind.kind == "Event":
        return f"CoreV1{kind.kind}" if not kind.group else f"EventsV1{kind.kind}"
    model = f"{version}{kind.kind}"
    # The list of names: asking for the model itself would load it.
    if model not in _models().__all__:
        raise LookupError(f"no built-in type for {kind.api_version} {kind.kind}")
    return model


def _type(text: str, struct: str, field: str) -> Type:
    if text.startswith("List["):
        return Type(items=_type(text[5:-1], struct, field))
    if text.startswith(("Dict[str, ", "dict(str, ")):
        return Type(values=_type(text[10:-1], struct, field))
    path = f"{struct}.{field}"
    match text:
        case "str":
            return Type("quantity") if path in _QUANTITIES else _STRING
        case "int":
            return Type("int64" if field in _INT64 else "int32")
        case "bool":
            return Type("bool")
        case "float":
            return Type("float64")
        case "bytes" | "bytearray":
            return Type("[]uint8")
        case "datetime":
            return Type("v1.MicroTime" if field in _MICRO_TIMES else "v1.Time")
        case "object":
            return Type("int-or-string") if path in _INT_OR_STRING else _ANY
        case _:
            return Type(text)
