"""Queues, PodGroups, their pods, nodes and quotas for decisions on gangs."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.unit.controllers.factories import NOW, at
from workers.admission.volcano.queue_lookup import ROOT
from workers.api.kinds import NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, RESOURCE_QUOTA, Kind, Object, Ref, ref_of
from workers.api.references import GANG_GATE, GROUP_NAME
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup.admission_round import RoundOutcome
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.controllers.volcano.podgroup.members import TASK, TASK_INDEX
from workers.decision.snapshot import CachedObject, Snapshot

Amounts = Mapping[str, str | int]


def queue(name: str = "default", *, state: str = "Open", created: float = -9000.0, **spec: Any) -> Object:
    """A queue directly below the root."""
    return {
        "apiVersion": QUEUE.api_version,
        "kind": QUEUE.kind,
        "metadata": {"name": name, "uid": f"queue-{name}", "creationTimestamp": at(created), "resourceVersion": "1"},
        "spec": {"weight": 1, **({} if name == ROOT else {"parent": ROOT}), **spec},
        "status": {"state": state},
    }


def group(
    name: str = "gang",
    *,
    least: int = 3,
    asks: Amounts | None = None,
    phase: str = "Pending",
    status: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    created: float = -60.0,
    namespace: str = "default",
    **spec: Any,
) -> Object:
    """A group of so many pods. asks: its minResources, one cpu for each pod by default; empty for none at all."""
    wanted = {"cpu": str(least), "pods": str(least)} if asks is None else dict(asks)
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "creationTimestamp": at(created),
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {"minMember": least, "queue": "default", **({"minResources": wanted} if wanted else {}), **spec},
        "status": {"phase": phase, **(status or {})},
    }


def pod(
    name: str,
    of: str | None = "gang",
    *,
    cpu: str = "1",
    node: str | None = None,
    phase: str = "Pending",
    gated: bool = False,
    owned: bool = True,
    leaving: bool = False,
    created: float = -50.0,
    conditions: Iterable[Object] = (),
    namespace: str = "default",
    place: tuple[str, int] | None = None,
    **spec: Any,
) -> Object:
    """A pod of a gang, or with `of` None of no gang. place: of a Job's pod, its task and its index in that."""
    maker = ("batch.volcano.sh/v1alpha1", "Job") if place else ("apps/v1", "ReplicaSet")
    owner = {"apiVersion": maker[0], "kind": maker[1], "name": "set", "uid": "set", "controller": True}
    task = {TASK: place[0], TASK_INDEX: str(place[1])} if place else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "3",
            "creationTimestamp": at(created),
            **({"annotations": {GROUP_NAME: of, **task}} if of else {}),
            **({"ownerReferences": [owner]} if owned else {}),
            **({"deletionTimestamp": at(0)} if leaving else {}),
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": node} if node else {}),
            **({"schedulingGates": [{"name": GANG_GATE}]} if gated else {}),
            **spec,
        },
        "status": {"phase": phase, "conditions": list(conditions)},
    }


def node(
    name: str = "one",
    *,
    ready: str = "True",
    spec: Object | None = None,
    labels: Mapping[str, str] | None = None,
    **allocatable: str | int,
) -> Object:
    """A node; without amounts it has 8 cpus and 100 pods."""
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": dict(labels or {})},
        "spec": spec or {},
        "status": {
            "allocatable": allocatable or {"cpu": "8", "pods": "100"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def quota(
    name: str = "limits", *, used: Amounts | None = None, spec: Object | None = None, **hard: str | int
) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"quota-{name}"},
        "spec": {"hard": hard, **(spec or {})},
        "status": {"hard": hard, "used": dict(used or {})},
    }


def priority(name: str, value: int) -> Object:
    return {"metadata": {"name": name, "uid": f"priority-{name}"}, "value": value}


def everything(**of: Iterable[Object]) -> Snapshot:
    """The snapshot of the queue `root`, with a queue `default` unless others are given."""
    kinds: dict[str, Kind] = {
        "queues": QUEUE,
        "groups": POD_GROUP,
        "pods": POD,
        "nodes": NODE,
        "priorities": PRIORITY_CLASS,
        "quotas": RESOURCE_QUOTA,
    }
    given = {"queues": [queue()], **of}
    root = queue(ROOT)
    return Snapshot(
        ref=Ref(QUEUE, "", ROOT),
        body=root,
        cluster_wide={
            kind.id: tuple(CachedObject(ref_of(kind, body), body, 1) for body in given.get(name, ()))
            for name, kind in kinds.items()
        },
    )


def outcome(rules: GangRules = DEFAULT_RULES, **of: Iterable[Object]) -> RoundOutcome:
    """Returns the outcome of a round."""
    return rounds.run(rounds.observe(everything(**of)), NOW, rules)


def names(found: RoundOutcome) -> list[str]:
    """The groups that may start, in the order in which they were let through."""
    return [each.ref.name for each in found.admitted]


def grown(found: RoundOutcome) -> list[str]:
    """The pods beyond their gangs that may go, in the order in which they were let go."""
    return [str(each.pod["metadata"]["name"]) for each in found.growth.pods]


def reasons(found: RoundOutcome) -> dict[str, str]:
    """Why each of the others waits."""
    return {each.ref.name: refusal.reason for each, refusal in found.waiting}


def words(found: RoundOutcome) -> dict[str, str]:
    """The same for people."""
    return {each.ref.name: refusal.message for each, refusal in found.waiting}


def seen(body: Object, *pods: Object) -> Snapshot:
    """The snapshot of one group with its pods."""
    return Snapshot(
        ref=ref_of(POD_GROUP, body),
        body=body,
        referrers={POD.id: tuple(CachedObject(ref_of(POD, each), each, 1) for each in pods)},
    )
