"""A job whose tasks wait for each other, when what is waited for fails: it ends as it would without waiting."""

from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import parsed, task, vcjob
from workers.api.kinds import POD_GROUP, Object, ref_of
from workers.api.references import GANG_GATE
from workers.controllers.volcano.job import podgroup

TOLD = "task b can never start: a failed"


def after(*names: str, iteration: str = "all", name: str = "b", replicas: int = 1, **more):
    return task(name, replicas, dependsOn={"name": [*names], "iteration": iteration}, **more)


def failing(*tasks, code: int = 1, **spec) -> VcJobCluster:
    """A job whose task a has failed before it served, and whose other pods run."""
    cluster = VcJobCluster(vcjob(*tasks, **spec)).settle()
    cluster.set("train-a-0", "Failed", code)
    cluster.run().settle()
    return cluster


@cases(
    ("the whole gang must succeed", (task("a"), after("a")), {}, ("Failed", "TaskFailed")),
    ("one must, none does", (task("a"), after("a")), {"minAvailable": 1}, ("Failed", "TooFewSucceeded")),
    ("a chain", (task("a"), after("a"), after("b", name="c", replicas=3)), {}, ("Failed", "TaskFailed")),
    ("any of one", (task("a"), after("a", iteration="any")), {}, ("Failed", "TaskFailed")),
    (
        "a policy that does nothing",
        (task("a"), after("a")),
        {"policies": [{"event": "PodFailed", "action": "ResumeJob"}]},
        ("Failed", "TaskFailed"),
    ),
    (
        "a policy whose retries are used up",
        (task("a"), after("a")),
        {"policies": [{"event": "PodFailed", "action": "RestartTask"}], "maxRetry": 1},
        ("Failed", "MaxRetryReached"),
    ),
)
def test_a_job_ends_when_what_it_waits_for_has_failed(tasks, spec, state):
    cluster = failing(*tasks, **spec)
    assert (cluster.phase, cluster.state["reason"]) == state
    assert "pod train-a-0: container main exited with 1" in cluster.state["message"]
    assert cluster.kinds() == {"Pod"}, "its PodGroup is gone"
    assert cluster.alive() == ["train-a-0"]
    assert "failed" not in cluster.status or cluster.status["failed"] == 1, "what never was is not counted"


def test_a_task_that_never_starts_is_named_in_an_event_and_in_the_state():
    cluster = failing(task("a"), after("a"))
    assert cluster.events.count(("DependencyFailed", TOLD)) == 1
    assert cluster.state["message"].endswith(TOLD)


def test_a_text_that_is_longer_than_a_status_may_be_is_an_event_once():
    waiting = [after("a", name=f"b{number}-{'x' * 50}") for number in range(20)]
    cluster = failing(task("a"), *waiting, task("free", 2))
    assert (len(cluster.state["message"]), cluster.state["reason"]) == (1024, "DependencyFailed")
    cluster.delete("train-free-0").settle()
    assert [reason for reason, _ in cluster.events].count("DependencyFailed") == 1


def test_a_job_goes_on_as_long_as_something_of_it_runs_and_says_what_never_starts():
    cluster = failing(task("a"), after("a"), task("free"))
    assert (cluster.phase, cluster.state["reason"], cluster.state["message"]) == ("Running", "DependencyFailed", TOLD)
    cluster.settle()
    assert cluster.events.count(("DependencyFailed", TOLD)) == 1
    cluster.end().settle()
    assert cluster.phase == "Failed"


def test_enough_may_succeed_without_what_never_starts():
    cluster = failing(task("a"), after("a"), task("free"), minAvailable=1)
    cluster.end().settle()
    assert cluster.phase == "Completed"


def test_any_of_several_goes_on_with_the_others():
    cluster = failing(task("a"), task("free"), after("a", "free", iteration="any"))
    assert "train-b-0" in cluster.alive()


@for_each(None, "30s")
def test_a_dependency_that_a_policy_brings_back_is_waited_for(timeout):
    policy = {"event": "PodFailed", "action": "RestartTask", **({"timeout": timeout} if timeout else {})}
    cluster = failing(task("a"), after("a"), policies=[policy])
    assert cluster.phase not in ("Failed", "Completed")
    cluster.wait(31)
    cluster.run().settle()
    assert cluster.alive() == ["train-a-0", "train-b-0"]
    cluster.run().settle()
    cluster.end().settle()
    assert (cluster.phase, cluster.status["retryCount"]) == ("Completed", 1)
    assert "DependencyFailed" not in dict(cluster.events)


