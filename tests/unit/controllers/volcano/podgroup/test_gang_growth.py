"""Pods beyond their gangs: ungated when there is room besides the needs of all waiting gangs."""

from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.podgroup.gangs import (
    everything,
    group,
    grown,
    names,
    node,
    outcome,
    pod,
    priority,
    queue,
    reasons,
)
from workers.api.kinds import POD, Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup.admission_round import MOST
from workers.decision.plan import ComeBack, Patch, Together


def elastic(name: str, *, least: int = 1, more: int = 5, cpu: str = "1", on: str = "one", **given: Any) -> list[Object]:
    """A gang that is whole, and pods beyond it that are held back: the group, then its pods."""
    running = [pod(f"{name}-{index}", name, node=on, phase="Running") for index in range(least)]
    held = [
        pod(f"{name}-{index}", name, gated=True, cpu=cpu, created=index - 40, place=("work", index))
        for index in range(least, least + more)
    ]
    return [group(name, least=least, phase=given.pop("phase", "Running"), **given), *running, *held]


def seen(*each: list[Object], **more: Any) -> dict[str, Any]:
    """Groups and pods, apart."""
    return {"groups": [one[0] for one in each], "pods": [body for one in each for body in one[1:]], **more}


@cases(
    ("all of them fit", 5, {"nodes": [node()]}),
    ("as many as fit", 3, {"nodes": [node(cpu=4, pods=9)]}),
    ("none fits", 0, {"nodes": [node(cpu=1, pods=9)]}),
    ("no node is known", 5, {}),
    ("as many as the queue may have", 2, {"queues": [queue(capability={"cpu": "3"})]}),
    (
        "as many as the queue above may have",
        2,
        {"queues": [queue(parent="above"), queue("above", capability={"pods": "3"})]},
    ),
    (
        "what others are guaranteed stays free",
        1,
        {"nodes": [node(cpu=4, pods=9)], "queues": [queue(), queue("sure", guarantee={"resource": {"cpu": "2"}})]},
    ),
    ("a closed queue takes nothing more", 0, {"nodes": [node()], "queues": [queue(state="Closed")]}),
    ("the queue is gone", 0, {"nodes": [node()], "queues": []}),
    ("each on a node", 1, {"nodes": [node(cpu=2, pods=9), node("two", cpu=1, pods=0)]}),
)
def test_pods_beyond_a_gang_go_where_there_is_room(pods: int, given: dict[str, Any]) -> None:
    found = outcome(**seen(elastic("gang")), **given)
    assert grown(found) == [f"gang-{index}" for index in range(1, 1 + pods)]
    assert found.growth.waits == (pods < 5)


@cases(("one that waits", 1, 5), ("two that wait for the same", 2, 3), ("more than there is room for", 3, 0))
def test_pods_beyond_a_gang_leave_the_room_of_all_that_wait(waiting: int, pods: int) -> None:
    gangs = [group(f"waits-{number}", asks={"cpu": "4", "memory": "40Gi"}) for number in range(waiting)]
    gangs.append(group("holds", least=1, phase="Inqueue", asks={"cpu": "1", "memory": "20Gi"}))
    found = outcome(
        **seen(elastic("gang"), *([each] for each in gangs)),
        nodes=[node(cpu=13, pods=99, memory="50Gi")],
    )
    assert (len(found.waiting), len(grown(found))) == (waiting, pods)


@for_each((0, "Pending"), (0, "Inqueue"), (5, "Running"), (5, "Completed"), (0, "Unknown"))
def test_only_a_gang_that_is_whole_grows(pods: int, phase: str) -> None:
    found = outcome(**seen(elastic("gang", phase=phase)), nodes=[node()])
    assert len(grown(found)) == pods


def test_gated_pods_keep_no_group_from_starting() -> None:
    found = outcome(**seen(elastic("wide", more=50), [group()]), nodes=[node()])
    assert names(found) == ["gang"]
    assert grown(found) == [f"wide-{index}" for index in range(1, 5)]


@cases(
    ("it waits for what is left, and for more", 0, "NotEnoughResources", 4, 4),
    ("it starts, and leaves something", 1, None, 6, 4),
    ("it starts, and leaves nothing", 0, None, 5, 4),
    ("one that can never start keeps nothing free", 3, "NeverFits", 4, 9),
)
def test_what_a_gang_waits_for_is_for_no_pod_beyond_another(
    pods: int, reason: str | None, cpus: int, least: int
) -> None:
    found = outcome(**seen(elastic("wide"), [group(least=least)]), nodes=[node(cpu=cpus, pods=99)])
    assert reasons(found) == ({"gang": reason} if reason else {})
    assert len(grown(found)) == pods


def test_a_gang_that_waits_for_its_own_queue_blocks_no_other() -> None:
    queues = [queue(), queue("above", capability={"cpu": "3"}), queue("a", parent="above"), queue("b", parent="above")]
    given = seen(elastic("wide"), elastic("narrow", queue="a"), [group(queue="b")], queues=queues)
    found = outcome(**given, nodes=[node(cpu=9, pods=99)])
    assert reasons(found) == {"gang": "NotEnoughResources"}
    assert grown(found) == [f"wide-{index}" for index in range(1, 6)]


