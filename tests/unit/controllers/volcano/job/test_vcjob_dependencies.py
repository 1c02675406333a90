"""The conditions under which a task of a Volcano Job may start."""

from tests.support.tables import cases
from tests.unit.controllers.volcano.job.vcjobs import parsed, task, vcpod
from workers.controllers.volcano.job import sync

#: A task of two pods, one of which is enough, and one of a single pod.
PS, DB = task("ps", 2, minAvailable=1), task("db")


def job(names, iteration=None, *, before=(PS, DB)):
    depends = {"name": names, **({"iteration": iteration} if iteration is not None else {})}
    return parsed(*before, task("worker", dependsOn=depends))


def known(*pods):
    return {pod["metadata"]["name"]: pod for pod in pods}


def waits(job_, *pods):
    return sync.waiting_for(job_, job_.spec.tasks[-1], known(*pods))


@cases(
    ("no pod yet", (), False),
    ("one runs and serves: it asks for no more", (vcpod("train-ps-0"),), True),
    ("one of its containers does not serve", (vcpod("train-ps-0", ready=(True, False)),), False),
    ("it tells nothing of its containers", (vcpod("train-ps-0", ready=()),), True),
    ("has not begun", (vcpod("train-ps-0", "Pending"),), False),
    ("is done", (vcpod("train-ps-1", "Succeeded"),), True),
    ("failed", (vcpod("train-ps-0", "Failed"),), False),
    ("nobody knows", (vcpod("train-ps-0", "Unknown"),), False),
    ("too many of them: not one of its replicas", (vcpod("train-ps-2"),), False),
    ("another task's pod", (vcpod("train-psx-0"),), False),
)
def test_a_task_waits_for_enough_pods_of_another(pods, ready):
    found = job(["ps"])
    assert waits(found, *pods) == (() if ready else ("ps",))
    assert sync.may_start(found, found.spec.tasks[-1], known(*pods)) is ready


UP, DOWN = vcpod("train-ps-0"), vcpod("train-db-0")


@cases(
    ("all of them are the default", ["ps", "db"], None, (), ("ps", "db")),
    ("one is not all", ["ps", "db"], None, (UP,), ("db",)),
    ("all", ["ps", "db"], "all", (UP, DOWN), ()),
    ("spelled otherwise it is all", ["ps", "db"], "Any", (UP,), ("db",)),
    ("any", ["ps", "db"], "any", (UP,), ()),
    ("any, but none is there", ["ps", "db"], "any", (), ("ps", "db")),
    ("any of one", ["ps"], "any", (), ("ps",)),
    ("of nothing", [], "all", (), ()),
    ("any of nothing", [], "any", (), ()),
    ("a task that does not exist is waited for", ["ghost"], None, (UP, DOWN), ("ghost",)),
    ("any of one that exists", ["ps", "ghost"], "any", (UP,), ()),
)
def test_all_or_any(names, iteration, pods, expected):
    assert waits(job(names, iteration), *pods) == expected


def test_a_task_without_pods_or_minimum_is_there_at_once():
    assert waits(job(["none"], before=(task("none", 0),))) == ()
    assert waits(job(["ps"], before=({**PS, "minAvailable": 0},))) == ()


def test_the_waiting_tasks_are_reported_together():
    found = parsed(PS, task("worker", dependsOn={"name": ["ps"]}), task("eval", dependsOn={"name": ["worker"]}))
    assert sync.waiting_tasks(found, {}) == {"worker", "eval"}
    assert sync.waiting_tasks(found, known(UP)) == {"eval"}
    assert sync.waiting_tasks(found, known(UP, vcpod("train-worker-0"))) == set()


# What can never start any more

FAILED = [vcpod(name, "Failed") for name in ("train-ps-0", "train-ps-1", "train-db-0")]
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def going(pod, **metadata):
    return {**pod, "metadata": {**pod["metadata"], **metadata}}


@cases(
    ("nothing has begun", ["ps"], None, (), ()),
    ("the other one is enough", ["ps"], None, FAILED[:1], ()),
    ("all that could serve failed", ["ps"], None, FAILED[:2], ("ps",)),
    ("nobody knows: it may be heard of again", ["db"], None, (vcpod("train-db-0", "Unknown"),), ()),
    ("one that is going is made again", ["db"], None, (going(FAILED[2], **LEAVING),), ()),
    (
        "one that was given up goes",
        ["db"],
        None,
        (going(FAILED[2], annotations={"volcano.sh/controller-out-of-sync": "true"}),),
        (),
    ),
    ("one of all is enough", ["ps", "db"], None, FAILED[2:], ("db",)),
    ("any: the other may come", ["ps", "db"], "any", FAILED[2:], ()),
    ("any: none can come", ["ps", "db"], "any", FAILED, ("ps", "db")),
    ("any: one is there", ["ps", "db"], "any", (*FAILED[:2], DOWN), ()),
    ("a task that does not exist never comes", ["ghost"], None, (), ("ghost",)),
)
def test_what_a_task_waits_for_in_vain(names, iteration, pods, expected):
    assert sync.stalled(job(names, iteration), known(*pods)).get("worker", ()) == expected


def test_what_waits_for_something_lost_is_lost_as_well_and_only_its_missing_pods_count():
    found = parsed(
        DB,
        task("worker", 3, dependsOn={"name": ["db"]}),
        task("eval", 2, dependsOn={"name": ["worker"]}),
        task("free", 1),
    )
    assert sync.stalled(found, known(FAILED[2])) == {"worker": ("db",), "eval": ("worker",)}
    assert sync.unmade(found, known(FAILED[2])) == 5
    assert sync.unmade(found, known(FAILED[2], vcpod("train-worker-1"))) == 4
    assert sync.unmade(found, known(FAILED[2], *(vcpod(f"train-worker-{index}") for index in range(3)))) == 0
    assert sync.unmade(found, known(DOWN)) == 0


def test_tasks_that_wait_in_a_circle_wait_and_are_not_lost():
    around = parsed(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]}))
    assert sync.stalled(around, {}) == {}
