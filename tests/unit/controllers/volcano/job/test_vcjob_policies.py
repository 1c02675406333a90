"""Lifecycle policies: what has happened to pods, which policy answers it, now or after its timeout, and only once."""

from datetime import timedelta

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import parsed, task, vcjob
from workers.api import times
from workers.api.kinds import POD, Object, ref_of
from workers.api.volcano.job import Delayed, RestartBackoff
from workers.controllers.volcano.job import policies, timers, transitions
from workers.controllers.volcano.job.policies import JobEvent

PAIR = ("train-ps-0", "train-worker-0", "train-worker-1")


def on(event: str, action: str, timeout: str | None = None) -> Object:
    return {"event": event, "action": action, **({"timeout": timeout} if timeout else {})}


def code(number: int, action: str) -> Object:
    return {"exitCode": number, "action": action}


def begun(job: list[Object] | None = None, worker: list[Object] | None = None, **spec) -> VcJobCluster:
    """A job of one ps and two workers that run. job, worker: policies of the job and of the workers' task."""
    spec["policies"] = job or []
    cluster = VcJobCluster(vcjob(task("ps"), task("worker", 2, policies=worker or []), **spec)).start()
    assert cluster.phase == "Running"
    return cluster


def uids(cluster: VcJobCluster) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in cluster.pods.items()}


def marked(cluster: VcJobCluster, name: str) -> VcJobCluster:
    """Marks a pod as one that a controller deletes."""
    pod = cluster.pods[name]
    annotations = {**pod["metadata"]["annotations"], "volcano.sh/controller-out-of-sync": "true"}
    return cluster.put(ref_of(POD, pod), {**pod, "metadata": {**pod["metadata"], "annotations": annotations}})


def renewed(cluster: VcJobCluster, before: dict[str, str]) -> set[str]:
    """The pods that were made again."""
    return {name for name, uid in uids(cluster).items() if before.get(name) != uid}


# Which policy answers

JOB = [code(3, "RestartJob"), on("PodFailed", "AbortJob"), on("TaskCompleted", "CompleteJob")]


@cases(
    ("by event", JOB, [], "PodFailed", 1, "AbortJob"),
    ("by exit code, which stands first", JOB, [], "PodFailed", 3, "RestartJob"),
    ("by event, which stands first", JOB[::-1], [], "PodFailed", 3, "AbortJob"),
    ("the task's come first", JOB, [on("PodFailed", "RestartTask")], "PodFailed", 3, "RestartTask"),
    ("the task's has no answer", JOB, [on("PodEvicted", "RestartTask")], "PodFailed", 1, "AbortJob"),
    ("any event", [on("*", "RestartJob")], [], "PodEvicted", 0, "RestartJob"),
    ("any event, but being pending is none", [on("*", "RestartJob")], [], "PodPending", 0, None),
    ("being pending for long is", [on("*", "RestartJob", "1m")], [], "PodPending", 0, "RestartJob"),
    ("pending needs a timeout", [on("PodPending", "RestartJob")], [], "PodPending", 0, None),
    ("exit code 0 answers nothing", [code(0, "RestartJob")], [], "PodEvicted", 0, None),
    ("nothing answers", JOB, [], "TaskFailed", 0, None),
    (
        "one of several events",
        [{"events": ["PodFailed", "PodEvicted"], "event": "TaskFailed", "action": "AbortJob"}],
        [],
        "PodEvicted",
        0,
        "AbortJob",
    ),
)
def test_the_first_policy_that_matches_answers(job, worker, event, exit_code, action):
    spec = parsed(task("worker", policies=worker), policies=job).spec
    event = JobEvent(event, NOW, "", task="worker", exit_code=exit_code)
    policy = policies.chosen(spec, event)
    assert (policy.action if policy else None) == action


# What happens

RESTARTED = ["Restarting", "Pending"]
ENDS = {"AbortJob": ["Aborting", "Aborted"], "TerminateJob": ["Terminating", "Terminated"]}


