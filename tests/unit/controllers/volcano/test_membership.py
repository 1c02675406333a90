"""PodGroups of ordinary pods: who gets which, what is in it, and how it follows its workload."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at
from workers.api.kinds import JOB, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, VC_JOB, Kind, Object, Ref, ref_of
from workers.api.merge_patch import diff
from workers.api.references import GANG_GATE, GROUP_NAME
from workers.controllers.volcano.membership import WORKLOADS, controller
from workers.decision.plan import NOTHING, ComeBack, Create, Delete, Patch, Plan, RecordEvent, Step, Together
from workers.decision.snapshot import CachedObject, Snapshot

PODS = controller(frozenset({"volcano", "mine"}))


def owned_by(kind: Kind, uid: str = "w", name: str = "web") -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid, "controller": True}


def pod(
    name: str = "p",
    *,
    owner: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    phase: str = "Pending",
    scheduler: str = "volcano",
    gated: bool = False,
    metadata: Object | None = None,
    **spec: Any,
) -> Object:
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
            **({"ownerReferences": [owner]} if owner else {}),
            **(metadata or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            **({"schedulingGates": [{"name": GANG_GATE}]} if gated else {}),
            **spec,
        },
        "status": {"phase": phase},
    }


def workload(
    kind: Kind = REPLICA_SET,
    *,
    uid: str = "w",
    replicas: int | None = 3,
    status: Object | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "web", "namespace": "team", "uid": uid, "annotations": dict(annotations or {})},
        "spec": {} if replicas is None else {"replicas": replicas},
        "status": status or {},
    }


def decided(body: Object, *, group: Object | None = None, owner: Object | None = None) -> Plan:
    found: dict[Ref, Object | None] = {}
    for ref in (*PODS.optional_relatives(body), *PODS.relatives(body)):
        found[ref] = group if ref.kind is POD_GROUP else owner
    return PODS.decide(Snapshot(ref_of(POD, body), body, relatives=found), NOW)


def made(plan: Plan) -> Object:
    (create,) = (each for step in plan.steps if isinstance(step, Together) for each in step.steps)
    assert isinstance(create, Create)
    return create.body


# Who is ours


@cases(
    ("one of our schedulers", pod(), True),
    ("another of ours", pod(scheduler="mine"), True),
    ("somebody else's", pod(scheduler="default-scheduler"), False),
    ("held back by us already", pod(scheduler="default-scheduler", gated=True), True),
    ("has a group", pod(annotations={GROUP_NAME: "g"}), False),
    ("has an empty one", pod(annotations={GROUP_NAME: ""}), True),
    ("waits for a group of its author's", pod(annotations={GROUP_NAME: "g"}, gated=True), True),
    (
        "waits for that of its Volcano Job",
        pod(owner=owned_by(VC_JOB), annotations={GROUP_NAME: "g"}, gated=True),
        False,
    ),
    ("waits for one of ours", pod(annotations={GROUP_NAME: "podgroup-uid-p"}, gated=True), True),
    ("was let go", pod(annotations={GROUP_NAME: "podgroup-uid-p"}), False),
    ("succeeded", pod(phase="Succeeded"), False),
    ("failed", pod(phase="Failed"), False),
    ("runs already", pod(phase="Running"), True),
    ("is leaving", pod(metadata={"deletionTimestamp": "2026-03-01T11:00:00Z"}), False),
)
def test_whose_pods_are_gathered(body: Object, ours: bool) -> None:
    assert PODS.accepts(body) is ours


@cases(
    ("nobody's", None, "podgroup-uid-p", None),
    ("a ReplicaSet's", owned_by(REPLICA_SET), "podgroup-w", Ref(REPLICA_SET, "team", "web")),
    ("a StatefulSet's", owned_by(STATEFUL_SET), "podgroup-w", Ref(STATEFUL_SET, "team", "web")),
    ("a Job's", owned_by(JOB), "podgroup-w", Ref(JOB, "team", "web")),
    (
        "of a kind nobody knows",
        {"apiVersion": "x/v1", "kind": "Boat", "name": "b", "uid": "w", "controller": True},
        "podgroup-w",
        None,
    ),
)
def test_all_pods_of_one_owner_have_one_group(owner: Object | None, name: str, asks: Ref | None) -> None:
    body = pod(owner=owner)
    assert PODS.optional_relatives(body) == (Ref(POD_GROUP, "team", name),)
    assert PODS.relatives(body) == ((asks,) if asks else ())
    assert made(decided(body))["metadata"]["name"] == name


# What is done


def test_the_group_is_created_before_the_pod_is_annotated() -> None:
    together, patch = decided(pod()).steps
    assert isinstance(together, Together)
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"annotations": {GROUP_NAME: "podgroup-uid-p"}}}
    assert (patch.ref, patch.resource_version) == (Ref(POD, "team", "p"), "7")


def test_a_group_that_is_there_is_joined() -> None:
    (patch,) = decided(pod(), group={"metadata": {}}).steps
    assert isinstance(patch, Patch)


def test_a_group_that_was_lost_is_made_again_for_those_who_wait() -> None:
    body = pod(annotations={GROUP_NAME: "podgroup-uid-p"}, gated=True)
    assert made(decided(body))["metadata"]["name"] == "podgroup-uid-p"
    assert [type(step) for step in decided(body).steps] == [Together, ComeBack]
    assert decided(body, group={"metadata": {}}).steps == (ComeBack(NOW + timedelta(minutes=5)),)


LATER = ComeBack(NOW + timedelta(minutes=5))
MISSING = RecordEvent(
    "Warning",
    "PodGroupNotFound",
    f"PodGroup g, which the annotation {GROUP_NAME} names, does not exist: the pod waits for it",
)


@cases(
    ("there", 300, {"metadata": {}}, (LATER,)),
    ("missing", 300, None, (MISSING, LATER)),
    ("missing as long as its manifest may take", 30, None, (MISSING, LATER)),
    ("missing, perhaps not for long", 29, None, (ComeBack(NOW + timedelta(seconds=1)),)),
)
def test_a_pod_that_waits_warns_that_the_group_of_its_author_is_missing(
    age: int, group: Object | None, steps: tuple[Step, ...]
) -> None:
    owner = owned_by(REPLICA_SET)
    body = pod(owner=owner, annotations={GROUP_NAME: "g"}, gated=True, metadata={"creationTimestamp": at(-age)})
    assert (PODS.relatives(body), PODS.optional_relatives(body)) == ((Ref(POD_GROUP, "team", "g"),), ())
    assert decided(body, group=group).steps == steps


def test_a_pod_that_is_not_held_back_looks_no_more() -> None:
    assert not [step for step in decided(pod()).steps if isinstance(step, ComeBack)]


def test_a_group_belongs_to_whom_its_pods_belong() -> None:
    owner = owned_by(REPLICA_SET)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}
    body = pod(owner=owner, metadata={"ownerReferences": [other, owner]})
    assert made(decided(body))["metadata"]["ownerReferences"] == [other, owner]
    (itself,) = made(decided(pod()))["metadata"]["ownerReferences"]
    assert itself == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": "uid-p",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_group_asks_for_what_its_pods_ask_for() -> None:
    group = made(decided(pod(priorityClassName="high")))
    assert group["status"] == {"phase": "Pending"}
    assert group["spec"] == {
        "minMember": 1,
        "priorityClassName": "high",
        "minResources": {
            "cpu": "500m",
            "requests.cpu": "500m",
            "limits.cpu": "1",
            "memory": "1Gi",
            "requests.memory": "1Gi",
            "pods": "1",
            "count/pods": "1",
        },
    }


@for_each(("3", 3), ("0", 0), ("-1", 1), ("many", 1), ("", 1), ("2.5", 1), ("9" * 30, 1), ("٣", 1))
def test_the_owner_says_how_many_start_together(text: str, least: int) -> None:
    owner = workload(annotations={"scheduling.volcano.sh/group-min-member": text})
    spec = made(decided(pod(owner=owned_by(REPLICA_SET)), owner=owner))["spec"]
    assert spec["minMember"] == least
    assert spec["minResources"].get("count/pods", "0") == str(least)


def test_a_predecessor_of_the_owner_says_nothing() -> None:
    owner = workload(uid="earlier", annotations={"scheduling.volcano.sh/group-min-member": "3"})
    assert made(decided(pod(owner=owned_by(REPLICA_SET)), owner=owner))["spec"]["minMember"] == 1


def test_annotations_of_the_owner_are_inherited_and_those_of_the_pod_win() -> None:
    owner = workload(
        annotations={
            "volcano.sh/preemptable": "true",
            "volcano.sh/anything": "goes",
            "deployment.kubernetes.io/revision": "1",
        }
    )
    body = pod(
        owner=owned_by(REPLICA_SET),
        annotations={
            "volcano.sh/preemptable": "false",
            "volcano.sh/revocable-zone": "*",
            "volcano.sh/cooldown-time": "1m",
            "volcano.sh/jdb-min-available": "1",
            "volcano.sh/jdb-max-unavailable": "2",
            "volcano.sh/of-the-pod-alone": "x",
            "sla-waiting-time": "1h",
            "penstock.dev/gang-timeout": "5m",
        },
        labels={"volcano.sh/preemptable": "false", "volcano.sh/cooldown-time": "1m", "app": "web"},
    )
    metadata = made(decided(body, owner=owner))["metadata"]
    assert metadata["annotations"] == {
        "volcano.sh/preemptable": "false",
        "volcano.sh/anything": "goes",
        "volcano.sh/revocable-zone": "*",
        "volcano.sh/cooldown-time": "1m",
        "volcano.sh/jdb-min-available": "1",
        "sla-waiting-time": "1h",
        "penstock.dev/gang-timeout": "5m",
    }
    assert metadata["labels"] == {"volcano.sh/preemptable": "false", "volcano.sh/cooldown-time": "1m"}


@for_each(
    ({"scheduling.volcano.sh/queue-name": "lane"}, "queue", "lane"),
    ({}, "queue", None),
    ({"volcano.sh/network-topology-mode": "soft"}, "networkTopology", {"mode": "soft"}),
    ({"volcano.sh/network-topology-highest-tier": "2"}, "networkTopology", {"highestTierAllowed": 2}),
    ({"volcano.sh/network-topology-highest-tier": "two"}, "networkTopology", None),
    ({"volcano.sh/network-topology-mode": "odd"}, "networkTopology", None),
)
def test_what_a_pods_annotations_say(annotations: dict[str, str], field: str, value: Any) -> None:
    assert made(decided(pod(annotations=annotations)))["spec"].get(field) == value


# How a group follows its workload


def group_of(body: Object, owner: Object) -> Object:
    group = made(decided(body, owner=owner))
    return {**group, "metadata": {**group["metadata"], "uid": "g", "resourceVersion": "9"}}


def kept(group: Object, owner: Object | None, *pods: Object) -> Plan:
    kind = STATEFUL_SET if owner and owner["kind"] == "StatefulSet" else REPLICA_SET
    referrers = {
        POD.id: tuple(CachedObject(ref_of(POD, each), each, 1) for each in pods),
        kind.id: (CachedObject(ref_of(kind, owner), owner, 1),) if owner else (),
    }
    return WORKLOADS.decide(Snapshot(ref_of(POD_GROUP, group), group, referrers=referrers), NOW)


MEMBER = pod(owner=owned_by(REPLICA_SET), annotations={GROUP_NAME: "podgroup-w"})


@cases(
    ("a ReplicaSet's", group_of(MEMBER, workload()), True),
    ("a StatefulSet's", group_of(pod(owner=owned_by(STATEFUL_SET)), workload()), True),
    ("a Job's", group_of(pod(owner=owned_by(JOB)), workload()), False),
    ("a pod's", group_of(pod(), workload()), False),
    ("of its author's", {"metadata": {"name": "mine", "ownerReferences": [owned_by(REPLICA_SET)]}}, False),
)
def test_whose_groups_follow_a_workload(group: Object, ours: bool) -> None:
    assert WORKLOADS.accepts(group) is ours


@cases(
    ("no replicas", workload(replicas=0), True),
    ("one", workload(replicas=1), False),
    ("as many as nobody says", workload(replicas=None), False),
    ("of another uid", workload(replicas=0, uid="another"), False),
    ("it is not known", None, False),
)
def test_the_group_goes_with_the_last_replica(owner: Object | None, gone: bool) -> None:
    plan = kept(group_of(MEMBER, workload()), owner)
    assert plan.steps == ((Delete(Ref(POD_GROUP, "team", "podgroup-w"), "g"),) if gone else ())
    # While one of its pods is there, none of these says anything new.
    assert kept(group_of(MEMBER, workload()), owner, MEMBER).steps == ()


OWNED = owned_by(REPLICA_SET)


@cases(
    ("living", MEMBER, False),
    ("leaving", pod(owner=OWNED, metadata={"deletionTimestamp": "t"}), True),
    ("over", pod(owner=OWNED, phase="Succeeded"), True),
    ("another's", pod(owner=owned_by(REPLICA_SET, uid="other")), True),
)
def test_the_group_stays_for_pods_that_the_workload_has_yet_to_delete(member: Object, gone: bool) -> None:
    # It may get its replicas back before that, and keep them.
    plan = kept(group_of(MEMBER, workload()), workload(replicas=0), member)
    assert plan.steps == ((Delete(Ref(POD_GROUP, "team", "podgroup-w"), "g"),) if gone else ())


def test_a_group_that_says_what_its_pods_say_is_left_alone() -> None:
    group = group_of(MEMBER, workload())
    group["spec"] |= {"queue": "set-by-hand", "minResources": {**group["spec"]["minResources"], "cpu": "0.5"}}
    group["metadata"]["annotations"]["kubectl"] = "was here"
    assert kept(group, workload(), MEMBER) == NOTHING


def test_what_was_made_nonsense_of_by_hand_is_put_right() -> None:
    group = group_of(MEMBER, workload())
    group["spec"]["minResources"] = {"cpu": "lots", "boats": "1"}
    (patch,) = kept(group, workload(), MEMBER).steps
    assert isinstance(patch, Patch)
    assert (patch.body["spec"]["minResources"]["cpu"], patch.body["spec"]["minResources"]["boats"]) == ("500m", None)


def test_a_group_follows_what_its_workload_and_its_pods_say() -> None:
    group = group_of(MEMBER, workload())
    owner = workload(annotations={"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/new": "x"})
    later = pod(
        "z",
        owner=owned_by(REPLICA_SET),
        annotations={"scheduling.volcano.sh/queue-name": "lane"},
        priorityClassName="low",
    )
    (patch,) = kept(group, owner, MEMBER, later).steps
    assert isinstance(patch, Patch)
    assert patch.resource_version == "9"
    assert patch.body["metadata"] == {"annotations": {"volcano.sh/new": "x"}}
    assert patch.body["spec"]["queue"] == "lane"
    assert (patch.body["spec"]["minMember"], patch.body["spec"]["minResources"]["cpu"]) == (2, "1")
    patched = {**group, "spec": {**group["spec"], **patch.body["spec"]}}
    patched["metadata"] = {**group["metadata"], "annotations": {"volcano.sh/new": "x"}}
    assert kept(patched, owner, MEMBER, later) == NOTHING
    assert diff(patched, group) != {}


def test_of_a_statefulset_the_revision_it_goes_to_counts() -> None:
    owner = workload(STATEFUL_SET, status={"updateRevision": "new"})
    by = owned_by(STATEFUL_SET)
    old = pod("z", owner=by, labels={"controller-revision-hash": "old"}, priorityClassName="old")
    new = pod("a", owner=by, labels={"controller-revision-hash": "new"}, priorityClassName="new")
    group = group_of(old, owner)
    (patch,) = kept(group, owner, old, new).steps
    assert isinstance(patch, Patch)
    assert patch.body == {"spec": {"priorityClassName": "new"}}
    assert kept(group, owner, old) == NOTHING


@cases(
    ("another's", pod("z", owner=owned_by(REPLICA_SET, uid="other"), priorityClassName="x")),
    ("nobody's", pod("z", priorityClassName="x")),
    ("leaving", pod("z", owner=owned_by(REPLICA_SET), metadata={"deletionTimestamp": "t"}, priorityClassName="x")),
)
def test_only_living_pods_of_the_workload_say_anything(stranger: Object) -> None:
    assert kept(group_of(MEMBER, workload()), workload(), MEMBER, stranger) == NOTHING
    assert kept(group_of(MEMBER, workload()), workload(), stranger) == NOTHING
