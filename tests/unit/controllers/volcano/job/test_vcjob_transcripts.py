"""All that is decided on Jobs of Volcano, word for word."""

import pytest

from tests.unit.controllers.transcripts import Transcript
from tests.unit.controllers.volcano.job import vcjob_cluster
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.controllers.volcano.job import decide


@pytest.fixture
def transcript(monkeypatch: pytest.MonkeyPatch) -> Transcript:
    told = Transcript()
    monkeypatch.setattr(vcjob_cluster, "decide", told.of(decide))
    return told


def test_the_life_of_a_job(transcript: Transcript) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "TaskCompleted", "action": "CompleteJob"}]
    cluster = VcJobCluster(
        vcjob(
            task("lead"), task("worker", replicas=2, dependsOn={"name": ["lead"]}),
            plugins={"svc": [], "env": [], "ssh": []}, policies=policies, ttlSecondsAfterFinished=60, maxRetry=5,
        ),
        admitting=False, stubborn=True,
    )  # fmt: skip
    transcript.note("a gang of three waits")
    cluster.settle()
    transcript.note("it is admitted, and its pods run")
    cluster.grouped("Inqueue").settle().run().settle().run().settle()
    transcript.note("one fails: all are deleted, and made anew")
    cluster.second += 10
    cluster.set("train-worker-0", "Failed", 3).settle()
    cluster.second += 1
    cluster.reap().settle().run().settle().run().settle()
    transcript.note("the Job is aborted, and resumed")
    cluster.command("AbortJob", "abort").settle().reap().settle()
    cluster.command("ResumeJob", "resume").settle()
    cluster.grouped("Inqueue").settle().run().settle().run().settle()
    transcript.note("it becomes larger")
    cluster.edit(
        tasks=[task("lead"), task("worker", replicas=3, dependsOn={"name": ["lead"]})], minAvailable=2
    ).settle()
    transcript.note("one task completes: the Job does")
    cluster.set("train-lead-0", "Succeeded").settle().reap().settle()
    transcript.note("a minute later it is deleted")
    cluster.wait(60)
    transcript.check("job")


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("restart_task", {"policies": [{"event": "PodEvicted", "action": "RestartTask"}]}),
        ("restart_pod", {"policies": [{"event": "PodFailed", "action": "RestartPod"}]}),
        ("terminate", {"policies": [{"exitCode": 3, "action": "TerminateJob"}]}),
        ("timed", {"policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": "30s"}]}),
        ("none", {}),
    ],
)
def test_the_ends_of_pods(transcript: Transcript, name: str, spec: dict[str, object]) -> None:
    cluster = VcJobCluster(vcjob(task(replicas=2), minAvailable=1, **spec)).start()
    transcript.note("a pod fails")
    cluster.set("train-worker-0", "Failed", 3).settle().run().settle()
    transcript.note("a pod is deleted by a user")
    cluster.delete(cluster.alive()[-1]).settle().run().settle().wait(30).run().settle()
    transcript.note("the rest succeeds")
    cluster.end().settle()
    transcript.check(name)