@for_each(
    ("RestartJob", RESTARTED, set(PAIR)),
    ("RestartTask", RESTARTED, {"train-worker-0", "train-worker-1"}),
    ("RestartPod", RESTARTED, {"train-worker-1"}),
    ("AbortJob", ENDS["AbortJob"], set()),
    ("TerminateJob", ENDS["TerminateJob"], set()),
    ("CompleteJob", ["Completing", "Completed"], set()),
    ("ResumeJob", [], set()),
)
def test_a_failed_pod_is_answered_by_every_action(action, phases, made_again):
    cluster = begun([on("PodFailed", action)])
    before = uids(cluster)
    cluster.set("train-worker-1", "Failed", 9).settle()
    assert cluster.phases[2:] == phases
    assert renewed(cluster, before) == made_again
    assert cluster.status.get("retryCount", 0) == (1 if phases == RESTARTED else 0)
    if phases and phases != RESTARTED:
        assert cluster.alive() == ["train-worker-1"], "what ended stays, for its logs"


def test_the_cause_is_in_the_state_the_failures_and_an_event():
    cluster = begun([on("PodFailed", "AbortJob")])
    cluster.set("train-worker-1", "Failed", 9).settle()
    why = "pod train-worker-1: container main exited with 9"
    assert cluster.state["reason"] == "PodFailed"
    assert cluster.state["message"] == f"{why}; the policy for PodFailed is AbortJob"
    assert [(one["pod"], one["container"], one["exitCode"]) for one in cluster.status["failures"]] == [
        ("train-worker-1", "main", 9)
    ]
    assert cluster.events == [("ExecuteAction", "Start to execute action AbortJob"), ("PodFailed", why)]


@for_each("AbortJob", "TerminateJob")
def test_the_failures_of_containers_restarted_in_place_are_reported(action):
    cluster = begun([on("TaskFailed", action)])
    cluster.second = 20
    cluster.set("train-worker-1", "Running", 5, restarts=3).settle()
    assert cluster.alive() == [], "no pod is left that could tell"
    why = "pod train-worker-1: container main exited with 5"
    assert cluster.state["message"] == (
        f"containers of task worker restarted 3 times, maxRetry is 3; {why}; the policy for TaskFailed is {action}"
    )
    assert [(one["pod"], one["exitCode"]) for one in cluster.status["failures"]] == [("train-worker-1", 5)]
    assert cluster.events.count(("PodFailed", why)) == 1


def test_a_job_that_fails_without_policies_says_which_pod_and_why():
    cluster = begun()
    cluster.end()
    cluster.set("train-worker-1", "Failed", 9).settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Failed", "TaskFailed")
    assert cluster.state["message"] == (
        "of task worker 1 pods succeeded, 2 had to; pod train-worker-1: container main exited with 9"
    )


@cases(
    ("its partition", "RestartPartition", {"train-worker-2", "train-worker-3"}),
    ("its task, whatever the partition", "RestartTask", {f"train-worker-{index}" for index in range(4)}),
)
def test_no_more_is_restarted_than_is_asked_for(action, expected):
    parts = {"totalPartitions": 2, "partitionSize": 2}
    worker = task("worker", 4, partitionPolicy=parts, policies=[on("PodFailed", action)])
    cluster = VcJobCluster(vcjob(worker)).start()
    before = uids(cluster)
    cluster.set("train-worker-2", "Failed", 1).settle()
    assert renewed(cluster, before) == expected


def test_a_partition_that_does_not_exist_cannot_be_restarted():
    cluster = begun([on("PodFailed", "RestartPartition")])
    cluster.set("train-worker-1", "Failed", 1).settle()
    assert (cluster.phases, cluster.status.get("retryCount")) == (["Pending", "Running"], None)


def test_the_exit_code_of_any_container_counts():
    cluster = begun([code(7, "AbortJob")])
    cluster.set("train-worker-1", "Failed")
    pod = cluster.pods["train-worker-1"]
    ended = [{"name": name, "state": {"terminated": {"exitCode": number}}} for name, number in (("a", 0), ("b", 7))]
    cluster.put(ref_of(POD, pod), {**pod, "status": {"phase": "Failed", "containerStatuses": ended}}).settle()
    assert cluster.phase == "Aborted"
    assert "container b exited with 7" in cluster.state["message"]