def test_a_deleted_failed_dependency_is_created_again_and_waited_for():
    cluster = failing(task("a"), after("a"), task("free"))
    cluster.delete("train-a-0").settle()
    assert "train-a-0" in cluster.alive()
    cluster.run().settle()
    assert "train-b-0" in cluster.alive()


@cases(
    ("all of it", {"minAvailable": 3}, 2),
    ("less of it", {"minAvailable": 1}, 1),
    ("a pod more than the least of each", {"least": 1, "minAvailable": 3}, 2),
)
def test_a_second_stage_whose_missing_pod_cannot_come_back_is_over(spec: dict[str, Any], least: int) -> None:
    """Nor does the gang count that pod any more: it would never be whole, with room kept for it."""
    lower = {"minAvailable": spec.pop("least")} if "least" in spec else {}
    cluster = VcJobCluster(vcjob(task("a"), after("a", replicas=2, **lower), **spec)).start()
    cluster.run()
    cluster.set("train-a-0", "Failed", 1)
    cluster.delete("train-b-1").settle()
    assert (cluster.phase, cluster.alive()) == ("Running", ["train-a-0", "train-b-0"])
    assert cluster.group is not None
    gang = cluster.group["spec"]
    assert (gang["minMember"], gang["minResources"]["pods"]) == (least, str(least))
    cluster.end().settle()
    assert cluster.phase == ("Completed" if spec["minAvailable"] == 1 else "Failed")


def test_a_pod_that_can_come_back_after_all_is_of_the_gang_again_once_it_may_start() -> None:
    cluster = VcJobCluster(vcjob(task("a"), after("a", replicas=2))).start()
    cluster.run().set("train-a-0", "Failed", 1)
    cluster.delete("train-b-1").settle()
    cluster.delete("train-a-0").settle()
    # The gang has not grown, so nothing has to be admitted before what the other waits for.
    assert (cluster.alive(), held(cluster)) == (["train-a-0", "train-b-0"], [])
    cluster.run("train-a-0").settle()
    assert (cluster.alive(), held(cluster)) == (["train-a-0", "train-b-0", "train-b-1"], ["b-1"])
    assert cluster.group is not None
    assert cluster.group["spec"]["minMember"] == 3


GATE = {"name": GANG_GATE}


def held(cluster: VcJobCluster) -> list[str]:
    """The pods that are held back, by the end of their names."""
    return [name[6:] for name, pod in sorted(cluster.pods.items()) if GATE in pod["spec"].get("schedulingGates", ())]


def settled(*tasks: Object, **spec: Any) -> VcJobCluster:
    return VcJobCluster(vcjob(*tasks, **spec)).settle()


@cases(
    ("all are the gang", [], [task("w", 3)], {}),
    ("beyond the task's least", ["w-2", "w-3"], [task("w", 4, minAvailable=2)], {}),
    ("beyond the job's least", ["w-1", "w-2"], [task("w", 3)], {"minAvailable": 1}),
    ("of the last task", ["b-1"], [task("a", 2), task("b", 2)], {"minAvailable": 3}),
    ("of each task", ["a-1", "b-1"], [task("a", 2, minAvailable=1), task("b", 2, minAvailable=1)], {}),
    (
        "the least of each, and one more",
        ["b-2"],
        [task("a", 2, minAvailable=2), task("b", 3, minAvailable=1)],
        {"minAvailable": 4},
    ),
    ("those that have a node", [], [task("w", 3, minAvailable=1, template={"spec": {"nodeName": "one"}})], {}),
)
def test_pods_beyond_the_gang_are_held_back(waiting: list[str], tasks: list[Object], spec: dict[str, Any]) -> None:
    cluster = settled(*tasks, **spec)
    assert len(cluster.pods) == sum(each["replicas"] for each in tasks)
    assert held(cluster) == waiting


def test_gates_of_a_templates_own_stay() -> None:
    own = {"name": "example.com/mine"}
    cluster = settled(task("w", 2, minAvailable=1, template={"spec": {"schedulingGates": [own]}}))
    assert [cluster.pods[f"train-w-{index}"]["spec"]["schedulingGates"] for index in (0, 1)] == [[own], [own, GATE]]


