"""All that is decided on Deployments, ReplicaSets and StatefulSets in their lives, word for word."""

from typing import Any

from tests.unit.controllers.apps.apps_cluster import AppsCluster, template
from tests.unit.controllers.factories import at
from tests.unit.controllers.transcripts import PlanTranscript
from workers.api.kinds import DEPLOYMENT, POD, STATEFUL_SET, Kind, Object

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


def rolling_to(partition: int) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