def test_the_exit_code_of_an_init_container_counts_when_all_others_are_zero():
    cluster = begun([code(5, "AbortJob")])
    pod = cluster.pods["train-worker-1"]
    ended = [{"name": "init", "state": {"terminated": {"exitCode": 5}}}]
    cluster.put(ref_of(POD, pod), {**pod, "status": {"phase": "Failed", "initContainerStatuses": ended}}).settle()
    assert cluster.phase == "Aborted"


@cases(("seen while it goes", True), ("gone at once", False))
@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartJob"])
def test_a_pod_that_a_user_deleted_is_evicted_once(stubborn, action):
    cluster = begun([on("PodEvicted", action)])
    cluster.stubborn = stubborn
    cluster.delete("train-worker-1").settle()
    assert (cluster.status["retryCount"], cluster.state.get("reason", "PodEvicted")) == (1, "PodEvicted")
    cluster.reap().settle()
    cluster.reap().start()
    assert (cluster.phase, cluster.status["retryCount"], tuple(cluster.alive())) == ("Running", 1, PAIR)


def test_pods_that_the_job_itself_deletes_are_not_evicted():
    cluster = begun([on("PodEvicted", "TerminateJob")], minAvailable=1)
    cluster.stubborn = True
    cluster.command("RestartJob").settle()
    cluster.reap().start()
    cluster.edit(tasks=[task("ps"), task("worker", 1)]).settle()
    cluster.reap().settle()
    assert (cluster.phase, cluster.alive()) == ("Running", ["train-ps-0", "train-worker-0"])


def test_pods_of_a_gang_that_backed_out_are_not_evicted():
    cluster = begun([on("PodEvicted", "AbortJob")])
    cluster.admitting = False
    cluster.grouped("Pending", backOff={"count": 1})
    for name in PAIR:
        cluster.delete(name)
    cluster.settle()
    assert (cluster.phase, cluster.alive()) == ("Running", [])
    cluster.grouped("Inqueue").start()
    assert (cluster.phase, tuple(cluster.alive())) == ("Running", PAIR)


def test_a_pod_that_was_marked_before_it_was_deleted_is_not_evicted():
    cluster = begun([on("PodEvicted", "AbortJob")])
    cluster.stubborn = True
    marked(cluster, "train-worker-1").settle()
    assert cluster.alive() == ["train-ps-0", "train-worker-0"], "whoever marked it may not have come to deleting it"
    cluster.reap().settle()
    assert tuple(cluster.alive()) == PAIR


@cases(
    ("it failed", on("PodFailed", "AbortJob"), {"phase": "Failed", "code": 1}),
    ("the task is completed with it", on("TaskCompleted", "AbortJob"), {"phase": "Succeeded"}),
    ("its containers restarted", on("TaskFailed", "AbortJob"), {"phase": "Running", "code": 1, "restarts": 3}),
)
def test_a_pod_marked_for_deletion_triggers_no_policy(policy, end):
    cluster = begun(worker=[policy])
    cluster.stubborn = True
    cluster.set("train-worker-0", "Succeeded" if end["phase"] == "Succeeded" else "Running")
    cluster.set("train-worker-1", **end)
    marked(cluster, "train-worker-1").settle()
    assert (cluster.phase, cluster.status.get("delayed"), cluster.status.get("failures")) == ("Running", None, None)
    cluster.reap().start()
    assert (cluster.phase, tuple(cluster.alive())) == ("Running", PAIR)


def test_a_completed_task_completes_the_job():
    cluster = begun(worker=[on("TaskCompleted", "CompleteJob")])
    cluster.set("train-worker-0", "Succeeded").settle()
    assert cluster.phase == "Running"
    cluster.set("train-worker-1", "Succeeded").settle()
    assert cluster.phases[2:] == ["Completing", "Completed"]
    assert cluster.alive() == ["train-worker-0", "train-worker-1"]
    assert cluster.state["reason"] == "TaskCompleted"


def test_a_task_that_completed_before_the_job_was_aborted_is_not_completed_again():
    cluster = begun(worker=[on("TaskCompleted", "AbortJob")])
    for name in ("train-worker-0", "train-worker-1"):
        cluster.set(name, "Succeeded")
    cluster.settle()
    assert cluster.phase == "Aborted"
    cluster.command("ResumeJob").start()
    assert (cluster.phase, cluster.status["succeeded"]) == ("Running", 2)


