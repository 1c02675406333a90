"""Network topologies without Volcano's HyperNodes: the setting `gang_topology` names a node label for each tier.

Pods of Jobs get affinity to each other. What cannot be enforced is reported: Volcano's scheduler would enforce it.
"""

from collections.abc import Iterator, Mapping, Sequence

from workers.api.kinds import Object

#: Weight of the preference in mode soft: the largest there is.
_WEIGHT = 100


def label(topology: Object, labels: Sequence[str]) -> str | None:
    """Returns the node label whose value the pods must share; None where no label stands for the tier.

    labels: by tier, the nearest first; tiers count from 1. A tier by name is the label itself.
    """
    tier = topology.get("highestTierAllowed")
    if tier is not None:
        return labels[tier - 1] if 1 <= tier <= len(labels) else None
    name = topology.get("highestTierName")
    return name if name in labels else None


def with_affinity(spec: Object, topology: Object | None, labels: Sequence[str], pods: Mapping[str, str]) -> Object:
    """Returns a pod spec with affinity to the pods that have these labels: required in mode hard, else preferred.

    A scheduler places the first of them anywhere, because it has these labels itself.
    """
    key = label(topology, labels) if topology else None
    if key is None or topology is None:
        return spec
    term: Object = {"labelSelector": {"matchLabels": dict(pods)}, "topologyKey": key}
    field, entry = "requiredDuringSchedulingIgnoredDuringExecution", term
    if topology.get("mode") == "soft":
        field, entry = "preferredDuringSchedulingIgnoredDuringExecution", {"weight": _WEIGHT, "podAffinityTerm": term}
    affinity = spec.get("affinity") or {}
    own = affinity.get("podAffinity") or {}
    return {**spec, "affinity": {**affinity, "podAffinity": {**own, field: [*(own.get(field) or ()), entry]}}}


def unenforced(spec: Object, labels: Sequence[str], of_a_job: bool) -> str | None:
    """Returns the fields of a PodGroup's spec that nothing enforces, and why; None without any."""
    return "; ".join(_unenforced(spec, labels, of_a_job)) or None


def _unenforced(spec: Object, labels: Sequence[str], of_a_job: bool) -> Iterator[str]:
    parts = spec.get("subGroupPolicy") or ()
    topologies = {"spec.networkTopology": spec.get("networkTopology")}
    for index, each in enumerate(parts):
        topologies[f"spec.subGroupPolicy[{index}].networkTopology"] = each.get("networkTopology")
    for field, topology in topologies.items():
        if topology and not of_a_job:
            yield f"{field}: only the pods of Volcano Jobs get affinity to each other"
        elif topology and label(topology, labels) is None:
            yield f"{field}: the setting gang_topology has no node label for this tier"
    for index, each in enumerate(parts):
        if each.get("minSubGroups") or not of_a_job:
            yield f"spec.subGroupPolicy[{index}]: pods beyond the gang start one by one, not as groups"