def test_a_template_that_names_the_gate_itself_names_it_once() -> None:
    cluster = settled(task("w", 2, minAvailable=1, template={"spec": {"schedulingGates": [GATE, {"name": "a/b"}]}}))
    assert cluster.pods["train-w-1"]["spec"]["schedulingGates"] == [{"name": "a/b"}, GATE]


def test_the_gang_is_made_first() -> None:
    cluster = VcJobCluster(vcjob(task("many", 700, minAvailable=1), task("last", 2)))
    cluster.sync()
    cluster.admit()
    cluster.sync()
    assert len(cluster.pods) == 500
    assert {"train-many-0", "train-last-0", "train-last-1"} <= set(cluster.pods)


def test_a_pod_of_the_gang_that_is_lost_is_made_again_free_and_others_stay_held_back() -> None:
    cluster = settled(task("w", 4, minAvailable=2))
    cluster.run("train-w-0", "train-w-1")
    cluster.delete("train-w-0").settle()
    assert held(cluster) == ["w-2", "w-3"]


def test_a_pod_that_restarts_after_its_gang_completed_waits_for_a_new_admission() -> None:
    """The room of a completed gang belongs to others by now."""
    restarts = {"event": "PodFailed", "action": "RestartPod"}
    spec = {"restartBackoff": {"seconds": 60}, "policies": [restarts]}
    cluster = VcJobCluster(vcjob(task("w", 2), **spec), admitting=False).settle()
    cluster.grouped("Inqueue").settle().run().settle()
    cluster.set("train-w-0", "Succeeded").set("train-w-1", "Failed", 1).grouped("Completed").settle()
    assert cluster.alive() == ["train-w-0"]
    cluster.wait(60)
    assert (cluster.alive(), held(cluster)) == (["train-w-0", "train-w-1"], ["w-1"])


def test_a_gang_that_grows_is_let_through_for_that_first() -> None:
    later = task("b", 2, dependsOn={"name": ["a"]})
    cluster = settled(task("a", 1), later)
    assert held(cluster) == []
    cluster.run()
    # The plan that asks for more makes the pods, too; the PodGroup's controller lets them go with the others.
    cluster.sync()
    assert held(cluster) == ["b-0", "b-1"]
    assert cluster.group is not None
    assert cluster.group["spec"]["minMember"] == 3
    cluster.delete("train-b-1").settle()
    assert held(cluster) == ["b-0", "b-1"]
    cluster.grouped("Pending").settle()
    assert cluster.status.get("admittedMembers") is None
    cluster.delete("train-b-1").settle()
    assert held(cluster) == ["b-0"], "the larger gang is admitted"


@cases(
    ("all but the first", ["c-1", "c-2"], 1),
    ("all but the last, which is beyond the gang then", ["c-0", "c-1"], 0),
    ("one in between", ["c-1"], 1),
    ("none", [], 3),
)
def test_a_stage_that_waits_for_its_admission_needs_no_pods_that_another_stage_holds_back(
    lost: list[str], left: int
) -> None:
    """The pod of the stage before is held back until the gang is whole, and its missing pods until that one serves."""
    tasks = (task("a"), after("a", replicas=2), after("b", name="c", replicas=3))
    cluster = VcJobCluster(vcjob(*tasks)).start().run().settle()
    assert held(cluster) == ["c-0", "c-1", "c-2"]
    for name in ("b-0", *lost):
        cluster.delete(f"train-{name}")
    cluster.settle()
    assert held(cluster) == ["b-0", *(name for name in ("c-0", "c-1", "c-2") if name not in lost)]
    assert cluster.group is not None
    assert cluster.group["spec"]["minMember"] == 3 + left


@for_each(*range(1, 7))
def test_no_pod_of_a_larger_gang_starts_before_its_admission(budget: int) -> None:
    """The plan that asks for more may be cut short at any step, and the old gang be whole or not."""
    for group in ({"phase": "Running"}, {"phase": "Inqueue", "admittedFor": {"minMember": 2}}):
        cluster = VcJobCluster(vcjob(task("w", 2))).start().grouped(**group)
        cluster.edit(tasks=[task("w", 4)], minAvailable=4)
        cluster.budget = budget
        cluster.sync()
        cluster.settle()
        assert held(cluster) == ["w-2", "w-3"]