def test_containers_that_restart_too_often_fail_their_task():
    cluster = begun([on("TaskFailed", "AbortJob")])
    cluster.set("train-worker-0", "Running", restarts=1)
    cluster.set("train-worker-1", "Running", restarts=1).settle()
    assert cluster.phase == "Running"
    cluster.set("train-worker-1", "Running", restarts=2).settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Aborted", "TaskFailed")


def test_an_unknown_group_is_answered_once_each_time_it_becomes_so():
    cluster = begun([on("Unknown", "RestartTask")])
    cluster.grouped("Unknown").settle()
    cluster.settle()
    assert cluster.status["retryCount"] == 1
    cluster.grouped("Running").settle()
    cluster.grouped("Unknown").settle()
    assert cluster.status["retryCount"] == 2


def test_several_failures_at_once_are_one_restart():
    cluster = begun([on("PodFailed", "RestartPod")])
    before = uids(cluster)
    for name in ("train-worker-0", "train-worker-1"):
        cluster.set(name, "Failed", 1)
    cluster.settle()
    assert cluster.status["retryCount"] == 1
    assert renewed(cluster, before) == {"train-worker-0", "train-worker-1"}


@for_each("RestartTask", "RestartJob")
def test_an_event_is_not_acted_on_again_by_the_next_process(action):
    """The first died as soon as it had written what it was going to do."""
    cluster = begun([on("PodFailed", action)])
    for name in ("train-worker-0", "train-worker-1"):
        cluster.set(name, "Failed", 1)
    cluster.budget = 1
    cluster.sync()
    assert (cluster.phase, len(cluster.alive())) == ("Restarting", 3)
    cluster.settle()
    assert (cluster.status["retryCount"], cluster.status.get("version", 0)) == (1, int(action == "RestartJob"))
    assert [reason for reason, _ in cluster.events].count("ExecuteAction") == 1


def test_several_failures_at_once_are_one_event_of_their_task():
    cluster = begun([on("PodFailed", "RestartTask")])
    for name in ("train-worker-0", "train-worker-1"):
        cluster.set(name, "Failed", 1)
    cluster.settle()
    assert [message for reason, message in cluster.events if reason == "ExecuteAction"] == [
        "Start to execute action RestartTask"
    ]


def test_several_failures_at_the_last_retry_are_one_kill():
    cluster = begun([on("PodFailed", "RestartJob")], maxRetry=1)
    for name in ("train-worker-0", "train-worker-1"):
        cluster.set(name, "Failed", 1)
    cluster.sync()
    assert (cluster.phase, cluster.status["version"], len(cluster.alive())) == ("Restarting", 1, 2)


@pytest.mark.parametrize("budget", range(5))
def test_pods_that_the_job_has_no_more_use_for_are_not_evicted_even_if_it_changes_its_mind(budget):
    """The process died while it deleted them; they are wanted again by then."""
    cluster = begun([on("PodEvicted", "AbortJob")], minAvailable=1)
    cluster.edit(tasks=[task("ps"), task("worker", 1)])
    cluster.budget = budget
    cluster.sync()
    cluster.edit(tasks=[task("ps"), task("worker", 2)]).settle()
    assert (cluster.phase, tuple(cluster.alive())) == ("Running", PAIR)


def test_a_policy_comes_before_the_rule_that_would_fail_the_job():
    """Even if the last pod failed while no process was there to hear of it."""
    cluster = begun([on("PodFailed", "RestartJob")])
    for name in PAIR:
        cluster.set(name, "Failed", 1)
    cluster.settle()
    assert (cluster.phases[2:], cluster.status["retryCount"]) == (RESTARTED, 1)


def test_failures_of_an_older_version_are_over():
    cluster = begun([on("PodFailed", "AbortJob")])
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.command("ResumeJob").start()
    assert (cluster.phase, cluster.status["failed"]) == ("Running", 1)


# Restarts


def test_a_job_is_restarted_as_often_as_it_may_and_the_last_pods_stay():
    cluster = begun([on("PodFailed", "RestartJob")], maxRetry=2)
    cluster.set("train-worker-1", "Failed", 1).settle()
    assert cluster.phases[-2:] == RESTARTED
    cluster.run().settle()
    cluster.set("train-worker-1", "Failed", 2).settle()
    assert cluster.phases[-2:] == ["Restarting", "Failed"]
    assert cluster.state["reason"] == "MaxRetryReached"
    assert "2 restarts, maxRetry is 2" in cluster.state["message"]
    assert "exited with 2" in cluster.state["message"]
    assert (cluster.alive(), cluster.status["failed"]) == (["train-worker-1"], 1)


