"""PodGroups of pods without a Volcano Job: one per owner, created for its pods and kept in line with them."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import (
    JOB,
    POD,
    POD_GROUP,
    REPLICA_SET,
    STATEFUL_SET,
    VC_JOB,
    Object,
    Ref,
    by_manifest,
    controller_of,
    owner_reference,
)
from workers.api.references import GROUP_NAME, QUEUE_NAME, REVISION_HASH, is_gated
from workers.api.statuses import is_finished
from workers.controllers.volcano import amounts, pod_requests
from workers.controllers.volcano.job.pods import COOLDOWN, DISRUPTION_BUDGETS, PREEMPTABLE, REVOCABLE
from workers.controllers.volcano.podgroup.group import PATIENCE, PENDING, SLA, WAITING_LIMIT
from workers.controllers.volcano.podgroup.members import age
from workers.decision.controller import Controller
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    Create,
    Delete,
    Patch,
    Plan,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot

#: Owner annotation: the size of the gang.
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
#: Pod annotations: the network topology.
TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"
#: Prefix of owner annotations that the PodGroup inherits; those of its pods win.
INHERITED = "volcano.sh/"

_ANNOTATIONS = (PREEMPTABLE, COOLDOWN, REVOCABLE, SLA, WAITING_LIMIT, PATIENCE)
_LABELS = (PREEMPTABLE, COOLDOWN)


def group_name(pod: Object) -> str:
    """Returns the name of a pod's PodGroup: one name for all pods of an owner."""
    controller = controller_of(pod)
    return f"podgroup-{controller['uid'] if controller else pod['metadata']['uid']}"


def wanted(pod: Object, owner: Object | None) -> Object:
    """Returns the pod's PodGroup. owner: the object that controls the pod, None if it is not observed."""
    metadata = pod["metadata"]
    least = _min_member(owner)
    spec = {
        "minMember": least,
        "priorityClassName": pod["spec"].get("priorityClassName") or None,
        "minResources": amounts.render(amounts.multiplied(pod_requests.usage(pod["spec"]), least)),
        "queue": _annotations(pod).get(QUEUE_NAME) or None,
        "networkTopology": _topology(_annotations(pod)),
    }
    return {
        **POD_GROUP.type_meta,
        "metadata": {
            "name": group_name(pod),
            "namespace": metadata["namespace"],
            "labels": {key: text for key, text in (metadata.get("labels") or {}).items() if key in _LABELS},
            "annotations": _copied(pod, owner),
            "ownerReferences": _owner_references(pod),
        },
        "spec": {field: value for field, value in spec.items() if value is not None},
        "status": {"phase": PENDING},
    }


def patch(existing: Object, wanted: Object) -> Object | None:
    """Returns the merge patch to the wanted PodGroup, None if nothing differs.

    A queue that the pods do not name, and fields of other writers, stay.
    """
    metadata = {}
    for field in ("labels", "annotations"):
        known = existing["metadata"].get(field) or {}
        if news := {key: text for key, text in wanted["metadata"][field].items() if known.get(key) != text}:
            metadata[field] = news
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


def _annotations(body: Object | None) -> Mapping[str, str]:
    return (body or {"metadata": {}})["metadata"].get("annotations") or {}


def _min_member(owner: Object | None) -> int:
    """Returns the owner's annotation if it is a number, else 1."""
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


def _owner_references(pod: Object) -> list[Object]:
    """Returns the pods' owners; a pod without a controller owns its group itself."""
    if controller_of(pod) is not None:
        return list(pod["metadata"]["ownerReferences"])
    return [owner_reference(POD, pod)]


#: Owners whose annotations apply to the PodGroup of their pods.
OWNERS = (REPLICA_SET, STATEFUL_SET, JOB)

#: Interval at which a gated pod checks that its PodGroup exists: the deletion does not notify it.
RECHECK = timedelta(minutes=5)
#: Age from which a gated pod warns of a missing PodGroup: a manifest may create it after its pods.
GRACE = timedelta(seconds=30)

_REFUSED = RecordEvent("Warning", "FailedPodGroup", "the pod has no PodGroup: {error}")


def controller(schedulers: Set[str]) -> Controller:
    """Returns the controller of pods without a PodGroup. schedulers: whose pods are put into PodGroups."""
    membership = _Membership(schedulers)
    return Controller(
        kind=POD,
        decide=membership.decide,
        relatives=_relatives,
        optional_relatives=lambda pod: () if _is_foreign(pod) else (_group_ref(pod, group_name(pod)),),
        follows=(POD_GROUP, *OWNERS),
        accepts=membership.accepts,
    )