def test_no_pod_of_a_much_larger_gang_starts_before_its_admission() -> None:
    cluster = VcJobCluster(vcjob(task("w", 2))).start().grouped("Running")
    cluster.edit(tasks=[task("w", 1002)], minAvailable=1002).settle()
    assert (len(cluster.pods), len(held(cluster))) == (1002, 1000)


def test_a_gang_that_was_of_nobody_is_admitted_before_its_pods_start() -> None:
    cluster = VcJobCluster(vcjob(task("w", 2, minAvailable=0), metadata={"generation": 2}, minAvailable=0)).settle()
    cluster.edit(tasks=[task("w", 4)], minAvailable=4)
    cluster.budget = 2
    cluster.sync()
    assert cluster.status["admittedMembers"] == 0
    assert held(cluster.settle()) == ["w-0", "w-1", "w-2", "w-3"]


def test_a_gang_that_becomes_larger_among_pods_that_run_needs_no_admission() -> None:
    cluster = settled(task("w", 4, minAvailable=2)).run().settle()
    cluster.edit(minAvailable=4, tasks=[task("w", 4)]).settle()
    cluster.delete("train-w-0").settle()
    assert ("train-w-0" in cluster.pods, "w-0" in held(cluster)) == (True, False)


@cases(
    ("of its gang", ["train-b-0", "train-b-1"], ["train-a-0"], "Failed"),
    ("beyond it", ["train-b-2"], ["train-a-0", "train-b-0", "train-b-1", "train-b-3"], "Pending"),
)
def test_held_back_pods_of_a_gang_that_can_never_be_whole_go(lost: list[str], left: list[str], phase: str) -> None:
    """The gang of the second stage finds no nodes, backs out, and what it depended on has failed meanwhile."""
    cluster = settled(task("a"), after("a", replicas=4, minAvailable=2), minAvailable=3)
    cluster.run("train-a-0").settle().grouped("Pending").settle()
    assert cluster.status.get("admittedMembers") is None, "the larger gang is admitted"
    cluster.set("train-a-0", "Failed", 1)
    for name in lost:
        cluster.delete(name)
    cluster.settle()
    assert (cluster.phase, cluster.alive()) == (phase, left)


@cases(
    ("all", {}, [task("a", 2)], {}),
    ("fewer", {"minTaskPods": {"a": 2, "b": 1}}, [task("a", 2), task("b", 2)], {"minAvailable": 3}),
    (
        "more than their least",
        {"minTaskPods": {"a": 1, "b": 2}},
        [task("a", 1), task("b", 3, minAvailable=1)],
        {"minAvailable": 3},
    ),
    (
        "where they may go",
        {"minTaskPlacement": {"b": {"nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}]}}},
        [
            task("a", 1),
            task(
                "b",
                1,
                template={
                    "spec": {
                        "nodeSelector": {"zone": "a"},
                        "tolerations": [{"operator": "Exists"}],
                        "affinity": {"podAffinity": {}},
                    }
                },
            ),
        ],
        {},
    ),
)
def test_the_group_describes_its_gang(expected: Object, tasks: list[Object], spec: dict[str, Any]) -> None:
    found = podgroup.wanted(parsed(*tasks, **spec), {})["spec"]
    assert {name: found[name] for name in ("minTaskPods", "minTaskPlacement") if name in found} == expected


def test_the_group_follows_when_the_gang_becomes_another() -> None:
    cluster = settled(task("a", 2), task("b", 2), minAvailable=4)
    assert cluster.group is not None
    assert "minTaskPods" not in cluster.group["spec"]
    cluster.edit(minAvailable=3).settle()
    assert cluster.group["spec"]["minTaskPods"] == {"a": 2, "b": 1}
    cluster.edit(minAvailable=4).settle()
    assert "minTaskPods" not in cluster.group["spec"]


def test_definitions_that_do_not_keep_it_are_not_asked_with_every_sync() -> None:
    cluster = settled(task("a", 2), task("b", 2), minAvailable=3)
    group = cluster.group
    assert group is not None
    kept = {name: value for name, value in group["spec"].items() if name not in ("minTaskPods", "minTaskResources")}
    cluster.put(ref_of(POD_GROUP, group), {**group, "spec": kept})
    cluster.writes.clear()
    cluster.settle()
    assert cluster.writes == []