@for_each("RestartTask", "RestartPod")
def test_after_one_restart_of_a_part_too_many_the_pod_that_failed_stays(action):
    """With its logs, as after a restart of the whole job; that it stays is no new failure."""
    cluster = begun([on("PodFailed", action)], maxRetry=1)
    cluster.set("train-worker-0", "Failed", 2).settle()
    assert (cluster.phases[-2:], cluster.alive()) == (["Restarting", "Failed"], ["train-worker-0"])
    assert [reason for reason, _ in cluster.events].count("ExecuteAction") == 1


def test_a_restart_waits_for_its_backoff():
    cluster = begun([on("PodFailed", "RestartJob")], restartBackoff={"seconds": 10, "factor": 3}, maxRetry=5)
    for wait in (10, 30):
        start = cluster.second
        cluster.set("train-worker-1", "Failed", 1).settle()
        assert (cluster.phase, cluster.back, cluster.alive()) == ("Restarting", start + wait, [])
        cluster.wait(wait - 1)
        assert cluster.phase == "Restarting"
        cluster.wait(1)
        cluster.run().settle()
        assert (cluster.phase, cluster.status.get("restartTime")) == ("Running", None)


def test_a_single_pod_waits_for_the_backoff_as_well():
    cluster = begun([on("PodFailed", "RestartPod")], restartBackoff={"seconds": 10})
    cluster.set("train-worker-1", "Failed", 1).settle()
    assert cluster.alive() == ["train-ps-0", "train-worker-0"]
    cluster.wait(10)
    assert tuple(cluster.alive()) == PAIR


@cases(
    ("fewer pods", {"tasks": [task("ps"), task("worker", 1)], "minAvailable": 2}, (2, {"ps": 1, "worker": 1})),
    ("a smaller gang", {"minAvailable": 1}, (1, {"ps": 1, "worker": 2})),
    ("more pods", {"tasks": [task("ps"), task("worker", 4)], "minAvailable": 5}, (3, {"ps": 1, "worker": 2})),
)
def test_a_gang_that_gets_smaller_while_its_job_waits_for_a_restart_gives_room_back(edited, expected):
    cluster = begun([on("PodFailed", "RestartTask")], restartBackoff={"seconds": 3600})
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.edit(**edited).settle()
    assert cluster.phase == "Restarting"
    spec = cluster.group["spec"]
    assert (spec["minMember"], spec["minTaskMember"], spec["minResources"]["pods"]) == (*expected, str(expected[0]))


def test_a_gang_keeps_the_tasks_that_wait_for_pods_that_a_restart_deletes():
    tasks, policy = (task("ps"), task("worker", 2, dependsOn={"name": ["ps"]})), on("PodFailed", "RestartTask")
    cluster = VcJobCluster(vcjob(*tasks, policies=[policy], restartBackoff={"seconds": 3600})).start()
    cluster.run().settle()
    cluster.set("train-ps-0", "Failed", 1).settle()
    cluster.edit(minAvailable=2).settle()
    spec = cluster.group["spec"]
    assert (cluster.phase, spec["minMember"], spec["minTaskPods"]) == ("Restarting", 2, {"ps": 1, "worker": 1})


def test_a_pod_that_fails_while_another_waits_for_its_restart_is_no_further_restart():
    cluster = begun([on("PodFailed", "RestartPod")], restartBackoff={"seconds": 10})
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.set("train-worker-0", "Failed", 1).settle()
    assert (cluster.phase, cluster.status["retryCount"], cluster.back) == ("Restarting", 1, 10)
    cluster.wait(10)
    assert tuple(cluster.alive()) == PAIR


def test_a_restart_whose_time_has_come_waits_for_its_pods_without_looking_all_the_time():
    cluster = begun([on("PodFailed", "RestartJob")], restartBackoff={"seconds": 10})
    cluster.stubborn = True
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.wait(20)
    assert (cluster.phase, cluster.back, cluster.status["terminating"]) == ("Restarting", None, 3)
    cluster.reap().settle()
    assert tuple(cluster.alive()) == PAIR


