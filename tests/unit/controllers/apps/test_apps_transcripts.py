"""All that is decided on Deployments, ReplicaSets and StatefulSets in their lives, word for word."""

from typing import Any

import pytest

from tests.unit.controllers.apps.apps_cluster import CONTROLLER, AppsCluster, rolling, template
from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.transcripts import PlanTranscript
from workers.api.kinds import CONTROLLER_REVISION, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind, Object, Ref
from workers.decision.plan import PatchStatus
from workers.decision.snapshot import CachedObject, Snapshot

DATA = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
LOGS = {
    "metadata": {"name": "logs", "labels": {"disk": "slow"}, "annotations": {"kind": "hdd"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}


class ToldCluster(AppsCluster):
    """A cluster with a transcript of its plans."""

    def __init__(self, transcript: PlanTranscript, root: Kind = DEPLOYMENT, **more: Any) -> None:
        super().__init__(root, **more)
        self.transcript = transcript
        self.decisions = {name: self.transcript.of(decide) for name, decide in self.decisions.items()}

    def then(self, line: str, **spec: Any) -> None:
        """The author changes the spec, and the controllers come to rest."""
        self.transcript.note(line)
        if spec:
            self.edit(**spec)
        self.settle()

    def set_pod(self, number: int, **status: Any) -> None:
        """A pod gets this status."""
        pod = self.of(POD)[number]
        pod["status"] = {**pod["status"], **status}


def test_the_life_of_a_deployment(transcript: PlanTranscript):
    cluster = ToldCluster(transcript, replicas=3, revisionHistoryLimit=1)
    cluster.then("three pods")
    cluster.then("another template", template=template("two"))
    cluster.then("paused, and a third one", template=template("three"), paused=True)
    cluster.then("scaled while paused", replicas=5)
    cluster.then("resumed", paused=False, minReadySeconds=1)
    cluster.healthy = lambda pod: pod["spec"]["containers"][0]["image"] != "broken"
    cluster.then("one whose pods never serve", template=template("broken"))
    cluster.then("scaled in the middle", replicas=9)
    cluster.second += 700
    cluster.then("its deadline has passed")
    cluster.then("back", template=template("three"))
    cluster.then("all at once", strategy={"type": "Recreate", "rollingUpdate": None}, template=template("four"))
    cluster.then("none", replicas=0)
    cluster.root["metadata"]["deletionTimestamp"] = at(0)
    cluster.then("being deleted")
    assert transcript.text == transcript.expected("deployment")


def test_the_life_of_a_stateful_set(transcript: PlanTranscript):
    cluster = ToldCluster(transcript, STATEFUL_SET, replicas=2, volumeClaimTemplates=[DATA], revisionHistoryLimit=0)
    cluster.then("two pods")
    cluster.then("another template", template=template("two"))
    cluster.set_pod(0, phase="Failed")
    cluster.then("one has failed, and one more", replicas=3)
    cluster.then("up to a partition", template=template("three"), updateStrategy=rolling_to(2))
    cluster.then("side by side", podManagementPolicy="Parallel", updateStrategy=rolling_to(0))
    cluster.then("none", replicas=0)
    cluster.root["metadata"]["deletionTimestamp"] = at(0)
    cluster.then("being deleted")
    assert transcript.text == transcript.expected("statefulset")


def test_the_claims_of_a_stateful_set(transcript: PlanTranscript):
    kept = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    numbers = {"ordinals": {"start": 3}, "persistentVolumeClaimRetentionPolicy": kept}
    cluster = ToldCluster(transcript, STATEFUL_SET, replicas=2, volumeClaimTemplates=[DATA, LOGS], **numbers)
    cluster.then("two pods, and two claims for each")
    cluster.then("one is too many", replicas=1)
    cluster.then("and is wanted again", replicas=2)
    cluster.then("claims stay from now on", persistentVolumeClaimRetentionPolicy={"whenScaled": "Retain"})
    assert transcript.text == transcript.expected("claims")


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_pod_that_waits_for_the_claim_of_the_one_before_it(policy: str, transcript: PlanTranscript):
    kept = {"whenScaled": "Delete"}
    cluster = ToldCluster(
        transcript, STATEFUL_SET, replicas=2, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=kept,
        podManagementPolicy=policy,
    )  # fmt: skip
    cluster.settle()
    collect, uid = cluster.collect, cluster.of(POD)[1]["metadata"]["uid"]
    cluster.collect = lambda _uid: None  # type: ignore[method-assign]
    cluster.then("one too many", replicas=1)
    cluster.then("wanted again, and its claim is still there", replicas=2)
    collect(uid)
    cluster.then("the claim is gone")
    assert transcript.text == transcript.expected(f"stale_claim-{policy}")


def test_a_deployment_that_is_orphaned_rolled_back_and_labelled_anew(transcript: PlanTranscript):
    cluster = ToldCluster(transcript, replicas=2, revisionHistoryLimit=2, minReadySeconds=2)
    cluster.then("two pods")
    for kind in (REPLICA_SET, POD):
        for body in cluster.of(kind):
            del body["metadata"]["ownerReferences"]
    cluster.then("sets and pods without an owner")
    pod = cluster.of(POD)[0]
    pod["metadata"]["labels"] = {"app": "other"}
    cluster.then("a pod of other labels")
    cluster.then("another template", template=template("two"))
    cluster.then("and the first again", template=template("one"))
    cluster.then("more labels", template=template("one", tier="front"))
    cluster.then("a third, and a fourth, all at once", template=template("three"), strategy=rolling("100%", 0))
    cluster.then("", template=template("four"), strategy=rolling(0, "50%"))
    twin = {name: value for name, value in cluster.of(REPLICA_SET)[-1].items() if name != "status"}
    cluster.put(REPLICA_SET, {**twin, "metadata": {**twin["metadata"], "name": "web-twin", "uid": "uid-twin"}})
    cluster.then("another set of the same template")
    assert transcript.text == transcript.expected("hands")


def test_a_set_that_cannot_make_or_delete_its_pods(transcript: PlanTranscript):
    decide = transcript.of(CONTROLLER[REPLICA_SET.id].decide)
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(), "minReadySeconds": 10}
    metadata = {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 3, "resourceVersion": "9"}
    body: Object = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(-5)}
    pods = [
        {"phase": "Running", "conditions": [ready]},
        {"phase": "Running", "conditions": [{**ready, "lastTransitionTime": at(-10)}]},
        {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        {"phase": "Pending"},
        {"phase": "Failed"},
        {"phase": "Running", "conditions": [ready]},
    ]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
    children = []
    for number, status in enumerate(pods):
        own = {"name": f"web-{number}", "namespace": "default", "uid": f"u{number}", "resourceVersion": "1"}
        labels = {"app": "web"} if number else {"app": "web", "more": "x"}
        told = {"labels": labels, "creationTimestamp": at(-60), "ownerReferences": [owner]}
        gone = {"deletionTimestamp": at(-1)} if number == 5 else {}
        pod = {"metadata": {**own, **told, **gone}, "spec": {"nodeName": "one", "containers": []}, "status": status}
        children.append(CachedObject(Ref(POD, "default", f"web-{number}"), pod, 0))
    for replicas, failures in ((2, 0), (2, 1), (9, 1), (9, 0), (600, 0), (0, 2)):
        transcript.note(f"{replicas} wanted, after {failures} failures")
        wanted = {**body, "spec": {**spec, "replicas": replicas}}
        seen = Snapshot(
            Ref(REPLICA_SET, "default", "web"), wanted, children={POD.id: tuple(children)}, failures=failures,
            last_error="exceeded quota" if failures > 1 else None,
        )  # fmt: skip
        plan = decide(seen, NOW)
        (status,) = [step.status for step in plan.steps if isinstance(step, PatchStatus)]
        body = {**body, "status": status}
    assert transcript.text == transcript.expected("failing")


def test_a_stateful_set_in_every_way_of_updating(transcript: PlanTranscript):
    cluster = ToldCluster(transcript, STATEFUL_SET, replicas=3, lag=2, minReadySeconds=2, revisionHistoryLimit=1)
    cluster.then("three pods")
    cluster.then("only as clients delete them", template=template("two"), updateStrategy={"type": "OnDelete"})
    cluster.delete(Ref(POD, "default", "web-1"))
    cluster.then("one is deleted")
    cluster.healthy = lambda pod: pod["spec"]["containers"][0]["image"] != "broken"
    cluster.then("a broken one", template=template("broken"), updateStrategy=rolling_to(1))
    cluster.then("the one before", template=template("one"), updateStrategy=rolling_to(0))
    for body in (*cluster.of(POD), *cluster.of(CONTROLLER_REVISION)):
        del body["metadata"]["ownerReferences"]
    cluster.then("pods and revisions without an owner")
    cluster.set_pod(1, phase="Succeeded")
    cluster.then("one has ended, and numbers begin elsewhere", ordinals={"start": 1}, replicas=2)
    assert transcript.text == transcript.expected("updates")


def rolling_to(partition: int) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
