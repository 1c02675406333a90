"""When a task of a Volcano Job may start."""

import pytest

from tests.unit.controllers.vcjobs import parsed, task, vcpod
from workers.controllers.volcano.vcjob import dependencies

#: A task of two pods, one of which is enough, and one of a single pod.
PS, DB = task("ps", 2, minAvailable=1), task("db")


def job(names, iteration=None, *, before=(PS, DB)):
    depends = {"name": names, **({"iteration": iteration} if iteration is not None else {})}
    return parsed(*before, task("worker", dependsOn=depends))


def known(*pods):
    return {pod["metadata"]["name"]: pod for pod in pods}


def waits(job_, *pods):
    return dependencies.waiting_for(job_, job_.spec.tasks[-1], known(*pods))


@pytest.mark.parametrize(
    ("pods", "ready"),
    [
        pytest.param((), False, id="no pod yet"),
        pytest.param((vcpod("train-ps-0"),), True, id="one runs and serves: it asks for no more"),
        pytest.param((vcpod("train-ps-0", ready=(True, False)),), False, id="one of its containers does not serve"),
        pytest.param((vcpod("train-ps-0", ready=()),), True, id="it tells nothing of its containers"),
        pytest.param((vcpod("train-ps-0", "Pending"),), False, id="has not begun"),
        pytest.param((vcpod("train-ps-1", "Succeeded"),), True, id="is done"),
        pytest.param((vcpod("train-ps-0", "Failed"),), False, id="failed"),
        pytest.param((vcpod("train-ps-0", "Unknown"),), False, id="nobody knows"),
        pytest.param((vcpod("train-ps-2"),), False, id="too many of them: not one of its replicas"),
        pytest.param((vcpod("train-psx-0"),), False, id="another task's pod"),
    ],
)
def test_a_task_waits_for_enough_pods_of_another(pods, ready):
    found = job(["ps"])
    assert waits(found, *pods) == (() if ready else ("ps",))
    assert dependencies.ready(found, found.spec.tasks[-1], known(*pods)) is ready


UP, DOWN = vcpod("train-ps-0"), vcpod("train-db-0")


@pytest.mark.parametrize(
    ("names", "iteration", "pods", "expected"),
    [
        pytest.param(["ps", "db"], None, (), ("ps", "db"), id="all of them are the default"),
        pytest.param(["ps", "db"], None, (UP,), ("db",), id="one is not all"),
        pytest.param(["ps", "db"], "all", (UP, DOWN), (), id="all"),
        pytest.param(["ps", "db"], "Any", (UP,), ("db",), id="spelled otherwise it is all"),
        pytest.param(["ps", "db"], "any", (UP,), (), id="any"),
        pytest.param(["ps", "db"], "any", (), ("ps", "db"), id="any, but none is there"),
        pytest.param(["ps"], "any", (), ("ps",), id="any of one"),
        pytest.param([], "all", (), (), id="of nothing"),
        pytest.param([], "any", (), (), id="any of nothing"),
        pytest.param(["ghost"], None, (UP, DOWN), ("ghost",), id="a task that does not exist is waited for"),
        pytest.param(["ps", "ghost"], "any", (UP,), (), id="any of one that exists"),
    ],
)
def test_all_or_any(names, iteration, pods, expected):
    assert waits(job(names, iteration), *pods) == expected


def test_a_task_without_pods_or_minimum_is_there_at_once():
    assert waits(job(["none"], before=(task("none", 0),))) == ()
    assert waits(job(["ps"], before=({**PS, "minAvailable": 0},))) == ()


def test_the_tasks_that_wait_are_told_together():
    found = parsed(PS, task("worker", dependsOn={"name": ["ps"]}), task("eval", dependsOn={"name": ["worker"]}))
    assert dependencies.waiting(found, {}) == {"worker", "eval"}
    assert dependencies.waiting(found, known(UP)) == {"eval"}
    assert dependencies.waiting(found, known(UP, vcpod("train-worker-0"))) == set()