def test_a_restart_by_command_does_not_wait():
    cluster = begun(restartBackoff={"seconds": 10})
    cluster.command("RestartJob").settle()
    assert (cluster.phase, tuple(cluster.alive())) == ("Pending", PAIR)


@for_each(("AbortJob", ENDS["AbortJob"]), ("TerminateJob", ENDS["TerminateJob"]), ("RestartJob", ["Pending"]))
def test_a_restart_that_waits_can_be_stopped_or_hurried(action, phases):
    cluster = begun([on("PodFailed", "RestartJob")], restartBackoff={"seconds": 3600}, maxRetry=9)
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.command(action).settle()
    assert cluster.phases[3:] == phases


@for_each(
    ("AbortJob", "Aborted", ["train-worker-1"]),
    ("TerminateJob", "Terminated", ["train-worker-1"]),
    ("CompleteJob", "Completed", ["train-worker-1"]),
    ("RestartJob", "Restarting", []),
    ("RestartTask", "Restarting", ["train-ps-0"]),
    ("ResumeJob", "Restarting", ["train-ps-0", "train-worker-1"]),
)
def test_while_a_restart_waits_policies_end_the_job_or_widen_the_restart(action, phase, left):
    policies = [code(3, action), on("PodEvicted", action, "60s"), on("PodFailed", "RestartPod")]
    for timed in (False, True):
        cluster = begun(policies, restartBackoff={"seconds": 600}, maxRetry=9)
        cluster.set("train-worker-0", "Failed", 1).settle()
        if timed:
            cluster.delete("train-worker-1").settle().wait(60)
        else:
            cluster.set("train-worker-1", "Failed", 3).settle()
        gone = {"train-worker-1"} if timed else set()
        assert (cluster.phase, cluster.alive()) == (phase, [name for name in left if name not in gone])
        assert cluster.status["retryCount"] == 1, "a restart that waits is one restart"


def test_a_restart_that_waits_can_be_suspended_and_runs_out_of_time():
    cluster = begun([on("PodFailed", "RestartJob")], restartBackoff={"seconds": 3600}, activeDeadlineSeconds=60)
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.edit(suspend=True).settle()
    assert (cluster.phase, cluster.state["reason"]) == ("Aborted", "Suspended")
    cluster.edit(suspend=False).start()
    cluster.set("train-worker-1", "Failed", 1).settle()
    assert (cluster.phase, cluster.back) == ("Restarting", 60)
    cluster.wait(60)
    assert (cluster.phase, cluster.state["reason"]) == ("Terminated", "DeadlineExceeded")


def test_a_job_whose_time_runs_out_while_pods_of_a_restart_linger_is_terminated():
    cluster = begun([on("PodFailed", "RestartJob")], restartBackoff={"seconds": 10}, activeDeadlineSeconds=20)
    cluster.stubborn = True
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.wait(15)
    assert (cluster.phase, cluster.back) == ("Restarting", 20)
    cluster.wait(5)
    assert (cluster.phase, cluster.state["reason"], cluster.back) == ("Terminating", "DeadlineExceeded", None)
    cluster.reap().settle()
    assert (cluster.phase, cluster.kinds()) == ("Terminated", set())


@cases(
    ("none", None, [None, None, None]),
    ("of nothing", {"seconds": 0}, [None, None, None]),
    ("doubles", {"seconds": 5}, [5, 10, 20]),
    ("stays the same", {"seconds": 5, "factor": 1}, [5, 5, 5]),
    ("up to a limit", {"seconds": 5, "maxSeconds": 8}, [5, 8, 8]),
    ("beyond the limit from the start", {"seconds": 50, "maxSeconds": 8}, [8, 8, 8]),
)
def test_how_long_restarts_wait(backoff, waits):
    given = RestartBackoff.model_validate(backoff) if backoff else None
    found = [transitions.restart_at(given, number, NOW) for number in (1, 2, 3)]
    assert found == [NOW + timedelta(seconds=wait) if wait else None for wait in waits]


# Timeouts


