"""apps/v1 ReplicaSet: keeps a number of pods of one template."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api.kinds import POD, REPLICA_SET, Object
from workers.controllers import pod_names, pod_stages
from workers.controllers.apps import ownership, pods, setting
from workers.controllers.apps.pods import OwnedPods
from workers.controllers.apps.ranking import rank
from workers.controllers.selectors import selects
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, ComeBack, PatchStatus, Plan, Step
from workers.reconcile.snapshot import Snapshot

#: Pods created or deleted by one plan, as in Kubernetes.
BURST = 500
#: A pod that goes at once when it is deleted sends no further news: look again.
LOOK_AGAIN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class _Tally:
    """How many pods there are, and of them labelled as the template says, ready, available; and terminating ones."""

    replicas: int
    labelled: int
    ready: int
    available: int
    terminating: int


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """Adopt and release; else add or remove pods, and say what there is."""
    body = snapshot.body
    if body is None:
        return NOTHING
    if steps := ownership.claims(snapshot, POD):
        return Plan((*steps, ComeBack(now)), "pods change hands")
    entries = snapshot.children.get(POD.id, ())
    found = pods.sort(pods.existing(entries))
    wanted, have = body["spec"].get("replicas", 1), len(found.active)
    leaving = pods.is_leaving(body)
    surplus = [] if leaving else sorted(found.active, key=rank)[: max(0, min(have - wanted, BURST))]
    missing = 0 if leaving else max(0, min(wanted - have, BURST))
    # Those that were let go keep their names.
    taken = {entry.ref.name for entry in (*entries, *snapshot.loose.get(POD.id, ()))}
    added = [pods.made(REPLICA_SET, body, name) for name in pod_names.free(body, "", taken, missing)]
    status = PatchStatus(_status(body, _tally(body, found, added, surplus, now), snapshot, wanted - have, now))
    work = (*pod_stages.create(added), *pod_stages.delete(surplus))
    # Work that failed before is likely to fail again: it is told first, since the plan ends there.
    steps = (status, *work) if snapshot.failures else (*work, status)
    why = f"{wanted} wanted, {have} there"
    return Plan((*steps, *_back(body, found, surplus, abs(wanted - have) > BURST and not leaving, now)), why)


def _tally(body: Object, found: OwnedPods, added: Sequence[Object], removed: Sequence[Object], now: datetime) -> _Tally:
    """What there is once the plan is carried out."""
    gone = {pod["metadata"]["uid"] for pod in removed}
    kept = [pod for pod in found.active if pod["metadata"]["uid"] not in gone]
    labels = (body["spec"]["template"].get("metadata") or {}).get("labels") or {}
    labelled = selects({"matchLabels": labels})
    least = body["spec"].get("minReadySeconds") or 0
    return _Tally(
        replicas=len(kept) + len(added),
        labelled=sum(map(labelled, kept)) + len(added),
        ready=sum(map(pods.is_ready, kept)),
        available=sum(pods.is_available(pod, least, now) for pod in kept),
        terminating=len(found.terminating) + len(removed),
    )


def _status(body: Object, tally: _Tally, snapshot: Snapshot, missing: int, now: datetime) -> Object:
    seen = (body.get("status") or {}).get("conditions") or ()
    if missing and snapshot.failures:
        reason = "FailedCreate" if missing > 0 else "FailedDelete"
        told = snapshot.last_error or "the last attempt failed"
        conditions = setting.put(seen, "ReplicaFailure", "True", reason, told, now, updates=False)
    else:
        conditions = setting.drop(seen, "ReplicaFailure")
    status: Object = {
        "replicas": tally.replicas,
        "observedGeneration": body["metadata"].get("generation", 0),
        "fullyLabeledReplicas": tally.labelled,
        "readyReplicas": tally.ready,
        "availableReplicas": tally.available,
        "terminatingReplicas": tally.terminating,
        "conditions": conditions,
    }
    return {name: value for name, value in status.items() if value or name == "replicas"}


def _back(body: Object, found: OwnedPods, removed: Iterable[Object], more: bool, now: datetime) -> Iterable[Step]:
    """When to look again: for the rest of the work, for pods that went at once, for pods that become available."""
    if more:
        yield ComeBack(now)
    if removed:
        yield ComeBack(now + LOOK_AGAIN)
    least = body["spec"].get("minReadySeconds") or 0
    if least:
        instants = (pods.available_at(pod, least) for pod in found.active)
        if waiting := [at for at in instants if at is not None and at > now]:
            yield ComeBack(min(waiting))


CONTROLLER = Controller(kind=REPLICA_SET, decide=decide, children=(POD,), adopts=(POD,))