@dataclass(frozen=True)
class _Membership:
    schedulers: Set[str]

    def accepts(self, pod: Object) -> bool:
        """Accepts pods of a gang scheduler without a PodGroup, and gated pods whose PodGroup may be missing.

        A gate is accepted as well: admission has already replaced the scheduler of a gated pod. Volcano's Jobs create
        the PodGroups of their pods themselves.
        """
        held = is_gated(pod)
        if pod["metadata"].get("deletionTimestamp") or is_finished(pod):
            return False
        if _group_of(pod):
            return held and not _of_a_job(pod)
        return held or pod["spec"].get("schedulerName") in self.schedulers

    def decide(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Creates a missing PodGroup, then annotates the pod; a gated pod checks its PodGroup again later.

        A PodGroup of another name is its author's: the pod warns if there is none.
        """
        pod = snapshot.body
        if pod is None:
            return NOTHING
        if _is_foreign(pod):
            return _check(pod, snapshot, now)
        name = group_name(pod)
        group = _group_ref(pod, name)
        steps: list[Step] = []
        if snapshot.relatives.get(group) is None:
            made = Create(POD_GROUP, wanted(pod, _owner(pod, snapshot)))
            steps.append(Together((made,), otherwise=_REFUSED))
        if not _group_of(pod):
            body = {"metadata": {"annotations": {GROUP_NAME: name}}}
            steps.append(Patch(snapshot.ref, body, pod["metadata"]["resourceVersion"]))
        if is_gated(pod):
            steps.append(ComeBack(now + RECHECK))
        return Plan(tuple(steps), f"a member of {group}") if steps else NOTHING


def _check(pod: Object, snapshot: Snapshot, now: datetime) -> Plan:
    """Warns of a missing PodGroup, and checks again later. A PodGroup that appears ungates its pods itself."""
    group = _group_ref(pod, _group_of(pod))
    if snapshot.relatives.get(group) is not None:
        return Plan((ComeBack(now + RECHECK),), f"a member of {group}")
    text = f"PodGroup {group.name}, which the annotation {GROUP_NAME} names, does not exist: the pod waits for it"
    warns_at = times.parse(pod["metadata"]["creationTimestamp"]) + GRACE
    if now < warns_at:
        return Plan((ComeBack(warns_at),), text)
    return Plan((RecordEvent("Warning", "PodGroupNotFound", text), ComeBack(now + RECHECK)), text)


def _is_foreign(pod: Object) -> bool:
    """Returns True if the pod names a PodGroup other than the one created for it."""
    return _group_of(pod) not in ("", group_name(pod))


def _group_ref(pod: Object, name: str) -> Ref:
    return Ref(POD_GROUP, pod["metadata"]["namespace"], name)


def _of_a_job(pod: Object) -> bool:
    owner = controller_of(pod)
    return owner is not None and by_manifest(owner["apiVersion"], owner["kind"]) == VC_JOB


def owner_of(pod: Object) -> Ref | None:
    """Returns the pod's owner if its kind has annotations for PodGroups."""
    controller = controller_of(pod)
    kind = by_manifest(controller["apiVersion"], controller["kind"]) if controller else None
    if controller is None or kind not in OWNERS:
        return None
    return Ref(kind, pod["metadata"]["namespace"], controller["name"])


def _relatives(pod: Object) -> tuple[Ref, ...]:
    """Returns the PodGroup that its author named, or the owner, whose annotations a new PodGroup inherits."""
    if _is_foreign(pod):
        return (_group_ref(pod, _group_of(pod)),)
    owner = owner_of(pod)
    return (owner,) if owner else ()


def _owner(pod: Object, snapshot: Snapshot) -> Object | None:
    ref, controller = owner_of(pod), controller_of(pod)
    owner = snapshot.relatives.get(ref) if ref else None
    return owner if owner and controller and owner["metadata"]["uid"] == controller["uid"] else None


def _group_of(pod: Object) -> str:
    return (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or ""


_KINDS = (REPLICA_SET, STATEFUL_SET)


def accepts_group(group: Object) -> bool:
    """Accepts PodGroups created for the pods of a ReplicaSet or a StatefulSet."""
    owner = controller_of(group)
    return (
        owner is not None
        and group["metadata"]["name"] == f"podgroup-{owner['uid']}"
        and any(owner["kind"] == kind.kind and owner["apiVersion"] == kind.api_version for kind in _KINDS)
    )


def decide_group(snapshot: Snapshot, _now: datetime) -> Plan:
    """Deletes the group of a workload without replicas and pods; else patches it to its newest pod.

    A workload may get its replicas back before its pods were deleted. Those would be in no group then: it stays.
    """
    group = snapshot.body
    workload = _workload(snapshot) if group else None
    if group is None or workload is None or group["metadata"].get("deletionTimestamp"):
        return NOTHING
    pods = _living(snapshot, workload)
    if (workload.get("spec") or {}).get("replicas") == 0 and all(map(is_finished, pods)):
        return Plan((Delete(snapshot.ref, group["metadata"]["uid"]),), "its workload has no replicas")
    pod = _newest(pods, workload)
    change = patch(group, wanted(pod, workload)) if pod else None
    if change is None:
        return NOTHING
    return Plan((Patch(snapshot.ref, change, group["metadata"]["resourceVersion"]),), "what its pods say has changed")


#: One of the two controllers of PodGroups; the other admits gangs.
WORKLOADS = Controller(kind=POD_GROUP, decide=decide_group, referrers=(POD, *_KINDS), accepts=accepts_group)


def _workload(snapshot: Snapshot) -> Object | None:
    """Returns the workload that owns the group."""
    owner = controller_of(snapshot.body) if snapshot.body else None
    found = (entry.body for kind in _KINDS for entry in snapshot.referrers.get(kind.id, ()))
    return next((body for body in found if owner and body and body["metadata"]["uid"] == owner["uid"]), None)


def _living(snapshot: Snapshot, workload: Object) -> list[Object]:
    """Returns the pods of the workload that are not being deleted."""
    return [
        pod
        for entry in snapshot.referrers.get(POD.id, ())
        if (pod := entry.body) is not None
        and (controller_of(pod) or {}).get("uid") == workload["metadata"]["uid"]
        and not pod["metadata"].get("deletionTimestamp")
    ]


def _newest(pods: Iterable[Object], workload: Object) -> Object | None:
    """Returns the youngest of these pods; for a StatefulSet, of its update revision."""
    revision = (workload.get("status") or {}).get("updateRevision")
    of_it = (pod for pod in pods if revision in (None, (pod["metadata"].get("labels") or {}).get(REVISION_HASH)))
    return max(of_it, key=age, default=None)