def test_an_action_waits_for_its_timeout_and_survives_every_process():
    cluster = begun([on("PodFailed", "RestartJob", "5m")])
    cluster.second = 10
    cluster.set("train-worker-1", "Failed", 1).settle()
    assert (cluster.phase, cluster.back) == ("Running", 310)
    assert cluster.events[0] == ("ExecuteAction", "Execute action RestartJob after 5m")
    cluster.wait(299)
    assert cluster.phase == "Running"
    cluster.wait(1)
    assert (cluster.phases[-2:], cluster.status["retryCount"]) == (RESTARTED, 1)
    assert "delayed" not in cluster.status


@cases(
    ("a restart", "RestartTask", ["Pending", "Running", "Restarting", "Pending"], 1),
    ("anything else", "TerminateJob", ["Pending", "Running", "Failed"], None),
)
def test_a_job_whose_pods_have_all_ended_waits_for_a_restart_that_is_to_come(action, phases, retries):
    cluster = VcJobCluster(vcjob(task("worker", 2), policies=[on("PodFailed", action, "5m")])).start()
    cluster.set("train-worker-0", "Succeeded").set("train-worker-1", "Failed", 1).settle()
    assert cluster.phases == (phases[:2] if retries else phases)
    cluster.wait(300)
    assert (cluster.phases, cluster.status.get("retryCount")) == (phases, retries)


def test_a_pod_that_stays_pending_is_answered_and_one_that_starts_is_not():
    cluster = VcJobCluster(vcjob(task("worker", 2), policies=[on("PodPending", "RestartJob", "1m")])).settle()
    assert [one["pod"] for one in cluster.status["delayed"]] == ["train-worker-0"]
    cluster.run("train-worker-0").settle()
    assert [one["pod"] for one in cluster.status["delayed"]] == ["train-worker-1"]
    cluster.wait(60)
    assert (cluster.phases[-2:], cluster.status["retryCount"]) == (RESTARTED, 1)
    cluster.run().settle()
    cluster.wait(100)
    assert (cluster.phase, cluster.status["retryCount"], cluster.status.get("delayed")) == ("Running", 1, None)


def test_a_pod_in_the_place_of_a_pending_one_has_its_own_time():
    cluster = VcJobCluster(vcjob(task("worker"), policies=[on("PodPending", "RestartJob", "1m")])).settle()
    cluster.wait(30)
    (ref,) = (ref for ref in cluster.objects if ref.kind == POD)
    # Both happen between two decisions: none of them sees the Job without its pod.
    pod = cluster.objects[ref]
    replaced = {"uid": "another", "creationTimestamp": times.render(cluster.now)}
    cluster.objects[ref] = {**pod, "metadata": {**pod["metadata"], **replaced}}
    cluster.settle()
    cluster.wait(59)
    assert cluster.status.get("retryCount", 0) == 0
    cluster.wait(1)
    assert cluster.status["retryCount"] == 1


def _delayed(event: str, number: int) -> Delayed:
    due = times.render(NOW + timedelta(seconds=number))
    return Delayed(action="RestartPod", event=event, due=due, task="worker", pod=f"train-worker-{number}", level="pod")


@cases(
    ("what follows from pods: one tells that there are such", "PodPending", 1),
    ("the first that are due", "PodFailed", timers.REMEMBERED),
    ("of pods that are gone, too", "PodEvicted", timers.REMEMBERED),
)
def test_timers_of_many_pods_fit_into_a_status(event, stored):
    known = tuple(_delayed(event, number) for number in range(10_000))
    other = Delayed(action="AbortJob", event="PodPending", due=known[5000].due, task="ps", pod="train-ps-0")
    found = timers.stored((*known[::-1], other))
    assert [one for one in found if one.event == event and one.task == "worker"] == list(known[:stored])
    assert other in found
    assert timers.stored(found) == found
    assert sum(len(one.model_dump_json()) for one in found) < 200_000


@for_each(
    ("RestartJob", ("task", "pod", "other pod", "partition")),
    ("RestartTask", ("job", "pod", "other pod", "partition")),
    ("RestartPod", ("job", "task", "other pod", "partition")),
    ("RestartPartition", ("job", "task", "pod", "other pod")),
)
def test_an_action_ends_the_timers_of_its_level_and_target(action, left):
    due = times.render(NOW)

    def timer(level, **target):
        return Delayed(action="AbortJob", event="PodFailed", due=due, level=level, **target)

    known = {
        "job": timer("job"),
        "task": timer("task", task="ps"),
        "pod": timer("pod", pod="ps-0"),
        "other pod": timer("pod", pod="ps-1"),
        "partition": timer("partition", task="ps", partition=1),
    }
    found = timers.without(tuple(known.values()), action, "ps", "ps-0", 1)
    assert found == tuple(known[name] for name in left)


