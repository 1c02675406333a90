"""Advice for a kind that a cluster does not serve: which version it serves, or where the kind comes from."""

from collections.abc import Iterable

#: The group that most workloads were in before Kubernetes 1.16; the kinds kept their names.
_FORMER = "extensions"
#: Endings of the groups that our CustomResourceDefinitions are in.
_OURS = ("keda.sh", "penstock.dev", "volcano.sh")


def advice(group: str, name: str, served: Iterable[tuple[str, str, str]]) -> str:
    """Returns what to do about a kind that is not served in the version that was asked for.

    name: the kind, or its plural. served: group, version and name of what is served, names spelled as this one.
    """
    places = [(other, version) for other, version, known in served if known == name]
    for other, version in places:
        if other == group or (group == _FORMER and _is_builtin(other)):
            return f"use {other}/{version}" if other else f"use {version}"
    if _is_builtin(group):
        return "it is not offered here"
    if any(group == ending or group.endswith(f".{ending}") for ending in _OURS):
        return "its CustomResourceDefinition is missing: `penstock crds | penstock apply -f -` stores ours"
    return "its CustomResourceDefinition is missing: apply that first"


def _is_builtin(group: str) -> bool:
    """True for Kubernetes' own groups: ``apps``, ``networking.k8s.io``."""
    return "." not in group or group.endswith(".k8s.io")
