"""What a job's spec says in vain is told by name."""

import pytest

from tests.unit.controllers.volcano.job.test_vcjob_policies import begun, code, on
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import parsed, task, vcjob
from workers.controllers.volcano.job import policies

PARTS = {"totalPartitions": 1, "partitionSize": 1}
AGAIN = {"spec": {"restartPolicy": "OnFailure"}}


@pytest.mark.parametrize(
    ("policy", "more", "told"),
    [
        pytest.param(on("PodFailed", "RestartPartition"), {}, "RestartPartition does nothing", id="no partitions"),
        pytest.param(code(3, "RestartPartition"), {}, "RestartPartition does nothing", id="no partitions, for a code"),
        pytest.param(on("PodFailed", "RestartPartition"), {"partitionPolicy": PARTS}, None, id="partitions"),
        pytest.param(on("PodPending", "RestartJob"), {}, "PodPending is answered only after", id="pending at once"),
        pytest.param(
            on("PodPending", "RestartJob", "0s"), {}, "PodPending is answered only after", id="no time at all"
        ),
        pytest.param(on("PodPending", "RestartJob", "5s"), {}, None, id="pending for long"),
        pytest.param(on("*", "RestartJob"), {}, None, id="everything else is answered"),
        pytest.param(on("JobUpdated", "RestartJob"), {}, "JobUpdated never happens", id="never happens"),
        pytest.param(on("TaskFailed", "AbortJob"), {}, "restartPolicy is Never", id="nothing is started again"),
        pytest.param(on("TaskFailed", "AbortJob"), {"template": AGAIN}, None, id="containers are started again"),
        pytest.param(on("PodFailed", "RestartJob"), {}, None, id="as it should be"),
    ],
)
@pytest.mark.parametrize("level", ["job", "task"])
def test_policies_that_are_never_carried_out(policy, more, told, level):
    of_job = {"policies": [policy]} if level == "job" else {}
    of_task = {"policies": [policy]} if level == "task" else {}
    found = [record.message for record in policies.warnings(parsed(task("worker", **more, **of_task), **of_job).spec)]
    where = "policies[0]: " if level == "job" else "tasks[worker].policies[0]: "
    assert [text.startswith(where) and told in text for text in found] == ([True] if told else [])


@pytest.mark.parametrize(("least", "told"), [(None, []), (2, []), (3, ["MinSuccessTooHigh"])])
def test_more_successes_than_pods(least, told):
    assert [record.reason for record in policies.warnings(parsed(task(replicas=2), minSuccess=least).spec)] == told


def test_it_is_told_once_when_the_job_begins():
    cluster = VcJobCluster(vcjob(task(policies=[on("PodFailed", "RestartPartition")]), minSuccess=9))
    for _ in range(3):
        cluster.settle()
        cluster.run()
    assert [reason for reason, _ in cluster.events] == ["PolicyIgnored", "MinSuccessTooHigh"]


@pytest.mark.parametrize("action", ["RestartPartition", "ResumeJob"])
def test_an_answer_that_does_nothing_is_told_when_it_is_asked_for(action):
    cluster = begun([on("PodFailed", action)])
    cluster.set("train-worker-1", "Failed", 9).settle()
    failed = "pod train-worker-1: container main exited with 9"
    why = f"{failed}; the policy for PodFailed is {action}, which does nothing here"
    assert (cluster.phase, cluster.state["reason"], cluster.state["message"]) == ("Running", "PolicyIgnored", why)
    cluster.settle()
    assert cluster.events.count(("PolicyIgnored", why)) == 1


@pytest.mark.parametrize("action", ["", "SyncJob", "EnqueueJob"])
def test_an_answer_that_is_meant_to_do_nothing_is_not(action):
    cluster = begun([code(9, action), on("PodEvicted", "AbortJob")])
    cluster.set("train-worker-1", "Failed", 9).settle()
    assert (cluster.phase, "reason" in cluster.state) == ("Running", False)


def test_another_policy_is_carried_out_beside_one_that_does_nothing():
    cluster = begun([on("PodFailed", "RestartPartition"), on("TaskCompleted", "CompleteJob")])
    cluster.set("train-worker-1", "Failed", 9)
    cluster.set("train-ps-0", "Succeeded").settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Completed", "TaskCompleted")
