"""The PodGroup of ordinary pods: one for all pods of an owner, or for a pod that nobody controls."""

from collections.abc import Mapping

from workers.api.kinds import POD, POD_GROUP, Object, controller_of
from workers.controllers.volcano import amounts, demand
from workers.controllers.volcano.job.pods import COOLDOWN, DISRUPTION_BUDGETS, PREEMPTABLE, REVOCABLE
from workers.controllers.volcano.podgroup.group import PATIENCE, PENDING, SLA, WAITING_LIMIT

#: A pod's annotation: the queue it waits in.
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
#: An owner's annotation: how many of its pods start together.
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
#: Pods' annotations: how close to each other they must stand.
TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"
#: Annotations of an owner that begin like this stand on the PodGroup as well, unless its pods say otherwise.
INHERITED = "volcano.sh/"

_ANNOTATIONS = (PREEMPTABLE, COOLDOWN, REVOCABLE, SLA, WAITING_LIMIT, PATIENCE)
_LABELS = (PREEMPTABLE, COOLDOWN)


def name(pod: Object) -> str:
    """What the PodGroup of a pod is called: all pods of one owner have the same."""
    controller = controller_of(pod)
    return f"podgroup-{controller['uid'] if controller else pod['metadata']['uid']}"


def wanted(pod: Object, owner: Object | None) -> Object:
    """The PodGroup of this pod as it is created. owner: the object that controls the pod, None if it is not known."""
    metadata = pod["metadata"]
    least = _least(owner)
    spec = {
        "minMember": least,
        "priorityClassName": pod["spec"].get("priorityClassName") or None,
        "minResources": amounts.render(amounts.multiplied(demand.usage(pod["spec"]), least)),
        "queue": _annotations(pod).get(QUEUE_NAME) or None,
        "networkTopology": _topology(_annotations(pod)),
    }
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": name(pod),
            "namespace": metadata["namespace"],
            "labels": {key: text for key, text in (metadata.get("labels") or {}).items() if key in _LABELS},
            "annotations": _copied(pod, owner),
            "ownerReferences": _owners(pod),
        },
        "spec": {field: value for field, value in spec.items() if value is not None},
        "status": {"phase": PENDING},
    }


def patch(existing: Object, wanted: Object) -> Object | None:
    """The merge patch after which an existing PodGroup says what is wanted; None if it does.

    A queue that the pods do not name, and what others wrote beside, stay as they are.
    """
    metadata = {
        field: news
        for field in ("labels", "annotations")
        if (news := _news(existing["metadata"].get(field) or {}, wanted["metadata"][field]))
    }
    old, new = existing.get("spec") or {}, wanted["spec"]
    spec: Object = {
        field: new.get(field)
        for field in ("minMember", "priorityClassName", "networkTopology")
        if old.get(field) != new.get(field)
    }
    if new.get("queue", old.get("queue")) != old.get("queue"):
        spec["queue"] = new["queue"]
    resources = old.get("minResources") or {}
    if not amounts.same(resources, new["minResources"]):
        spec["minResources"] = {**dict.fromkeys(resources), **new["minResources"]}
    body = {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}
    return body or None


def _news(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in new.items() if old.get(key) != text}


def _annotations(body: Object | None) -> Mapping[str, str]:
    return (body or {"metadata": {}})["metadata"].get("annotations") or {}


def _least(owner: Object | None) -> int:
    """What the owner says, if that is a number, and 1 where it says nothing."""
    text = _annotations(owner).get(MIN_MEMBER, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 1


def _copied(pod: Object, owner: Object | None) -> dict[str, str]:
    given = _annotations(pod)
    found = {key: text for key, text in _annotations(owner).items() if key.startswith(INHERITED)}
    found |= {key: given[key] for key in _ANNOTATIONS if key in given}
    if budget := next((key for key in DISRUPTION_BUDGETS if key in given), None):
        found[budget] = given[budget]
    return found


def _topology(annotations: Mapping[str, str]) -> Object | None:
    mode, tier = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_TIER, "")
    topology: Object = {"mode": mode} if mode in ("hard", "soft") else {}
    if tier.isascii() and tier.isdigit() and len(tier) <= 9:
        topology["highestTierAllowed"] = int(tier)
    return topology or None


def _owners(pod: Object) -> list[Object]:
    """Whoever owns the pods owns their group; a pod that nobody controls owns it itself."""
    if controller_of(pod) is not None:
        return list(pod["metadata"]["ownerReferences"])
    metadata = pod["metadata"]
    itself = {"apiVersion": POD.api_version, "kind": POD.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return [{**itself, "controller": True, "blockOwnerDeletion": True}]
