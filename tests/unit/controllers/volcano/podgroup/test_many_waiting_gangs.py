"""Many waiting gangs: a round costs little for each of those that did not change, and says the same."""

import copy
import sys
from collections import Counter
from types import FrameType
from typing import Any

from tests.support.tables import for_each
from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node, pod, queue
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup.group import UNSCHEDULABLE
from workers.decision.plan import Plan
from workers.decision.snapshot import Snapshot

#: Seconds ago that gangs were created: none may be overtaken any more, or all.
LATE, NEW = -900.0, -60.0


def waiting(number: int, created: float) -> list[Object]:
    """So many gangs that an earlier round found no room for."""
    why = {"type": UNSCHEDULABLE, "status": "True", "reason": "NotEnoughResources", "lastTransitionTime": at(-1)}
    status = {"conditions": [why]}
    return [group(f"waits-{each}", created=created - each / 1000, status=status) for each in range(number)]


def cluster(gangs: list[Object]) -> Snapshot:
    """A full node, and these gangs as a fresh observation shows them."""
    holder = group("holder", least=8, phase="Running", created=-1000)
    pods = [pod(f"holder-{each}", "holder", node="one", phase="Running") for each in range(8)]
    return everything(queues=[queue()], groups=copy.deepcopy([*gangs, holder]), pods=pods, nodes=[node()])


def calls_of_a_round(snapshot: Snapshot) -> Counter[str]:
    """Calls of Python functions, with each item of a generator, by function."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        counted[frame.f_code.co_qualname] += event == "call"

    sys.setprofile(count)
    try:
        rounds.admit(snapshot, NOW)
    finally:
        sys.setprofile(None)
    return counted


def first_round(snapshot: Snapshot) -> Plan:
    """The plan of a process that has decided no round before."""
    rounds.observe(everything())
    return rounds.admit(snapshot, NOW)


@for_each(NEW, LATE)
def test_a_gang_that_did_not_change_costs_nine_calls(created: float) -> None:
    few, many = waiting(200, created), waiting(400, created)
    counted = []
    for gangs in (few, many):
        first_round(cluster(gangs))
        counted.append(calls_of_a_round(cluster(gangs)))
    more = counted[1] - counted[0]
    assert sum(more.values()) <= 9 * 200, more.most_common(8)


@for_each(NEW, LATE)
def test_a_gang_that_changed_is_read_again_and_the_others_are_not(created: float) -> None:
    gangs = waiting(100, created)
    first_round(cluster(gangs))
    gangs[40] = {**gangs[40], "spec": {**gangs[40]["spec"], "minMember": 2}}
    assert calls_of_a_round(cluster(gangs))["observe"] <= 5


@for_each(NEW, LATE)
def test_a_round_that_remembers_decides_as_one_that_does_not(created: float) -> None:
    gangs = waiting(30, created)
    first_round(cluster(gangs))
    changed = [
        *gangs[:10],
        {**gangs[10], "spec": {**gangs[10]["spec"], "minResources": {"cpu": "9"}}},
        {**gangs[11], "status": {"phase": "Inqueue", "admitted": at(-1)}},
        *gangs[14:],
        group("new", asks={"memory": "1Gi"}),
    ]
    remembering = rounds.admit(cluster(changed), NOW)
    assert remembering == first_round(cluster(changed))
    assert remembering.why == "1 gangs admitted, 27 wait"


def test_a_gang_that_is_admitted_changes_the_answer_to_those_behind_it() -> None:
    gangs = [group(f"gang-{each}", created=-60.0 + each) for each in range(4)]
    snapshot = everything(queues=[queue()], groups=gangs, nodes=[node()])
    found = rounds.run(rounds.observe(snapshot), NOW)
    assert [each.ref.name for each in found.admitted] == ["gang-0", "gang-1"]
    assert [(each.ref.name, why.reason) for each, why in found.waiting] == [
        ("gang-2", "NotEnoughResources"),
        ("gang-3", "NotEnoughResources"),
    ]
