"""All that is decided on Jobs of Volcano, word for word."""

from collections.abc import Callable

import pytest

from tests.unit.controllers.factories import at
from tests.unit.controllers.transcripts import PlanTranscript
from tests.unit.controllers.volcano.job import vcjob_cluster
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, PRIORITY_CLASS, QUEUE, Object, Ref, ref_of
from workers.api.references import OUT_OF_SYNC
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
    transcript.note("one that has begun is edited to what no new one may be")
    begun = VcJobCluster(vcjob(task(replicas=2))).start()
    begun.edit(minAvailable=9).settle().edit(plugins={"nonsense": []}).settle()
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


ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
    "SyncJob",
    "EnqueueJob",
    "EatJob",
)


def _pending(cluster: VcJobCluster) -> None:
    cluster.admitting = False
    cluster.settle()


def _running(cluster: VcJobCluster) -> None:
    cluster.start()


def _aborted(cluster: VcJobCluster) -> None:
    cluster.start().command("AbortJob", "before").settle()


def _restarting(cluster: VcJobCluster) -> None:
    cluster.stubborn = True
    cluster.start().command("RestartJob", "before").settle()


def _completed(cluster: VcJobCluster) -> None:
    cluster.start().end().settle()


@pytest.mark.parametrize(
    "begin", [_pending, _running, _aborted, _restarting, _completed], ids=lambda each: each.__name__
)
def test_every_command_in_every_phase(
    begin: Callable[[VcJobCluster], None], transcript: PlanTranscript, monkeypatch: pytest.MonkeyPatch
) -> None:
    for action in ACTIONS:
        transcript.note(action)
        cluster = VcJobCluster(vcjob(task(replicas=2), policies=[{"event": "PodFailed", "action": "RestartJob"}]))
        monkeypatch.setattr(vcjob_cluster, "decide", decide)
        begin(cluster)
        monkeypatch.setattr(vcjob_cluster, "decide", transcript.of(decide))
        cluster.command(action, "now").settle().reap().settle()
        cluster.command(action, "theirs", uid="uid-of-another").settle()
    assert transcript.text == transcript.expected(f"commands{begin.__name__}")


PARTS = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
LATER = {"timeout": "30s"}


@pytest.mark.parametrize(
    "action", ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob"]
)
@pytest.mark.parametrize("timeout", [{}, LATER], ids=["at once", "later"])
def test_every_action_of_a_policy(action: str, timeout: dict[str, str], transcript: PlanTranscript) -> None:
    answer = {"action": action, **timeout}
    tasks = (
        task("lead", policies=[{"events": ["PodEvicted", "PodFailed"], **answer}]),
        {
            **task("worker", replicas=4, partitionPolicy=PARTS),
            "minAvailable": 2,
            "policies": [{"exitCode": 7, **answer}],
        },
        task("side", template={"spec": {"restartPolicy": "OnFailure"}}, maxRetry=2),
    )
    cluster = VcJobCluster(
        vcjob(*tasks, policies=[{"events": ["TaskFailed", "Unknown"], **answer}], minAvailable=1, maxRetry=9)
    ).start()
    names = [name for name in cluster.alive() if "worker" in name]
    transcript.note("a worker fails with the code, another one with another code")
    cluster.set(names[2], "Failed", 7).set(names[0], "Failed", 1).settle().run().settle().wait(30).run().settle()
    if cluster.phase == "Running":
        transcript.note("the lead is evicted")
        cluster.delete("train-lead-0").settle().wait(20).wait(10).run().settle()
    if cluster.phase == "Running":
        transcript.note("containers of the side restart too often")
        cluster.set("train-side-0", "Running", 1, restarts=2).settle().wait(30).run().settle()
    if cluster.phase == "Running":
        transcript.note("the gang is no longer whole")
        cluster.grouped("Unknown").settle().wait(30).settle()
    later = "-later" if timeout else ""
    assert transcript.text == transcript.expected(f"policy-{action}{later}")


def test_policies_that_never_act(transcript: PlanTranscript) -> None:
    policies = [
        {"event": "PodPending", "action": "AbortJob"},
        {"event": "JobUpdated", "action": "AbortJob"},
        {"event": "TaskFailed", "action": "AbortJob"},
        {"event": "PodFailed", "action": "RestartPartition"},
        {"event": "PodEvicted", "action": "ResumeJob"},
    ]
    own = [{"event": "PodFailed", "action": "RestartPartition"}]
    cluster = VcJobCluster(
        vcjob(
            task("lead", policies=own), task("worker", replicas=2), policies=policies, minAvailable=1, minSuccess=9,
            plugins={"svc": [], "pytorch": ["--master=nobody"]},
        )
    ).start()  # fmt: skip
    cluster.set("train-lead-0", "Failed", 1).settle()
    cluster.delete("train-worker-0").settle().run().settle()
    assert transcript.text == transcript.expected("ignored_policies")


def test_restarts_that_wait_and_come_to_their_end(transcript: PlanTranscript) -> None:
    backoff = {"seconds": 10, "factor": 3, "maxSeconds": 20}
    spec = {"policies": [{"event": "PodFailed", "action": "RestartJob"}], "restartBackoff": backoff, "maxRetry": 3}
    cluster = VcJobCluster(vcjob(task(replicas=2), **spec)).start()
    for round_ in range(4):
        transcript.note(f"failure {round_ + 1}")
        if "train-worker-1" in cluster.alive():
            cluster.set("train-worker-1", "Failed", 1).settle()
        cluster.wait(10).wait(10)
        cluster.run().settle()
    assert transcript.text == transcript.expected("backoff")


