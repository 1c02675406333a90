"""Why a patch was refused, and where the parts of built-in types that merge by key are."""

from dataclasses import dataclass


class PatchError(ValueError):
    """A patch that cannot be used. status: the HTTP code, 400 (not a patch), 413 or 422 (cannot be applied)."""

    def __init__(self, message: str, *, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Merging:
    """How a strategic merge patch treats one field.

    key: the member that tells the items of a list of objects apart; None for a list of plain values, which is then
    a set. elements: lists merge item by item rather than being replaced. retain: ``$retainKeys`` is used by clients
    to drop the members of an alternative (a union) that the new version does not have.
    """

    key: str | None = None
    elements: bool = True
    retain: bool = False


#: By type (as spelled in the API's definitions, without group and version) and field. Everything else is replaced.
MERGING: dict[str, dict[str, Merging]] = {
    "ObjectMeta": {"finalizers": Merging(), "ownerReferences": Merging("uid")},
    "PodSpec": {
        "containers": Merging("name"),
        "initContainers": Merging("name"),
        "ephemeralContainers": Merging("name"),
        "volumes": Merging("name", retain=True),
        "imagePullSecrets": Merging("name"),
        "hostAliases": Merging("ip"),
        "topologySpreadConstraints": Merging("topologyKey"),
        "schedulingGates": Merging("name"),
        "resourceClaims": Merging("name", retain=True),
    },
    "Container": {
        "env": Merging("name"),
        "ports": Merging("containerPort"),
        "volumeMounts": Merging("mountPath"),
        "volumeDevices": Merging("devicePath"),
    },
    "EphemeralContainer": {
        "env": Merging("name"),
        "ports": Merging("containerPort"),
        "volumeMounts": Merging("mountPath"),
        "volumeDevices": Merging("devicePath"),
    },
    "PodStatus": {
        "conditions": Merging("type"),
        "podIPs": Merging("ip"),
        "hostIPs": Merging("ip"),
        "resourceClaimStatuses": Merging("name", retain=True),
    },
    "JobStatus": {"conditions": Merging("type")},
    "DeploymentSpec": {"strategy": Merging(elements=False, retain=True)},
    "DeploymentStatus": {"conditions": Merging("type")},
    "ReplicaSetStatus": {"conditions": Merging("type")},
    "StatefulSetStatus": {"conditions": Merging("type")},
    "NamespaceStatus": {"conditions": Merging("type")},
    "NodeSpec": {"podCIDRs": Merging()},
    "NodeStatus": {"conditions": Merging("type"), "addresses": Merging("type")},
    "PersistentVolumeClaimStatus": {"conditions": Merging("type")},
    "ServiceSpec": {"ports": Merging("port")},
    "ServiceStatus": {"conditions": Merging("type")},
    "ServiceAccount": {"secrets": Merging("name")},
}
