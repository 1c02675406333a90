"""All that is decided on Jobs of Volcano, word for word."""

import pytest

from tests.unit.controllers.transcripts import PlanTranscript
from tests.unit.controllers.volcano.job import vcjob_cluster
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, PRIORITY_CLASS, QUEUE, Ref
from workers.controllers.volcano.job import decide


@pytest.fixture
def transcript(transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch) -> PlanTranscript:
    monkeypatch.setattr(vcjob_cluster, "decide", transcript.of(decide))
    return transcript


def test_the_life_of_a_job(transcript: PlanTranscript) -> None:
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
    assert transcript.text == transcript.expected("job")


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
def test_the_ends_of_pods(transcript: PlanTranscript, name: str, spec: dict[str, object]) -> None:
    cluster = VcJobCluster(vcjob(task(replicas=2), minAvailable=1, **spec)).start()
    transcript.note("a pod fails")
    cluster.set("train-worker-0", "Failed", 3).settle().run().settle()
    transcript.note("a pod is deleted by a user")
    cluster.delete(cluster.alive()[-1]).settle().run().settle().wait(30).run().settle()
    transcript.note("the rest succeeds")
    cluster.end().settle()
    assert transcript.text == transcript.expected(name)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("pytorch", {"pytorch": ["--master=lead", "--worker=worker", "--port=23456"]}),
        ("waiting", {"pytorch": ["--master=lead", "--worker=worker", "--wait-master-enabled=true"]}),
        ("mpi", {"mpi": ["--master=lead", "--worker=worker", "--port=22"], "ssh": [], "svc": []}),
        ("tensorflow", {"tensorflow": ["--ps=lead", "--worker=worker", "--port=2222"]}),
        ("ray", {"ray": ["--head=lead", "--worker=worker", "--headContainer=main", "--workerContainer=main"]}),
        ("svc", {"svc": ["--publish-not-ready-addresses=true", "--disable-network-policy=true"], "env": [], "ssh": []}),
    ],
)
def test_what_plugins_give_to_pods(transcript: PlanTranscript, name: str, spec: dict[str, list[str]]) -> None:
    template = {"spec": {"initContainers": [{"name": "first", "image": "init"}]}}
    cluster = VcJobCluster(vcjob(task("lead"), task("worker", replicas=2, template=template), plugins=spec)).start()
    transcript.note("it ends")
    cluster.end().settle()
    assert transcript.text == transcript.expected(f"plugins-{name}")


def test_what_keeps_a_job_from_running(transcript: PlanTranscript) -> None:
    transcript.note("its queue is missing")
    cluster = VcJobCluster(vcjob(task()), queue=False).settle()
    transcript.note("its queue is closed")
    cluster.put(Ref(QUEUE, "", "default"), {"metadata": {"name": "default"}, "status": {"state": "Closed"}}).settle()
    transcript.note("its spec is wrong")
    wrong = VcJobCluster(vcjob(task(), minAvailable=5)).settle()
    assert wrong.job
    del wrong.job["spec"]["minAvailable"]
    wrong.edit(tasks=[task(), task()]).settle()
    transcript.note("its claim is missing, and comes")
    volume = {"mountPath": "/data", "volumeClaimName": "data"}
    claiming = VcJobCluster(vcjob(task(), volumes=[volume, {"mountPath": "/own", "volumeClaim": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])).settle()  # fmt: skip
    claiming.put(
        Ref(PERSISTENT_VOLUME_CLAIM, "default", "data"), {"metadata": {"name": "data", "namespace": "default"}}
    )
    claiming.wait(60)
    transcript.note("a pod is refused")
    refused = VcJobCluster(vcjob(task(replicas=2)))
    refused.refused = {"train-worker-1": "exceeded quota"}
    refused.sync()
    refused.admit()
    refused.sync()
    refused.refused = {}
    refused.wait(2)
    assert transcript.text == transcript.expected("obstacles")


def test_a_priority_class_gives_its_number(transcript: PlanTranscript) -> None:
    cluster = VcJobCluster(vcjob(task(), priorityClassName="urgent"))
    cluster.put(Ref(PRIORITY_CLASS, "", "urgent"), {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.start().end().settle()
    assert transcript.text == transcript.expected("priority")


def test_actions_that_wait(transcript: PlanTranscript) -> None:
    policies = [
        {"event": "PodPending", "action": "AbortJob", "timeout": "60s"},
        {"event": "PodEvicted", "action": "RestartTask", "timeout": "20s"},
        {"event": "PodFailed", "action": "RestartJob", "timeout": "30s"},
    ]
    cluster = VcJobCluster(vcjob(task("lead"), task("worker", replicas=2), policies=policies, minAvailable=1)).settle()
    transcript.note("one stays pending, one fails, one is evicted")
    cluster.run("train-lead-0", "train-worker-0").settle()
    cluster.set("train-worker-0", "Failed", 1).settle()
    cluster.delete("train-lead-0").settle()
    transcript.note("the lead is back in time")
    cluster.run("train-lead-0").settle()
    transcript.note("half a minute later")
    cluster.wait(20).wait(10)
    transcript.note("a minute later")
    cluster.run("train-lead-0").settle().wait(60)
    assert transcript.text == transcript.expected("timers")