def test_limits_of_time(transcript: PlanTranscript) -> None:
    cluster = VcJobCluster(
        vcjob(task(replicas=2), activeDeadlineSeconds=60, ttlSecondsAfterFinished=30, minSuccess=1)
    ).start()
    cluster.wait(59).wait(1)
    cluster.wait(29).wait(1)
    transcript.note("suspended, and a deadline that begins anew")
    other = VcJobCluster(vcjob(task(replicas=2), activeDeadlineSeconds=60, suspend=True)).settle()
    other.wait(100).edit(suspend=False).start().command("ResumeJob", "needless").settle()
    other.edit(suspend=True).command("ResumeJob", "vain").settle().wait(60)
    assert transcript.text == transcript.expected("limits")


def test_what_a_gang_waits_for(transcript: PlanTranscript) -> None:
    cluster = VcJobCluster(vcjob(task(replicas=2)), admitting=False).settle()
    for number, (reason, message, type_) in enumerate((
        ("NotEnoughResources", "no room", "Unschedulable"),
        ("NotEnoughTasks", "0 of 2 pods", "Unschedulable"),
        ("", "", "Unschedulable"),
        ("tasks in gang are ready", "", "Scheduled"),
    )):  # fmt: skip
        transcript.note(f"{type_}: {reason}")
        older = {
            "type": "Unschedulable",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "older",
        }
        condition = {"type": type_, "status": "True", "lastTransitionTime": f"2026-02-0{number + 1}T00:00:00Z"}
        false = {**older, "status": "False", "lastTransitionTime": "2027-01-01T00:00:00Z", "reason": "false"}
        cluster.grouped(
            "Pending", conditions=[older, {**condition, "reason": reason, "message": message}, false]
        ).settle()
    transcript.note("it is never admitted")
    cluster.grouped(
        "Pending", conditions=[{"type": "Unschedulable", "status": "True", "reason": "GivenUp", "message": "no"}]
    )
    cluster.settle()
    assert transcript.text == transcript.expected("gang")


def test_more_and_other_priorities_and_clusters(transcript: PlanTranscript) -> None:
    def of(name: object) -> Object:
        return {"spec": {"priorityClassName": name}}

    tasks = (
        task("high", replicas=2, template=of("high"), minAvailable=1),
        task("low", replicas=2, template=of("low"), minAvailable=1),
        task("odd", template=of("")),
    )
    cluster = VcJobCluster(vcjob(*tasks, minAvailable=2, priorityClassName="high", queue="fast"))
    for name, value in (("high", 9), ("low", 1)):
        cluster.put(Ref(PRIORITY_CLASS, "", name), {"metadata": {"name": name}, "value": value})
    queue = {"metadata": {"name": "fast"}, "spec": {"extendClusters": [{"name": "far"}]}}
    cluster.put(Ref(QUEUE, "", "fast"), {**queue, "status": {"state": "Open"}})
    cluster.start()
    transcript.note("pods of another hand, and some that are out of sync")
    pods = cluster.pods
    pod = pods["train-low-0"]
    cluster.put(ref_of(POD, pod), {**pod, "metadata": {**pod["metadata"], "annotations": {
        **pod["metadata"]["annotations"], OUT_OF_SYNC: "true"}}})  # fmt: skip
    odd = pods["train-odd-0"]
    cluster.put(Ref(POD, "default", "odd"), {**odd, "metadata": {**odd["metadata"], "name": "odd"}})
    cluster.settle().run().settle()
    transcript.note("fewer of the one, more of the other")
    cluster.edit(tasks=[{**tasks[0], "replicas": 1}, {**tasks[1], "replicas": 3}, tasks[2]]).settle().run().settle()
    assert transcript.text == transcript.expected("priorities")


def test_how_containers_end(transcript: PlanTranscript) -> None:
    cluster = VcJobCluster(
        vcjob(task(replicas=4, template={"spec": {"restartPolicy": "OnFailure"}}), minAvailable=1)
    ).start()
    names = cluster.alive()
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-03-01T12:00:05Z"}}
    bad = {
        "terminated": {"exitCode": 9, "reason": "OOMKilled", "message": "m" * 300, "finishedAt": "2026-03-01T12:00:03Z"}
    }
    transcript.note("an init container, a container that is not the first, the kubelet, none")
    cluster.set(names[0], "Failed", 0, initContainerStatuses=[{"name": "first", "state": bad}], containerStatuses=[])
    cluster.set(
        names[1], "Failed", 0, containerStatuses=[{"name": "a", "state": ended}, {"name": "b", "lastState": bad}]
    )
    cluster.set(names[2], "Failed", 0, reason="Evicted", message="the node was low on memory", containerStatuses=[])
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": at(9)}
    cluster.set(names[3], "Failed", 0, conditions=[ready], containerStatuses=[])
    cluster.settle()
    assert transcript.text == transcript.expected("failures")


def test_a_step_that_fails_again_and_again(transcript: PlanTranscript) -> None:
    cluster = VcJobCluster(vcjob(task(replicas=2), plugins={"svc": []}))
    cluster.refused = {"train-worker-0": "no quota", "train": "no services", "train-svc": "no config maps"}
    for _ in range(4):
        cluster.sync()
        cluster.admit()
    cluster.refused = {}
    cluster.wait(5).run().settle()
    assert transcript.text == transcript.expected("retrying")
