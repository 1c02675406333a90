"""Ordinary pods that ask for one of our schedulers: each is put into the PodGroup of its owner, or its own."""

from collections.abc import Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.admission.pod import gated
from workers.api.kinds import (
    JOB,
    POD,
    POD_GROUP,
    REPLICA_SET,
    STATEFUL_SET,
    Object,
    Ref,
    by_manifest,
    controller_of,
)
from workers.api.references import GROUP_NAME
from workers.controllers.volcano.membership import groups
from workers.reconcile.controller import Controller
from workers.reconcile.plan import (
    NOTHING,
    ComeBack,
    Create,
    Patch,
    Plan,
    RecordEvent,
    Step,
    Together,
)
from workers.reconcile.snapshot import Snapshot

#: Owners whose annotations say something of the PodGroup of their pods.
OWNERS = (REPLICA_SET, STATEFUL_SET, JOB)

#: How often a pod that is held back looks whether its PodGroup is still there: nobody tells it when it is deleted.
LOOK = timedelta(minutes=5)

_REFUSED = RecordEvent("Warning", "FailedPodGroup", "the pod has no PodGroup: {error}")


def controller(schedulers: Set[str]) -> Controller:
    """The controller of pods without a PodGroup. schedulers: whose pods are gathered in PodGroups."""
    membership = _Membership(schedulers)
    return Controller(
        kind=POD,
        decide=membership.decide,
        relatives=_owners,
        optional_relatives=_groups,
        follows=(POD_GROUP, *OWNERS),
        accepts=membership.accepts,
    )


@dataclass(frozen=True)
class _Membership:
    schedulers: Set[str]

    def accepts(self, pod: Object) -> bool:
        """Pods that are to start as a gang and have no PodGroup yet, or have lost it while they wait for it.

        A gate stands on pods whose scheduler was replaced already by the one that places them.
        """
        held = gated(pod)
        if pod["metadata"].get("deletionTimestamp") or _finished(pod):
            return False
        if not held and pod["spec"].get("schedulerName") not in self.schedulers:
            return False
        name = _group_of(pod)
        return not name or (held and name == groups.name(pod))

    def decide(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Make the PodGroup if it is missing, then tell the pod of it; a pod that waits looks after its group."""
        pod = snapshot.body
        if pod is None:
            return NOTHING
        name = groups.name(pod)
        group = Ref(POD_GROUP, pod["metadata"]["namespace"], name)
        steps: list[Step] = []
        if snapshot.relatives.get(group) is None:
            made = Create(POD_GROUP, groups.wanted(pod, _owner(pod, snapshot)))
            steps.append(Together((made,), otherwise=_REFUSED))
        if not _group_of(pod):
            body = {"metadata": {"annotations": {GROUP_NAME: name}}}
            steps.append(Patch(snapshot.ref, body, pod["metadata"]["resourceVersion"]))
        if gated(pod):
            steps.append(ComeBack(now + LOOK))
        return Plan(tuple(steps), f"a member of {group}") if steps else NOTHING


def owner_of(pod: Object) -> Ref | None:
    """The owner whose annotations count, if it is of a kind that has such."""
    controller = controller_of(pod)
    kind = by_manifest(controller["apiVersion"], controller["kind"]) if controller else None
    if controller is None or kind not in OWNERS:
        return None
    return Ref(kind, pod["metadata"]["namespace"], controller["name"])


def _owners(pod: Object) -> tuple[Ref, ...]:
    owner = owner_of(pod)
    return (owner,) if owner else ()


def _groups(pod: Object) -> tuple[Ref, ...]:
    return (Ref(POD_GROUP, pod["metadata"]["namespace"], groups.name(pod)),)


def _owner(pod: Object, snapshot: Snapshot) -> Object | None:
    ref, controller = owner_of(pod), controller_of(pod)
    owner = snapshot.relatives.get(ref) if ref else None
    return owner if owner and controller and owner["metadata"]["uid"] == controller["uid"] else None


def _group_of(pod: Object) -> str:
    return (pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or ""


def _finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
