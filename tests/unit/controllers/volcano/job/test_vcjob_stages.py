"""A job whose tasks wait for each other, when what is waited for fails: it ends as it would without waiting."""

import pytest

from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import task, vcjob

TOLD = "task b can never start: a failed"


def after(*names: str, iteration: str = "all", name: str = "b", replicas: int = 1, **more):
    return task(name, replicas, dependsOn={"name": [*names], "iteration": iteration}, **more)


def failing(*tasks, code: int = 1, **spec) -> VcJobCluster:
    """A job whose task a has failed before it served, and whose other pods run."""
    cluster = VcJobCluster(vcjob(*tasks, **spec))
    cluster.settle()
    cluster.set("train-a-0", "Failed", code)
    cluster.run()
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("tasks", "spec", "state"),
    [
        pytest.param((task("a"), after("a")), {}, ("Failed", "TaskFailed"), id="the whole gang must succeed"),
        pytest.param(
            (task("a"), after("a")), {"minAvailable": 1}, ("Failed", "TooFewSucceeded"), id="one must, none does"
        ),
        pytest.param(
            (task("a"), after("a"), after("b", name="c", replicas=3)), {}, ("Failed", "TaskFailed"), id="a chain"
        ),
        pytest.param((task("a"), after("a", iteration="any")), {}, ("Failed", "TaskFailed"), id="any of one"),
        pytest.param(
            (task("a"), after("a")),
            {"policies": [{"event": "PodFailed", "action": "ResumeJob"}]},
            ("Failed", "TaskFailed"),
            id="a policy that does nothing",
        ),
        pytest.param(
            (task("a"), after("a")),
            {"policies": [{"event": "PodFailed", "action": "RestartTask"}], "maxRetry": 1},
            ("Failed", "MaxRetryReached"),
            id="a policy whose retries are used up",
        ),
    ],
)
def test_a_job_ends_when_what_it_waits_for_has_failed(tasks, spec, state):
    cluster = failing(*tasks, **spec)
    assert (cluster.phase, cluster.state["reason"]) == state
    assert "pod train-a-0: container main exited with 1" in cluster.state["message"]
    assert cluster.kinds() == {"Pod"}, "its PodGroup is gone"
    assert cluster.alive() == ["train-a-0"]
    assert "failed" not in cluster.status or cluster.status["failed"] == 1, "what never was is not counted"


def test_which_task_never_started_is_told_in_an_event_and_in_the_state():
    cluster = failing(task("a"), after("a"))
    assert cluster.events.count(("DependencyFailed", TOLD)) == 1
    assert cluster.state["message"].endswith(TOLD)


def test_a_job_goes_on_as_long_as_something_of_it_runs_and_says_what_never_starts():
    cluster = failing(task("a"), after("a"), task("free"))
    assert (cluster.phase, cluster.state["reason"], cluster.state["message"]) == ("Running", "DependencyFailed", TOLD)
    cluster.settle()
    assert cluster.events.count(("DependencyFailed", TOLD)) == 1
    cluster.end()
    cluster.settle()
    assert cluster.phase == "Failed"


def test_enough_may_succeed_without_what_never_starts():
    cluster = failing(task("a"), after("a"), task("free"), minAvailable=1)
    cluster.end()
    cluster.settle()
    assert cluster.phase == "Completed"


def test_any_of_several_goes_on_with_the_others():
    cluster = failing(task("a"), task("free"), after("a", "free", iteration="any"))
    assert "train-b-0" in cluster.alive()


@pytest.mark.parametrize("timeout", [None, "30s"])
def test_a_dependency_that_a_policy_brings_back_is_waited_for(timeout):
    policy = {"event": "PodFailed", "action": "RestartTask", **({"timeout": timeout} if timeout else {})}
    cluster = failing(task("a"), after("a"), policies=[policy])
    assert cluster.phase not in ("Failed", "Completed")
    cluster.wait(31)
    cluster.run()
    cluster.settle()
    assert cluster.alive() == ["train-a-0", "train-b-0"]
    cluster.run()
    cluster.settle()
    cluster.end()
    cluster.settle()
    assert (cluster.phase, cluster.status["retryCount"]) == ("Completed", 1)
    assert "DependencyFailed" not in dict(cluster.events)


def test_a_failed_dependency_that_somebody_deletes_is_made_again_and_waited_for():
    cluster = failing(task("a"), after("a"), task("free"))
    cluster.delete("train-a-0")
    cluster.settle()
    assert "train-a-0" in cluster.alive()
    cluster.run()
    cluster.settle()
    assert "train-b-0" in cluster.alive()


def test_a_second_stage_whose_missing_pod_cannot_come_back_is_over():
    cluster = VcJobCluster(vcjob(task("a"), after("a", replicas=2)))
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.run()
    cluster.set("train-a-0", "Failed", 1)
    cluster.delete("train-b-1")
    cluster.settle()
    assert (cluster.phase, cluster.alive()) == ("Running", ["train-a-0", "train-b-0"])
    cluster.end()
    cluster.settle()
    assert cluster.phase == "Failed"