def test_many_pods_that_stay_pending_are_restarted_together_each_in_its_time():
    cluster = VcJobCluster(vcjob(task("worker", 300), policies=[on("PodPending", "RestartPod", "1m")])).settle()
    assert [one["pod"] for one in cluster.status["delayed"]] == ["train-worker-0"]
    assert cluster.events.count(("ExecuteAction", "Execute action RestartPod after 1m")) == 1
    cluster.run(*(f"train-worker-{index}" for index in range(250)))
    cluster.wait(30)
    cluster.delete("train-worker-299").settle()
    before = uids(cluster)
    cluster.second += 30
    cluster.sync()
    (told,) = cluster.status["killing"]
    assert told == {"retain": "none", "task": "worker", "indexes": "250-298"}
    cluster.settle()
    assert renewed(cluster, before) == {f"train-worker-{index}" for index in range(250, 299)}
    assert cluster.status["retryCount"] == 1
    cluster.wait(30)
    assert cluster.status["retryCount"] == 2
    assert "train-worker-299" in renewed(cluster, before)


def test_each_pending_pod_has_a_time_of_its_own():
    cluster = VcJobCluster(vcjob(task("worker", 1), policies=[on("PodPending", "AbortJob", "1m")])).settle()
    cluster.wait(50)
    cluster.delete("train-worker-0").settle()
    cluster.wait(59)
    assert cluster.phase == "Pending"
    cluster.wait(1)
    assert cluster.phase == "Aborted"


def test_a_pod_that_runs_again_in_time_ends_the_timer_of_its_eviction():
    cluster = begun([on("PodEvicted", "AbortJob", "1m")])
    cluster.delete("train-worker-1").settle()
    assert len(cluster.status["delayed"]) == 1
    assert tuple(cluster.alive()) == PAIR
    cluster.wait(30)
    cluster.run().settle()
    assert "delayed" not in cluster.status
    cluster.wait(60)
    assert cluster.phase == "Running"


def test_a_pod_that_does_not_come_back_in_time_does_not():
    cluster = begun([on("PodEvicted", "AbortJob", "1m")])
    cluster.delete("train-worker-1").settle()
    cluster.wait(60)
    assert (cluster.phase, cluster.state["reason"]) == ("Aborted", "PodEvicted")


def test_recovery_in_grades():
    """The pod at once, and the whole job when that has not helped in time."""
    cluster = begun([on("PodFailed", "RestartPod"), on("PodPending", "RestartJob", "1m")])
    cluster.second = 100
    cluster.set("train-worker-1", "Failed", 1).settle()
    before = uids(cluster)
    cluster.wait(59)
    assert uids(cluster) == before
    cluster.wait(1)
    assert renewed(cluster, before) == set(PAIR)
    assert cluster.status["retryCount"] == 2


def test_a_restart_of_the_whole_job_ends_every_timer():
    cluster = begun([on("PodFailed", "RestartTask", "5m")])
    cluster.set("train-worker-1", "Failed", 1).settle()
    cluster.command("RestartJob").start()
    cluster.wait(1000)
    assert (cluster.phase, cluster.status["retryCount"], cluster.status.get("delayed")) == ("Running", 1, None)


def test_a_task_that_completed_at_its_last_but_one_restart_is_restarted_once_more():
    """It is about to wait for its backoff, and what is waited for is not answered meanwhile."""
    cluster = begun([on("TaskCompleted", "RestartTask")], restartBackoff={"seconds": 7, "factor": 1})
    for _ in range(2):
        cluster.end().settle()
        assert (cluster.phase, cluster.alive()) == ("Restarting", [])
        cluster.wait(7)
        cluster.run().settle()
    cluster.end().settle()
    assert (cluster.phase, cluster.state["reason"], cluster.alive()) == ("Failed", "MaxRetryReached", list(PAIR))