def test_no_extra_pod_takes_nodes_that_a_gang_waits_for() -> None:
    large = group(least=1, asks={"cpu": "4", "pods": "1"}, minTaskMember={"a": 1}, minTaskPlacement={"a": ZONE_A})
    machines = [node("one", cpu=4, pods=9, labels={"zone": "a"}), node("two", cpu=4, pods=9, labels={"zone": "b"})]
    found = outcome(**seen(elastic("wide"), [large]), nodes=machines)
    assert reasons(found) == {"gang": "NotEnoughResources"}
    assert grown(found) == []
    elsewhere = elastic("wide")
    for body in elsewhere[2:]:
        body["spec"]["nodeSelector"] = {"zone": "b"}
    assert grown(outcome(**seen(elsewhere, [large]), nodes=machines)) == [f"wide-{index}" for index in range(1, 5)]


ZONE_A = {"nodeSelector": {"zone": "a"}}


@cases(
    ("of the older gang", ["a-1", "a-2"], {"b": {"created": -1}}, {}),
    (
        "of the more important one",
        ["b-1", "b-2"],
        {"b": {"priorityClassName": "high", "created": -1}},
        {"priorities": [priority("high", 5)]},
    ),
    (
        "of the queue of higher priority",
        ["b-1", "b-2"],
        {"b": {"queue": "vip"}},
        {"queues": [queue(), queue("vip", priority=1)]},
    ),
    (
        "queues take turns",
        ["a-1", "b-1"],
        {"b": {"queue": "other"}},
        {"queues": [queue(created=-9), queue("other", created=-8)]},
    ),
)
def test_who_grows_first(first: list[str], more: dict[str, Any], given: dict[str, Any]) -> None:
    gangs = [elastic("a", created=-30), elastic("b", **{"created": -20, **more.get("b", {})})]
    assert grown(outcome(**seen(*gangs), nodes=[node(cpu=4, pods=9)], **given)) == first


def test_a_small_pod_is_let_go_though_a_large_one_is_not() -> None:
    gang = elastic("gang", more=1, cpu="9")
    gang.append(pod("gang-9", gated=True, place=("work", 9)))
    assert grown(outcome(**seen(gang), nodes=[node()])) == ["gang-9"]


def test_pods_that_were_let_go_count_until_they_have_their_place() -> None:
    free = [pod(f"wide-{index}", "wide", place=("work", index)) for index in range(1, 4)]
    done = [group("wide", least=1, phase="Completed"), pod("wide-0", "wide", node="one", phase="Succeeded"), *free]
    assert names(outcome(**seen(done, [group()]), nodes=[node(cpu=5, pods=9)])) == []
    assert names(outcome(**seen(done, [group()]), nodes=[node(cpu=6, pods=9)])) == ["gang"]
    assert names(outcome(**seen(done, [group()]), queues=[queue(capability={"cpu": "5"})])) == []
    assert names(outcome(**seen(done, [group()]), queues=[queue(capability={"cpu": "6"})])) == ["gang"]


def test_a_job_whose_gang_lost_a_pod_makes_that_again_and_its_other_pods_wait() -> None:
    gang = elastic("gang", least=2, phase="Pending")
    body, _lost, left, *held = gang
    found = outcome(groups=[body], pods=[left, *held], nodes=[node(cpu=2, pods=9)])
    assert names(found) == ["gang"]
    # Pods of a Job that are held back are never waited for: it makes those of its gang when that is let through.
    assert names(outcome(groups=[body], pods=held[:1], nodes=[node(cpu=2, pods=9)])) == ["gang"]


def test_the_round_lets_pods_go_so_many_at_a_time_and_comes_back() -> None:
    plan = rounds.admit(everything(**seen(elastic("gang", more=MOST + 9))), NOW)
    patches = [step for stage in plan.steps if isinstance(stage, Together) for step in stage.steps]
    assert len(patches) == MOST
    assert all(isinstance(step, Patch) and step.ref.kind == POD for step in patches)
    assert patches[0].body == {"spec": {"schedulingGates": None}}  # type: ignore[union-attr]
    assert isinstance(plan.steps[-1], ComeBack)
    rest = rounds.admit(everything(**seen(elastic("gang"))), NOW)
    assert isinstance(rest.steps[-1], ComeBack), "the API server may refuse a patch"


@cases(
    ("none is there: they are made once the gang may start", [], True),
    ("one of three is held back", [True], False),
    ("two of three are", [True, True], False),
    ("all are there", [True, True, True], True),
    ("one was made by a Job that makes the others", [False], True),
    ("one was let go before, and one waits", [False, True], False),
)
def test_a_gang_whose_pods_are_held_back_starts_when_all_are_there(gates: list[bool], admitted: bool) -> None:
    pods = [pod(f"gang-{index}", gated=gated) for index, gated in enumerate(gates)]
    found = outcome(queues=[queue("root"), queue()], groups=[group(least=3)], pods=pods, nodes=[node()])
    assert names(found) == (["gang"] if admitted else [])
    assert reasons(found) == ({} if admitted else {"gang": "NotEnoughTasks"})
