"""Reclaim: gangs of queues above their share back out, whole, for a gang of a queue below its own."""

from datetime import timedelta
from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.plans import shape, staged, status_of
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node, outcome, pod, priority, queue, seen
from workers.api.kinds import POD_GROUP, Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup.decide import GangDecision
from workers.controllers.volcano.podgroup.group import GangRules
from workers.decision.plan import Delete, Patch, RecordEvent

RECLAIM = GangRules(reclaim=True)
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j", "controller": True}


def running(name: str, pods: int = 3, *, owned: bool = True, **more: Any) -> tuple[Object, list[Object]]:
    """A whole gang of the queue `lent`, owned by a Volcano Job, with its pods."""
    states = more.pop("states", ["Running"] * pods)
    where, leaving = more.pop("on", "one"), more.pop("leaving", False)
    body = group(name, least=pods, phase="Running", **{"queue": "lent", **more})
    body["metadata"]["ownerReferences"] = [OWNER] if owned else []
    made = [pod(f"{name}-{n}", name, node=where, phase=state, leaving=leaving) for n, state in enumerate(states)]
    return body, made


OLD, YOUNG = running("old", created=-90), running("young", created=-50)
QUEUES = [queue("lent"), queue("owed")]
NEAR = {"zone": "near"}
THREE_EACH = [queue(name, deserved={"cpu": "3"}) for name in ("lent", "owed")]


@cases(
    ("the youngest", ["young"], [OLD, YOUNG], {}),
    (
        "the least important",
        ["old"],
        [OLD, running("young", created=-50, priorityClassName="high")],
        {"priorities": [priority("high", 5)]},
    ),
    (
        "as many as it takes",
        ["c", "b"],
        [running("a", 2, created=-90), running("b", 2, created=-80), running("c", 2, created=-70)],
        {"queues": [queue("lent"), queue("owed", weight=2)], "asks": 4},
    ),
    ("the option is off", [], [OLD, YOUNG], {"rules": GangRules()}),
    ("its queue forbids it", [], [OLD, YOUNG], {"queues": [queue("lent", reclaimable=False), queue("owed")]}),
    (
        "its annotation forbids it",
        ["old"],
        [OLD, running("young", created=-50, annotations={"volcano.sh/preemptable": "false"})],
        {},
    ),
    ("its queue would have less than its share", [], [running("wide", 6)], {}),
    (
        "the other queue would have more than its share",
        [],
        [OLD, YOUNG],
        {"asks": 4, "nodes": [node(cpu=7, pods=99)], "queues": THREE_EACH},
    ),
    (
        "the share is what the spec says",
        ["young"],
        [OLD, YOUNG],
        {"queues": [queue("lent", deserved={"cpu": "2"}), queue("owed", deserved={"cpu": "3"})]},
    ),
    ("no Job creates its pods again", ["old"], [OLD, running("young", created=-50, owned=False)], {}),
    (
        "its pods have no node yet in part",
        ["young"],
        [OLD, running("young", created=-50, states=["Running", "Running", "Pending"])],
        {},
    ),
    (
        "its pods have ended in part",
        [],
        [OLD, running("young", created=-50, states=["Running", "Running", "Succeeded"])],
        {},
    ),
    ("pods that leave make the room", [], [OLD, running("young", created=-50, leaving=True)], {}),
    (
        "pods that leave make a part of the room",
        ["b"],
        [running("a", 2, created=-90), running("b", 2, created=-80), running("c", 2, created=-70, leaving=True)],
        {"queues": [queue("lent"), queue("owed", weight=2)], "asks": 4},
    ),
    (
        "pods that leave make room on other nodes",
        ["useful"],
        [running("useful", 3, on="a", created=-90), running("gone", 3, on="b", created=-50, leaving=True)],
        {"nodes": [node("a", cpu=3, pods=99, labels=NEAR), node("b", cpu=3, pods=99)], "selector": NEAR},
    ),
    (
        "its room is on other nodes",
        [],
        [running("a", 3, on="a"), running("b", 3, on="b", created=-50)],
        {"nodes": [node("a", cpu=3, pods=99), node("b", cpu=3, pods=99)], "selector": {"zone": "far"}},
    ),
    (
        "the queue's own limit is no shortage of the cluster",
        [],
        [OLD, YOUNG],
        {"queues": [queue("lent"), queue("owed", capability={"cpu": "2"})]},
    ),
    ("gangs of one queue", [], [OLD, YOUNG], {"queue": "lent"}),
    ("its queue is served first", [], [OLD, YOUNG], {"queues": [queue("lent", priority=5), queue("owed")]}),
    (
        "it is overdue, and would be admitted first",
        ["old"],
        [OLD, running("young", created=-50, annotations={"sla-waiting-time": "30s"})],
        {},
    ),
    ("the other may not be overtaken any more", ["young"], [OLD, YOUNG], {"created": -601}),
    ("the other is overdue", ["young"], [OLD, YOUNG], {"annotations": {"sla-waiting-time": "30s"}}),
    (
        "the first one's nodes are of no use",
        ["useful"],
        [running("useful", 3, on="a", created=-90), running("useless", 3, on="b", created=-50)],
        {"nodes": [node("a", cpu=3, pods=99, labels=NEAR), node("b", cpu=3, pods=99)], "selector": NEAR},
    ),
)
def test_which_gangs_make_room(
    victims: list[str], gangs: list[tuple[Object, list[Object]]], given: dict[str, Any]
) -> None:
    given = dict(given)
    rules, asks, selector = given.pop("rules", RECLAIM), given.pop("asks", 3), given.pop("selector", None)
    of = given.pop("queue", "owed")
    where = {"minTaskMember": {"w": asks}, "minTaskPlacement": {"w": {"nodeSelector": selector}}} if selector else {}
    about = {name: given.pop(name) for name in ("created", "annotations") if name in given}
    waiting = group("waiting", least=asks, queue=of, **about, **where)
    found = outcome(
        rules,
        groups=[*(body for body, _ in gangs), waiting],
        pods=[each for _, pods in gangs for each in pods],
        **{"queues": QUEUES, "nodes": [node(cpu=6, pods=99)], **given},
    )
    assert [each.ref.name for each in found.reclaimed] == victims
    assert (found.beneficiary is not None) == bool(victims)


