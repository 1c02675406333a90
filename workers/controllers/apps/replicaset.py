"""apps/v1 ReplicaSet: keeps a number of pods of one template."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api import conditions
from workers.api.kinds import POD, REPLICA_SET, Object
from workers.controllers import adoption, pod_names, pod_stages
from workers.controllers.apps import condition_list, pods
from workers.controllers.apps.pods import OwnedPods
from workers.controllers.batch.job import pods as job_pods
from workers.controllers.batch.job.pods import existing, is_deleting
from workers.controllers.label_selectors import selects
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, ComeBack, PatchStatus, Plan, Step
from workers.decision.snapshot import Snapshot

#: Annotation: the cost of deleting a pod; among equally ready pods the cheapest is deleted first.
COST = "controller.kubernetes.io/pod-deletion-cost"
#: Pods created or deleted by one plan, as in Kubernetes.
BURST = 500


@dataclass(frozen=True, slots=True)
class _PodCounts:
    """Numbers of pods: all, with the template's labels, ready, available; and terminating ones."""

    replicas: int
    labelled: int
    ready: int
    available: int
    terminating: int


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Adopts and releases pods; else creates or deletes pods and reports the counts."""
    body = snapshot.body
    if body is None:
        return NOTHING
    if steps := adoption.claim(snapshot, POD):
        return Plan((*steps, ComeBack(now)), "pods are adopted or released")
    entries = snapshot.children.get(POD.id, ())
    found = pods.sort(existing(entries))
    wanted, have = body["spec"].get("replicas", 1), len(found.active)
    deleting = is_deleting(body)
    surplus = [] if deleting else sorted(found.active, key=rank)[: max(0, min(have - wanted, BURST))]
    missing = 0 if deleting else max(0, min(wanted - have, BURST))
    # Released pods keep their names.
    taken = {entry.ref.name for entry in (*entries, *snapshot.unowned.get(POD.id, ()))}
    added = [pods.build(REPLICA_SET, body, name) for name in pod_names.free(body, "", taken, missing)]
    status = PatchStatus(_status(body, _count(body, found, added, surplus, now), snapshot, wanted - have, now))
    work = (*pod_stages.create(added), *pod_stages.delete(surplus))
    # A step that failed may fail again and end the plan: the status with the failure goes before it.
    steps = (status, *work) if snapshot.failures else (*work, status)
    why = f"{wanted} wanted, {have} there"
    return Plan((*steps, *_requeue(body, found, surplus, abs(wanted - have) > BURST and not deleting, now)), why)


def _count(
    body: Object, found: OwnedPods, added: Sequence[Object], removed: Sequence[Object], now: datetime
) -> _PodCounts:
    """Counts the pods that exist once the plan is carried out."""
    gone = {pod["metadata"]["uid"] for pod in removed}
    kept = [pod for pod in found.active if pod["metadata"]["uid"] not in gone]
    labels = (body["spec"]["template"].get("metadata") or {}).get("labels") or {}
    labelled = selects({"matchLabels": labels})
    least = body["spec"].get("minReadySeconds") or 0
    return _PodCounts(
        replicas=len(kept) + len(added),
        labelled=sum(map(labelled, kept)) + len(added),
        ready=sum(conditions.holds(pod, "Ready") for pod in kept),
        available=sum(pods.is_available(pod, least, now) for pod in kept),
        terminating=len(found.terminating) + len(removed),
    )


def _status(body: Object, counts: _PodCounts, snapshot: Snapshot, missing: int, now: datetime) -> Object:
    before = (body.get("status") or {}).get("conditions") or ()
    if missing and snapshot.failures:
        reason = "FailedCreate" if missing > 0 else "FailedDelete"
        error = snapshot.last_error or "the last attempt failed"
        conditions = condition_list.put(before, "ReplicaFailure", "True", reason, error, now, updates=False)
    else:
        conditions = condition_list.drop(before, "ReplicaFailure")
    status: Object = {
        "replicas": counts.replicas,
        "observedGeneration": body["metadata"].get("generation", 0),
        "fullyLabeledReplicas": counts.labelled,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "terminatingReplicas": counts.terminating,
        "conditions": conditions,
    }
    return {name: value for name, value in status.items() if value or name == "replicas"}


def _requeue(body: Object, found: OwnedPods, removed: Iterable[Object], more: bool, now: datetime) -> Iterable[Step]:
    """Comes back for the rest of the work, for deleted pods, and for pods that become available."""
    if more:
        yield ComeBack(now)
    if removed:
        yield ComeBack(now + pod_stages.RECHECK)
    least = body["spec"].get("minReadySeconds") or 0
    if least:
        instants = (pods.available_at(pod, least) for pod in found.active)
        if waiting := [at for at in instants if at is not None and at > now]:
            yield ComeBack(min(waiting))


def rank(pod: Object) -> tuple[object, ...]:
    """Returns the deletion order, lowest first: as for Jobs, with the cost first among equally ready pods."""
    order = job_pods.rank(pod)
    return (*order[:3], cost(pod), *order[3:])


def cost(pod: Object) -> int:
    """Returns the pod's cost; 0 if missing or malformed."""
    text = (pod["metadata"].get("annotations") or {}).get(COST, "")
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits != "0" and digits.startswith("0")):
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0


CONTROLLER = Controller(kind=REPLICA_SET, decide=decide, children=(POD,), adopts=(POD,))
