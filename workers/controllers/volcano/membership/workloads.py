"""PodGroups of ReplicaSets and StatefulSets: kept in line with their pods, and gone with the last replica."""

from datetime import datetime

from workers.api.kinds import POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Object, controller_of
from workers.controllers.volcano.membership import groups
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, Delete, Patch, Plan
from workers.reconcile.snapshot import Snapshot

_KINDS = (REPLICA_SET, STATEFUL_SET)
_REVISION = "controller-revision-hash"


def accepts(group: Object) -> bool:
    """PodGroups that were made for the pods of a ReplicaSet or of a StatefulSet."""
    owner = controller_of(group)
    return (
        owner is not None
        and group["metadata"]["name"] == f"podgroup-{owner['uid']}"
        and any(owner["kind"] == kind.kind and owner["apiVersion"] == kind.api_version for kind in _KINDS)
    )


def decide(snapshot: Snapshot, _now: datetime) -> Plan:
    """Delete the group of a workload that wants no pods; else bring it in line with the newest of them."""
    group = snapshot.body
    workload = _workload(snapshot) if group else None
    if group is None or workload is None or group["metadata"].get("deletionTimestamp"):
        return NOTHING
    if (workload.get("spec") or {}).get("replicas") == 0:
        return Plan((Delete(snapshot.ref, group["metadata"]["uid"]),), "its workload has no replicas")
    pod = _newest(snapshot, workload)
    change = groups.patch(group, groups.wanted(pod, workload)) if pod else None
    if change is None:
        return NOTHING
    return Plan((Patch(snapshot.ref, change, group["metadata"]["resourceVersion"]),), "what its pods say has changed")


#: One of two concerns of a PodGroup; the other is its gang.
CONTROLLER = Controller(kind=POD_GROUP, decide=decide, referrers=(POD, *_KINDS), accepts=accepts)


def _workload(snapshot: Snapshot) -> Object | None:
    """The workload that owns the group, if it is there."""
    owner = controller_of(snapshot.body) if snapshot.body else None
    found = (entry.body for kind in _KINDS for entry in snapshot.referrers.get(kind.id, ()))
    return next((body for body in found if owner and body and body["metadata"]["uid"] == owner["uid"]), None)


def _newest(snapshot: Snapshot, workload: Object) -> Object | None:
    """The youngest living pod of the workload; of a StatefulSet one of the revision that it goes to."""
    revision = (workload.get("status") or {}).get("updateRevision")
    pods = [
        pod
        for entry in snapshot.referrers.get(POD.id, ())
        if (pod := entry.body) is not None
        and (controller_of(pod) or {}).get("uid") == workload["metadata"]["uid"]
        and not pod["metadata"].get("deletionTimestamp")
        and revision in (None, (pod["metadata"].get("labels") or {}).get(_REVISION))
    ]
    return max(pods, key=_age, default=None)


def _age(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]