def cluster(*groups: Object, pods: list[Object]) -> Any:
    return everything(groups=list(groups), pods=pods, queues=QUEUES, nodes=[node(cpu=6, pods=99)])


def test_a_reclaimed_gang_backs_out_whole_and_waits_behind_the_other() -> None:
    (old, old_pods), (young, young_pods) = OLD, YOUNG
    waiting = group("waiting", queue="owed")
    plan = rounds.admit(cluster(old, young, waiting, pods=[*old_pods, *young_pods]), NOW, RECLAIM)
    (patch,) = [step for step in staged(plan, Patch) if step.ref.name == "young"]
    text = "its room is for default/waiting of queue owed, which has less than its share"
    assert patch.then == RecordEvent("Warning", "Reclaimed", text, (POD_GROUP, young))
    back = {"count": 1, "since": at(0), "until": at(10), "reclaimed": True}
    assert (patch.body["status"]["phase"], patch.body["status"]["backOff"]) == ("Pending", back)
    given_up = {**young, "status": {**young["status"], **patch.body["status"]}}
    decided = GangDecision(RECLAIM).decide(seen(given_up, *young_pods), NOW)
    assert (shape(decided), [step.ref.name for step in staged(decided, Delete)]) == (
        ["Patchs", "Deletes"],
        ["young-0", "young-1", "young-2"],
    )

    # While its pods leave it stays Pending and is not admitted, and no further gang is reclaimed.
    leaving = [{**each, "metadata": {**each["metadata"], "deletionTimestamp": at(1)}} for each in young_pods]
    later = GangDecision(RECLAIM).decide(seen(given_up, *leaving), NOW + timedelta(seconds=60))
    assert status_of(later)["phase"] == "Pending"
    snapshot = cluster(old, given_up, waiting, pods=[*old_pods, *leaving])
    found = rounds.run(rounds.observe(snapshot), NOW + timedelta(seconds=60), RECLAIM)
    assert (found.reclaimed, [each.ref.name for each in found.admitted]) == ((), [])

    # Once they are gone the other starts, and the gang waits for room of its own.
    snapshot = cluster(old, given_up, waiting, pods=old_pods)
    found = rounds.run(rounds.observe(snapshot), NOW + timedelta(seconds=60), RECLAIM)
    assert ([each.ref.name for each in found.admitted], found.reclaimed) == (["waiting"], ())
    assert [(each.ref.name, why.reason) for each, why in found.waiting] == [("young", "NotEnoughResources")]


@for_each(True, False)
def test_only_a_reclaimed_gang_loses_pods_that_run(reclaimed: bool) -> None:
    body, pods = running("gang")
    back = {"count": 1, "since": at(0), "until": at(10), **({"reclaimed": True} if reclaimed else {})}
    whole = {"type": "Scheduled", "status": "True", "reason": "r", "message": ""}
    body = {**body, "status": {"phase": "Pending", "backOff": back, "conditions": [whole]}}
    assert bool(staged(GangDecision(RECLAIM).decide(seen(body, *pods), NOW), Delete)) is reclaimed
