"""Jobs with more pods than their gang needs: the gang's are made first and free to go, the others are held back."""

from typing import Any

import pytest

from tests.unit.controllers.volcano.job.vcjob_cluster import VcJobCluster
from tests.unit.controllers.volcano.job.vcjobs import parsed, task, vcjob
from workers.api.kinds import POD_GROUP, Object, ref_of
from workers.api.references import GANG_GATE
from workers.controllers.volcano.job import podgroup

GATE = {"name": GANG_GATE}


def held(cluster: VcJobCluster) -> list[str]:
    """The pods that are held back, by the end of their names."""
    return [name[6:] for name, pod in sorted(cluster.pods.items()) if GATE in pod["spec"].get("schedulingGates", ())]


def settled(*tasks: Object, **spec: Any) -> VcJobCluster:
    cluster = VcJobCluster(vcjob(*tasks, **spec))
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("waiting", "tasks", "spec"),
    [
        pytest.param([], [task("w", 3)], {}, id="all are the gang"),
        pytest.param(["w-2", "w-3"], [task("w", 4, minAvailable=2)], {}, id="beyond the task's least"),
        pytest.param(["w-1", "w-2"], [task("w", 3)], {"minAvailable": 1}, id="beyond the job's least"),
        pytest.param(["b-1"], [task("a", 2), task("b", 2)], {"minAvailable": 3}, id="of the last task"),
        pytest.param(
            ["a-1", "b-1"], [task("a", 2, minAvailable=1), task("b", 2, minAvailable=1)], {}, id="of each task"
        ),
        pytest.param(
            ["b-2"],
            [task("a", 2, minAvailable=2), task("b", 3, minAvailable=1)],
            {"minAvailable": 4},
            id="the least of each, and one more",
        ),
        pytest.param(
            [], [task("w", 3, minAvailable=1, template={"spec": {"nodeName": "one"}})], {}, id="those that have a node"
        ),
    ],
)
def test_pods_beyond_the_gang_are_held_back(waiting: list[str], tasks: list[Object], spec: dict[str, Any]) -> None:
    cluster = settled(*tasks, **spec)
    assert len(cluster.pods) == sum(each["replicas"] for each in tasks)
    assert held(cluster) == waiting


def test_gates_of_a_templates_own_stay() -> None:
    own = {"name": "example.com/mine"}
    cluster = settled(task("w", 2, minAvailable=1, template={"spec": {"schedulingGates": [own]}}))
    assert [cluster.pods[f"train-w-{index}"]["spec"]["schedulingGates"] for index in (0, 1)] == [[own], [own, GATE]]


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
    cluster.delete("train-w-0")
    cluster.settle()
    assert held(cluster) == ["w-2", "w-3"]


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
    cluster.delete("train-b-1")
    cluster.settle()
    assert held(cluster) == ["b-0"]


@pytest.mark.parametrize(
    ("expected", "tasks", "spec"),
    [
        pytest.param({}, [task("a", 2)], {}, id="all"),
        pytest.param({"minTaskPods": {"a": 2, "b": 1}}, [task("a", 2), task("b", 2)], {"minAvailable": 3}, id="fewer"),
        pytest.param(
            {"minTaskPods": {"a": 1, "b": 2}},
            [task("a", 1), task("b", 3, minAvailable=1)],
            {"minAvailable": 3},
            id="more than their least",
        ),
        pytest.param(
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
            id="where they may go",
        ),
    ],
)
def test_the_group_tells_what_its_gang_is(expected: Object, tasks: list[Object], spec: dict[str, Any]) -> None:
    found = podgroup.wanted(parsed(*tasks, **spec), {})["spec"]
    assert {name: found[name] for name in ("minTaskPods", "minTaskPlacement") if name in found} == expected


def test_the_group_follows_when_the_gang_becomes_another() -> None:
    cluster = settled(task("a", 2), task("b", 2), minAvailable=4)
    assert cluster.group is not None
    assert "minTaskPods" not in cluster.group["spec"]
    cluster.edit(minAvailable=3)
    cluster.settle()
    assert cluster.group["spec"]["minTaskPods"] == {"a": 2, "b": 1}
    cluster.edit(minAvailable=4)
    cluster.settle()
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
