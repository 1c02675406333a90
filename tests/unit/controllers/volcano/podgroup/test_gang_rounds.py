"""The gangs that a round admits, and the reasons of the others: a table for every rule."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, condition
from tests.unit.controllers.volcano.podgroup.gangs import (
    everything,
    group,
    names,
    node,
    outcome,
    pod,
    priority,
    queue,
    quota,
    reasons,
    words,
)
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup.group import GangRules
from workers.decision.plan import ComeBack, HoldKey, Patch, RecordEvent, Together


@cases(
    ("it fits", True, {"nodes": [node()]}),
    ("one cpu is missing", False, {"nodes": [node(cpu=2, pods=9)]}),
    ("exactly enough", True, {"nodes": [node(cpu=3, pods=3)]}),
    ("too few pods for one node", False, {"nodes": [node(cpu=3, pods=2)]}),
    ("over two nodes", True, {"nodes": [node("a", cpu=2, pods=9), node("b", cpu=1, pods=9)]}),
    ("no node is known: the queues alone decide", True, {}),
    ("a node that is not ready has nothing", False, {"nodes": [node(ready="False")]}),
    ("a node that is not heard of has nothing", False, {"nodes": [node(ready="Unknown")]}),
    ("a cordoned node has nothing", False, {"nodes": [node(spec={"unschedulable": True})]}),
    (
        "the control plane has nothing",
        False,
        {"nodes": [node(spec={"taints": [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]})]},
    ),
    (
        "a pod of no gang takes its place",
        False,
        {"nodes": [node(cpu=5, pods=9)], "pods": [pod("web", None, cpu="3", node="one", phase="Running")]},
    ),
    (
        "a pod that has ended takes nothing",
        True,
        {"nodes": [node(cpu=5, pods=9)], "pods": [pod("web", None, cpu="3", node="one", phase="Succeeded")]},
    ),
    (
        "a pod that is leaving is not gone yet",
        False,
        {
            "nodes": [node(cpu=5, pods=9)],
            "pods": [pod("web", None, cpu="3", node="one", phase="Running", leaving=True)],
        },
    ),
    (
        "a pod of a node that does not count takes nothing of the others",
        True,
        {"nodes": [node(cpu=3, pods=9)], "pods": [pod("web", None, cpu="3", node="gone", phase="Running")]},
    ),
)
def test_a_gang_needs_room_in_the_cluster(admitted: bool, given: dict[str, list[Object]]) -> None:
    found = outcome(groups=[group()], **given)
    assert names(found) == (["gang"] if admitted else [])


@cases(
    ("as much as it may have", None, [queue(capability={"cpu": "3"})]),
    ("more than it may ever have", "NeverFits", [queue(capability={"cpu": "2"})]),
    ("only what the gang asks for is compared", None, [queue(capability={"memory": "1"})]),
    ("no cpu at all is no limit, as Volcano reads it", None, [queue(capability={"cpu": "0"})]),
    ("no pods at all is a limit", "NeverFits", [queue(capability={"pods": "0"})]),
    ("closed", "QueueNotOpen", [queue(state="Closed")]),
    ("closing", "QueueNotOpen", [queue(state="Closing")]),
    ("in an unknown state", "QueueNotOpen", [queue(state="Unknown")]),
    ("new: about to be open", None, [queue(state="")]),
    ("missing", "QueueNotFound", [queue("other")]),
    ("with queues below", "QueueNotLeaf", [queue(), queue("child", parent="default")]),
    ("the one above is small", "NeverFits", [queue(parent="above"), queue("above", capability={"cpu": "2"})]),
    ("below a closed one", "QueueNotOpen", [queue(parent="above"), queue("above", state="Closed")]),
    ("below one that is not there: directly below the root", None, [queue(parent="nowhere")]),
    ("may run nothing", "TooManyRunning", [queue(maxRunningJobs=0)]),
    ("may run one", None, [queue(maxRunningJobs=1)]),
    (
        "what another is guaranteed is never its own",
        "NeverFits",
        [queue(), queue("other", guarantee={"resource": {"cpu": "6"}})],
    ),
    (
        "its own guarantee is its own",
        None,
        [queue(guarantee={"resource": {"cpu": "3"}}), queue("other", guarantee={"resource": {"cpu": "5"}})],
    ),
)
def test_what_a_queue_has_to_say(reason: str | None, queues: list[Object]) -> None:
    found = outcome(groups=[group()], queues=queues, nodes=[node()])
    assert reasons(found) == ({"gang": reason} if reason else {})


@cases(
    ("promised, no pods yet", 5, "Inqueue", []),
    ("promised, one pod has its node", 5, "Inqueue", [("bound", None)]),
    ("running", 5, "Running", [("Running", None)] * 3),
    ("a pod more than the gang waits", 5, "Running", [("Running", None)] * 2 + [("waiting", None)]),
    ("not whole any more, and its pods run", 5, "Pending", [("Running", None)] * 3),
)
def test_what_another_has_or_was_promised_is_not_free(cpus: int, first: str, pods: list[tuple[str, None]]) -> None:
    made = [
        pod(
            f"old-{index}",
            "old",
            node=None if state == "waiting" else "one",
            phase="Running" if state == "Running" else "Pending",
        )
        for index, (state, _) in enumerate(pods)
    ]
    status = {"backOff": {"count": 1, "since": at(-1), "until": at(60)}} if first == "Pending" else None
    known = [group("old", phase=first, status=status), group()]
    assert names(outcome(groups=known, pods=made, nodes=[node(cpu=cpus, pods=50)])) == []
    assert names(outcome(groups=known, pods=made, nodes=[node(cpu=cpus + 1, pods=50)])) == ["gang"]


@cases(
    ("a lost pod was replaced before the gang waited again", ["gang"], 5, True, False),
    ("its place is in the queue", [], 4, True, False),
    ("the new pod is held back", ["gang"], 4, True, True),
    ("the gang never was whole", ["gang"], 4, False, False),
)
def test_a_pod_that_may_be_bound_at_any_time_counts_in_its_queue(
    admitted: list[str], capability: int, whole: bool, gated: bool
) -> None:
    pods = [
        pod("old-0", "old", node="one", phase="Running", cpu="2"),
        pod("old-1", "old", cpu="2", gated=gated),
    ]
    # It waits for another reason.
    status = {
        "backOff": {"count": 1, "since": at(-1), "until": at(60)},
        "conditions": [{"type": "Scheduled", "status": "True" if whole else "False"}],
    }
    known = [group("old", least=2, asks={"cpu": 4}, status=status), group(least=1)]
    queues = [queue(capability={"cpu": str(capability)})]
    assert names(outcome(groups=known, pods=pods, queues=queues, nodes=[node(cpu=50, pods=50)])) == admitted


def test_a_gang_with_a_replaced_pod_has_the_room_of_that_pod_itself() -> None:
    pods = [pod("old-0", "old", node="one", phase="Running", cpu="2"), pod("old-1", "old", cpu="2")]
    status = {"conditions": [{"type": "Scheduled", "status": "True"}]}
    known = [group("old", least=2, asks={"cpu": 4}, status=status), group(least=1), group("late", least=1, created=-5)]
    found = outcome(groups=known, pods=pods, queues=[queue(capability={"cpu": "5"})], nodes=[node(cpu=50, pods=50)])
    assert sorted(names(found)) == ["gang", "old"]
    assert words(found) == {"late": "queue default has 0 of 5 cpu left, the gang needs 1"}


def test_a_completed_group_holds_nothing() -> None:
    ended = [pod(f"old-{index}", "old", node="one", phase="Succeeded") for index in range(3)]
    found = outcome(groups=[group("old", phase="Completed"), group()], pods=ended, nodes=[node(cpu=3, pods=3)])
    assert names(found) == ["gang"]


def test_of_two_that_fit_one_at_a_time_one_starts() -> None:
    found = outcome(groups=[group("late", created=-10), group("early", created=-20)], nodes=[node(cpu=5, pods=9)])
    assert names(found) == ["early"]
    assert words(found) == {"late": "the cluster has 2 of 5 cpu left, the gang needs 3"}


def test_capability_counts_what_was_admitted_in_the_same_round() -> None:
    found = outcome(groups=[group("a"), group("b"), group("c")], queues=[queue(capability={"cpu": "6"})])
    assert names(found) == ["a", "b"]
    assert words(found) == {"c": "queue default has 0 of 6 cpu left, the gang needs 3"}


def test_a_queue_bounds_those_below_it_together() -> None:
    queues = [
        queue("above", capability={"cpu": "7"}),
        queue("left", parent="above", capability={"cpu": "6"}),
        queue("right", parent="above", capability={"cpu": "6"}),
    ]
    known = [
        group("old", queue="left", phase="Inqueue"),
        group("a", queue="right", created=-9),
        group("b", queue="right", least=2, created=-8),
        group("c", queue="left", least=1, created=-7),
    ]
    found = outcome(groups=known, queues=queues)
    assert names(found) == ["a", "c"]
    assert words(found) == {"b": "queue above has 0 of 7 cpu left, the gang needs 2"}


def test_more_than_there_is_may_be_promised() -> None:
    found = outcome(GangRules(overcommit=Fraction("1.5")), groups=[group("a"), group("b")], nodes=[node(cpu=4, pods=9)])
    assert names(found) == ["a", "b"]


def test_a_group_that_lost_a_pod_needs_only_that_one() -> None:
    left = [pod(f"gang-{index}", node="one", phase="Running") for index in range(2)]
    assert names(outcome(groups=[group()], pods=left, nodes=[node(cpu=3, pods=9)])) == ["gang"]


def test_pods_that_have_ended_need_no_room_again() -> None:
    done = [pod(f"gang-{index}", node="one", phase="Succeeded") for index in range(2)]
    assert names(outcome(groups=[group()], pods=done, nodes=[node(cpu=1, pods=9)])) == ["gang"]


@cases(
    ("nothing is known of it yet", "NotEnoughTasks", []),
    ("one pod is missing", "NotEnoughTasks", ["1", "1"]),
    ("its pods fit", None, ["1", "1", "2"]),
    ("its pods do not fit", "NeverFits", ["1", "1", "3"]),
    ("a pod more than the gang need not fit", None, ["1", "1", "2", "9"]),
)
def test_a_group_without_resources_asks_for_what_its_pods_ask_for(reason: str | None, pods: list[str]) -> None:
    made = [pod(f"gang-{index}", cpu=cpu, gated=True, created=index) for index, cpu in enumerate(pods)]
    found = outcome(groups=[group(asks={})], pods=made, nodes=[node(cpu=4, pods=9)])
    assert reasons(found) == ({"gang": reason} if reason else {})


@for_each((False, "apps/v1", "ReplicaSet"), (False, "v1", "Pod"), (True, "batch.volcano.sh/v1alpha1", "Job"))
def test_a_group_that_was_made_for_pods_waits_until_it_has_them(admitted: bool, version: str, kind: str) -> None:
    body = group()
    owner = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "owner", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    found = outcome(groups=[body], nodes=[node()])
    assert (names(found), reasons(found)) == ((["gang"], {}) if admitted else ([], {"gang": "NotEnoughTasks"}))


def test_a_group_that_asks_for_nothing_at_all_needs_nothing() -> None:
    assert names(outcome(groups=[group(least=0, asks={})], nodes=[node()])) == ["gang"]


def test_pods_that_ask_for_more_than_their_group_says_count() -> None:
    made = [pod(f"gang-{index}", cpu="2", gated=True) for index in range(3)]
    assert reasons(outcome(groups=[group()], pods=made, nodes=[node(cpu=5, pods=9)])) == {"gang": "NeverFits"}


@cases(
    ("two cpus each: one node holds one pod", False, [3, 3], {"asks": {"cpu": "6", "pods": "3"}}),
    ("two on the one, one on the other", True, [4, 2], {"asks": {"cpu": "6", "pods": "3"}}),
    (
        "pods of several tasks: only their sum is known",
        True,
        [3, 3],
        {"asks": {"cpu": "6", "pods": "3"}, "minTaskMember": {"a": 1, "b": 2}},
    ),
    (
        "pods of several tasks, one of them too large",
        False,
        [3, 3],
        {
            "asks": {"cpu": "6", "pods": "3"},
            "minTaskMember": {"a": 1, "b": 2},
            "minTaskResources": {"a": {"cpu": "4"}, "b": {"cpu": "1"}},
        },
    ),
    (
        "pods of several tasks, each has its place",
        True,
        [4, 2],
        {
            "asks": {"cpu": "6", "pods": "3"},
            "minTaskMember": {"a": 1, "b": 2},
            "minTaskResources": {"a": {"cpu": "4"}, "b": {"cpu": "1"}},
        },
    ),
    (
        "pods of several tasks, of which the gang needs more than the least",
        True,
        [3, 3],
        {
            "asks": {"cpu": "6", "pods": "3"},
            "minTaskMember": {"a": 1, "b": 1},
            "minTaskResources": {"a": {"cpu": "4"}, "b": {"cpu": "1"}},
        },
    ),
    ("halves of cpus", False, [1, 1, 1], {"asks": {"cpu": "3", "pods": "2"}, "least": 2}),
)
def test_every_pod_of_a_gang_must_fit_on_one_node(admitted: bool, nodes: list[int], more: dict[str, Any]) -> None:
    machines = [node(f"n{index}", cpu=cpu, pods=9) for index, cpu in enumerate(nodes)]
    found = outcome(groups=[group(**more)], nodes=machines)
    assert (names(found), reasons(found)) == ((["gang"], {}) if admitted else ([], {"gang": "NeverFits"}))


def test_a_small_pod_goes_where_a_large_one_left_room() -> None:
    made = [pod(f"gang-{index}", cpu=cpu, gated=True) for index, cpu in enumerate("313")]
    machines = [node("a", cpu=4, pods=9), node("b", cpu=3, pods=9)]
    assert names(outcome(groups=[group(asks={})], pods=made, nodes=machines)) == ["gang"]


def test_a_gang_that_is_whole_is_promised_no_more_than_its_pods_ask_for() -> None:
    made = [pod(f"old-{index}", "old", node="one", phase="Running") for index in range(3)]
    known = [group("old", phase="Running", asks={"cpu": "5"}), group()]
    assert names(outcome(groups=known, pods=made, nodes=[node(cpu=6, pods=9)])) == ["gang"]


def test_pods_on_their_way_take_their_place_on_a_node_too() -> None:
    known = [group("old", phase="Inqueue", least=1, asks={"cpu": "2"}), group(least=2, asks={"cpu": "4", "pods": "2"})]
    # Six cpus, of which two are promised: four are left, but not two on each of two nodes.
    assert names(outcome(groups=known, nodes=[node("a", cpu=3, pods=9), node("b", cpu=3, pods=9)])) == []
    assert names(outcome(groups=known, nodes=[node("a", cpu=4, pods=9), node("b", cpu=2, pods=9)])) == ["gang"]


@cases(
    ("the older first", ["a", "b"], {"groups": [group("b", created=-1), group("a", created=-2)]}),
    (
        "the more important first",
        ["b", "a"],
        {"groups": [group("a"), group("b", priorityClassName="high", created=-1)], "priorities": [("high", 5)]},
    ),
    (
        "an unknown class is 0",
        ["a", "b"],
        {"groups": [group("a", created=-9), group("b", priorityClassName="gone", created=-5)]},
    ),
    (
        "whoever holds a part of a gang first",
        ["b", "a"],
        {"groups": [group("a"), group("b", created=-1)], "pods": [pod("b-0", "b", node="one", phase="Running")]},
    ),
    (
        "the queue of higher priority first",
        ["b", "a"],
        {"groups": [group("a", created=-99), group("b", queue="vip")], "queues": [queue(), queue("vip", priority=1)]},
    ),
    (
        "queues take turns, the older one begins",
        ["b", "a", "c"],
        {
            "groups": [group("a", created=-99), group("c"), group("b", queue="big", created=-1)],
            "queues": [queue(created=-1), queue("big", created=-2)],
        },
    ),
    (
        "a queue of twice the weight has two turns",
        ["b", "a", "c"],
        {
            "groups": [
                group("a", queue="big", created=-9),
                group("c", queue="big", created=-8),
                group("b", created=-10),
                group("d", created=-1),
            ],
            "queues": [queue(created=-9999), queue("big", weight=2, created=-9)],
            "nodes": [node(cpu=9, pods=99)],
        },
    ),
    (
        "whoever has waited too long first",
        ["a", "b"],
        {"groups": [group("b", created=-9), group("a", annotations={"sla-waiting-time": "5s"}, created=-8)]},
    ),
)
def test_the_order_in_which_they_are_asked(first: list[str], given: dict[str, Any]) -> None:
    classes = [priority(name, value) for name, value in given.pop("priorities", ())]
    assert names(outcome(**{"nodes": [node(cpu=99, pods=99)], **given}, priorities=classes)) == first


def test_a_smaller_one_may_overtake_unless_its_queue_is_served_in_order() -> None:
    known = [group("large", least=5, created=-9), group("small", least=1, created=-8)]
    machine = [node(cpu=8, pods=9)]
    busy = [pod("web", None, cpu="4", node="one", phase="Running")]
    assert names(outcome(groups=known, nodes=machine, pods=busy)) == ["small"]
    found = outcome(groups=known, nodes=machine, pods=busy, queues=[queue(dequeueStrategy="fifo")])
    assert reasons(found) == {"large": "NotEnoughResources", "small": "Behind"}
    assert words(found)["small"] == "queue default is served in order, and default/large comes first"


@cases(
    ("given up", "WaitingLimitExceeded", {"annotations": {"penstock.dev/waiting-limit": "5s"}}),
    ("nobody can read it", "InvalidSpec", {"asks": {"cpu": "much"}}),
)
def test_a_group_that_never_starts_is_not_reported_as_behind(reason: str, asked: dict[str, Any]) -> None:
    known = [group("large", least=5, created=-9), group("late", least=1, created=-8, **asked)]
    busy = [pod("web", None, cpu="4", node="one", phase="Running")]
    found = outcome(groups=known, nodes=[node(cpu=8, pods=9)], pods=busy, queues=[queue(dequeueStrategy="fifo")])
    assert reasons(found) == {"large": "NotEnoughResources", "late": reason}


def test_a_queue_is_guaranteed_no_more_than_it_may_have() -> None:
    odd = queue("odd", capability={"cpu": "1"}, guarantee={"resource": {"cpu": "6"}})
    assert names(outcome(groups=[group(least=7)], nodes=[node()], queues=[queue(), odd])) == ["gang"]
    found = outcome(groups=[group(least=8)], nodes=[node()], queues=[queue(), odd])
    assert "besides the 1 that other queues are guaranteed" in words(found)["gang"]


def test_no_group_waits_behind_one_that_can_never_start() -> None:
    known = [group("large", least=9, created=-9), group("small", least=1, created=-8)]
    assert names(outcome(groups=known, nodes=[node()], queues=[queue(dequeueStrategy="fifo")])) == ["small"]


def test_the_room_of_a_late_group_is_reserved() -> None:
    late = {"sla-waiting-time": "5s"}
    known = [group("large", least=5, created=-9, annotations=late), group("small", least=4, created=-99)]
    busy = [pod("web", None, cpu="4", node="one", phase="Running")]
    assert names(outcome(groups=known, nodes=[node()], pods=busy)) == []
    # What it does not need is for everybody.
    known.append(group("tiny", least=1, asks={"memory": "1"}))
    assert names(outcome(groups=known, nodes=[node(cpu=8, pods=9, memory="1Gi")], pods=busy)) == ["tiny"]


LATE = {"created": -600}


@cases(
    ("it may be overtaken at first", ["small"], {}, {}),
    ("not for ever", [], LATE, {}),
    ("a second before that", ["small"], {"created": -599}, {}),
    ("whoever is more important still goes first", ["small"], LATE, {"priorityClassName": "high"}),
    ("one that can never start is nobody's obstacle", ["small"], {**LATE, "least": 99}, {}),
    ("nor one that waits for its own queue", ["small"], {**LATE, "queue": "tight"}, {}),
)
def test_a_gang_is_overtaken_only_for_so_long(
    admitted: list[str], waits: dict[str, Any], others: dict[str, Any]
) -> None:
    known = [group("large", **{"least": 5, "created": -60, **waits}), group("small", least=2, created=-50, **others)]
    busy = [pod("web", None, cpu="4", node="one", phase="Running"), pod("old-0", "old", node="one", phase="Running")]
    queues = [queue(), queue("tight", capability={"cpu": "5"}, created=-9999)]
    found = outcome(
        groups=[*known, group("old", least=1, phase="Running", queue="tight")],
        queues=queues,
        nodes=[node(cpu=9, pods=99)] if "queue" not in waits else [node(cpu=12, pods=99)],
        pods=busy,
        priorities=[priority("high", 1)],
    )
    assert names(found) == admitted


def test_the_nodes_of_a_late_group_with_scattered_room_are_reserved() -> None:
    large = group("large", least=1, asks={"cpu": "4", "pods": "1"}, created=-600)
    busy = [pod(f"web-{name}", None, node=name, phase="Running") for name in "ab"]
    machines = [node("a", cpu=4, pods=9), node("b", cpu=4, pods=9)]
    found = outcome(groups=[large, group("small", least=1)], nodes=machines, pods=busy)
    assert reasons(found) == {"large": "NotEnoughResources", "small": "NotEnoughResources"}
    assert words(found)["small"].endswith("but nodes that it may go to are kept for one that has waited for longer")
    # Nor where there is room elsewhere: a scheduler may put it anywhere.
    assert (
        names(outcome(groups=[large, group("small", least=1)], nodes=[*machines, node("c", cpu=2, pods=9)], pods=busy))
        == []
    )


@cases(
    ("enough", None, {"cpu": "3"}, {}),
    ("a part is used", "QuotaExceeded", {"cpu": "3"}, {"cpu": "1"}),
    ("by the quota's own name", "QuotaExceeded", {"requests.cpu": "2"}, {}),
    ("the number of pods", "QuotaExceeded", {"count/pods": "2"}, {}),
    ("of what the gang does not ask for", None, {"memory": "1"}, {}),
)
def test_quotas(reason: str | None, limits: dict[str, str], used: dict[str, str]) -> None:
    asks = {"cpu": "3", "requests.cpu": "3", "pods": "3", "count/pods": "3"}
    found = outcome(groups=[group(asks=asks)], quotas=[quota(used=used, **limits)], nodes=[node()])
    assert reasons(found) == ({"gang": reason} if reason else {})


@cases(
    ("a quota's name, of a plain quota", {"requests.memory": "3"}, {"memory": "2"}, "quota limits allows 2 of memory"),
    ("a plain name, of a quota's", {"memory": "3"}, {"requests.memory": "2"}, "quota limits allows 2 of requests.m"),
    ("the number of pods", {"pods": "3"}, {"count/pods": "2"}, "quota limits allows 2 of count/pods"),
    ("a quota's name, of the nodes", {"requests.memory": "200Gi"}, {}, "the cluster has 100Gi of 100Gi memory left"),
)
def test_an_amount_counts_under_either_of_its_names(asks: dict[str, str], limits: dict[str, str], told: str) -> None:
    quotas = [quota(used={}, **limits)] if limits else []
    found = outcome(groups=[group(asks=asks)], quotas=quotas, nodes=[node(memory="100Gi")])
    assert words(found)["gang"].startswith(told)


def test_a_quota_counts_pods_that_are_about_to_be_made_once() -> None:
    asks = {"cpu": "3", "pods": "3"}
    known = [group("old", phase="Inqueue", asks=asks), group(asks=asks)]
    made = [pod("old-0", "old")]
    limits = [quota(used={"cpu": "1"}, cpu="6")]
    assert names(outcome(groups=known, pods=made, quotas=limits, nodes=[node()])) == ["gang"]
    more = [group("third", asks=asks, created=-1)]
    found = outcome(groups=known + more, pods=made, quotas=limits, nodes=[node(cpu=20, pods=99)])
    assert words(found) == {"third": "quota limits allows 6 of cpu: 6 are used, 3 more are needed"}


@cases(
    ("nobody has counted yet", {}, 1, "1"),
    ("nobody has counted this yet", {"used": {"cpu": "1"}}, 2, "2"),
    ("nobody can read it", {"used": {"pods": "many"}}, 2, "2"),
    ("counted", {"used": {"pods": "4"}}, 2, "4"),
    ("nobody has counted, and nothing is there", {}, 0, None),
)
def test_what_is_used_of_a_quota_is_counted_where_its_status_does_not_say(
    status: Object, others: int, there: str | None
) -> None:
    limits = [{**quota(pods="3"), "status": status}]
    made = [pod(f"other-{index}", None) for index in range(others)]
    made += [pod("done", None, phase="Succeeded"), pod("far", None, namespace="far")]
    found = outcome(groups=[group(asks={"cpu": "3", "pods": "3"})], pods=made, quotas=limits, nodes=[node()])
    told = f"quota limits allows 3 of pods: {there} are used, 3 more are needed"
    assert words(found) == ({"gang": told} if there else {})


@pytest.mark.parametrize(
    "scopes",
    [
        {"scopes": ["BestEffort"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
    ],
    ids=lambda scopes: next(iter(scopes)),
)
def test_a_quota_for_some_pods_only_is_the_api_servers(scopes: Object) -> None:
    some = [quota(cpu="1", spec=scopes)]
    assert names(outcome(groups=[group()], quotas=some, nodes=[node()])) == ["gang"]


@cases(("one pod more", 2, None), ("none", 1, "QuotaExceeded"))
def test_a_gang_that_lost_a_pod_needs_nothing_of_a_quota_for_pods_that_ended(hard: int, reason: str | None) -> None:
    pods = [pod("gang-0", phase="Succeeded", node="one"), pod("gang-1", phase="Running", node="one")]
    whole = group(status={"conditions": [condition("Scheduled")]})
    found = outcome(groups=[whole], pods=pods, quotas=[quota(pods=hard, used={"pods": 1})], nodes=[node()])
    assert reasons(found) == ({"gang": reason} if reason else {})


def test_a_quota_of_another_namespace_says_nothing() -> None:
    assert names(outcome(groups=[group(namespace="other")], quotas=[quota(cpu="1")], nodes=[node()])) == ["gang"]


def test_most_groups_of_a_queue_at_once_also_of_those_below() -> None:
    known = [
        group("a", phase="Running"),
        group("b", phase="Completed"),
        group("c", queue="child", created=-9),
        group("d", queue="child", created=-8),
    ]
    queues = [queue(), queue("above", maxRunningJobs=1), queue("child", parent="above")]
    found = outcome(groups=known, queues=queues)
    assert names(found) == ["c"]
    assert words(found) == {"d": "queue above runs 1 groups, and may run 1 at once"}


@cases(
    ("it lost a pod and has no room for another", True, 1, {"old": "NotEnoughResources", "gang": "TooManyRunning"}),
    ("it is whole again at once", True, 2, {"gang": "TooManyRunning"}),
    ("it never was whole: its pods are a user's", False, 1, {"old": "NotEnoughResources"}),
)
def test_a_gang_that_lost_pods_is_one_of_those_that_run(whole: bool, free: int, expected: dict[str, str]) -> None:
    known = [
        group("old", least=2, asks={"cpu": 3}, status={"conditions": [condition("Scheduled")]} if whole else None),
        group(least=1, asks={"cpu": 1}, created=-5),
    ]
    pods = [pod("old-0", "old", node="one", phase="Running", cpu="1")]
    found = outcome(groups=known, pods=pods, queues=[queue(maxRunningJobs=1)], nodes=[node(cpu=1 + free, pods=9)])
    assert reasons(found) == expected


def test_a_gang_that_lost_pods_needs_no_other_to_end_before() -> None:
    """The limit was lower once: two that run would wait for each other."""
    whole = {"conditions": [condition("Scheduled")]}
    known = [group("one", least=2, status=whole), group("two", least=2, status=whole)]
    pods = [pod(f"{name}-0", name, node="one", phase="Running") for name in ("one", "two")]
    assert names(outcome(groups=known, pods=pods, queues=[queue(maxRunningJobs=1)])) == ["one", "two"]


@cases(
    (
        "it was not placed, and tries again later",
        "BackingOff",
        {"status": {"backOff": {"count": 1, "since": at(-5), "until": at(5)}}},
    ),
    ("later has come", None, {"status": {"backOff": {"count": 1, "since": at(-9), "until": at(0)}}}),
    ("it waited long enough", "WaitingLimitExceeded", {"annotations": {"penstock.dev/waiting-limit": "60s"}}),
    ("it may wait a second more", None, {"annotations": {"penstock.dev/waiting-limit": "61s"}}),
    (
        "it has been whole before",
        None,
        {"annotations": {"penstock.dev/waiting-limit": "1s"}, "status": {"conditions": [condition("Scheduled")]}},
    ),
    ("no duration", "InvalidSpec", {"annotations": {"penstock.dev/waiting-limit": "soon"}}),
    ("no quantity", "InvalidSpec", {"asks": {"cpu": "much"}}),
    ("less than nothing", "InvalidSpec", {"asks": {"pods": "1", "cpu": "-1"}}),
    ("more pods than any gang has", "InvalidSpec", {"least": 150_001, "asks": {"cpu": "1"}}),
    ("no duration of Volcano's", "InvalidSpec", {"annotations": {"sla-waiting-time": "1 day"}}),
    ("overdue before it exists", "InvalidSpec", {"annotations": {"sla-waiting-time": "-5m"}}),
    ("given up before it exists", "InvalidSpec", {"annotations": {"penstock.dev/waiting-limit": "-1h"}}),
    ("backs out before its admission", "InvalidSpec", {"annotations": {"penstock.dev/gang-timeout": "-1ns"}}),
    ("no time at all", None, {"annotations": {"penstock.dev/gang-timeout": "-0s"}}),
)
def test_groups_that_are_not_asked(reason: str | None, given: dict[str, Any]) -> None:
    found = outcome(groups=[group(**given)], nodes=[node()])
    assert reasons(found) == ({"gang": reason} if reason else {})


def test_a_group_that_is_going_is_not_let_through() -> None:
    going = group()
    going["metadata"]["deletionTimestamp"] = at(0)
    found = outcome(groups=[going], nodes=[node()])
    assert (names(found), reasons(found)) == ([], {})


@cases(
    (
        "never",
        "the cluster has 8 of 8 cpu left, the gang needs 9: it can never start as things are",
        {"groups": [group(least=9)]},
    ),
    (
        "what no node has",
        "the cluster has 0 of 0 nvidia.com/gpu left, the gang needs 1: it can never start as things are",
        {"groups": [group(asks={"nvidia.com/gpu": "1"})]},
    ),
    (
        "what others are guaranteed",
        "the cluster has 2 of 8 cpu left besides the 6 that other queues are guaranteed, the gang needs 3:"
        " it can never start as things are",
        {"queues": [queue(), queue("other", guarantee={"resource": {"cpu": "6"}})]},
    ),
    (
        "in pieces",
        "there is room for the gang on all nodes together, but not for each of its 2 pods on one that takes it,"
        " even were they empty: it can never start as things are",
        {
            "groups": [group(least=2, asks={"cpu": "6", "pods": "2"})],
            "nodes": [node("a", cpu=4, pods=9), node("b", cpu=2, pods=9)],
        },
    ),
    (
        "in thousandths",
        "queue default has 1500m of 2500m cpu left, the gang needs 2",
        {
            "groups": [group("old", phase="Inqueue", asks={"cpu": "1"}), group(asks={"cpu": "2", "memory": "2Gi"})],
            "queues": [queue(capability={"cpu": "2500m"})],
        },
    ),
    (
        "in bytes",
        "queue default has 512Mi of 1Gi memory left, the gang needs 1Gi",
        {
            "groups": [group("old", phase="Inqueue", asks={"memory": "512Mi"}), group(asks={"memory": "1024Mi"})],
            "queues": [queue(capability={"memory": "1Gi"})],
        },
    ),
    ("no queue", "there is no queue default", {"queues": []}),
    (
        "less than no time",
        "metadata.annotations[penstock.dev/gang-timeout]: must not be below 0, -5m",
        {"groups": [group(annotations={"penstock.dev/gang-timeout": "-5m"})]},
    ),
)
def test_the_reason_has_numbers(text: str, given: dict[str, Any]) -> None:
    found = outcome(**{"groups": [group()], "nodes": [node(memory="8Gi", cpu=8, pods=9)], **given})
    assert words(found) == {"gang": text}


def test_a_resource_that_no_node_measures_is_no_obstacle() -> None:
    asks = {"cpu": "1", "ephemeral-storage": "5Gi"}
    assert names(outcome(groups=[group(asks=asks)], nodes=[node()])) == ["gang"]


# What a round writes.


def _staged(plan: Any) -> list[Patch]:
    staged = [step for stage in plan.steps if isinstance(stage, Together) for step in stage.steps]
    return [step for step in staged if isinstance(step, Patch)]


def _patches(plan: Any) -> dict[str, Object]:
    return {step.ref.name: step.body["status"] for step in _staged(plan)}


def test_an_admitted_group_is_inqueue_and_knows_since_when() -> None:
    plan = rounds.admit(everything(groups=[group()], nodes=[node()]), NOW)
    what = {"minMember": 3, "minResources": {"cpu": "3", "pods": "3"}}
    assert _patches(plan) == {"gang": {"phase": "Inqueue", "admitted": at(0), "admittedFor": what}}
    assert plan.steps[-1] == ComeBack(NOW + timedelta(seconds=1)), "the API server may refuse the patch"


def test_a_refusal_is_written_once_and_the_round_comes_back() -> None:
    waiting = group(least=9)
    plan = rounds.admit(everything(groups=[waiting], nodes=[node()]), NOW)
    status = _patches(plan)["gang"]
    (told,) = status["conditions"]
    assert (told["type"], told["status"], told["reason"]) == ("Unschedulable", "True", "NeverFits")
    event = _staged(plan)[0].then
    assert event is not None, "it is recorded with the patch: a refused one would be repeated every second"
    assert (event.type, event.reason) == ("Warning", "Unschedulable")
    assert event.about is not None
    assert event.about[1] is waiting
    assert not [step for step in plan.steps if isinstance(step, RecordEvent)]
    assert plan.steps[-1] == ComeBack(NOW + timedelta(seconds=1))
    again = {**waiting, "status": status}
    later = rounds.admit(everything(groups=[again], nodes=[node()]), NOW + timedelta(hours=1))
    assert _patches(later) == {}
    assert [type(step) for step in later.steps] == [ComeBack]


def test_new_numbers_are_written_at_an_interval_and_without_an_event() -> None:
    waiting = group()
    status = _patches(rounds.admit(everything(groups=[waiting], nodes=[node(cpu=1, pods=9)]), NOW))["gang"]
    waiting = {**waiting, "status": status}
    cluster = everything(groups=[waiting], nodes=[node(cpu=2, pods=9)])
    assert _patches(rounds.admit(cluster, NOW + timedelta(seconds=9))) == {}
    later = rounds.admit(cluster, NOW + timedelta(seconds=10))
    assert "2 of 2 cpu" in _patches(later)["gang"]["conditions"][0]["message"]
    assert [patch.then for patch in _staged(later)] == [None]


def test_a_group_that_waited_says_so_no_more_once_it_is_admitted() -> None:
    told = condition("Unschedulable", reason="NotEnoughResources", message="…")
    plan = rounds.admit(everything(groups=[group(status={"conditions": [told]})], nodes=[node()]), NOW)
    (found,) = _patches(plan)["gang"]["conditions"]
    assert (found["type"], found["status"]) == ("Unschedulable", "False")


def test_a_round_writes_a_limited_number_of_reasons() -> None:
    crowd = [group(f"g{index:03}", least=9, created=-index) for index in range(150)]
    plan = rounds.admit(everything(groups=crowd, nodes=[node()]), NOW)
    assert len(_patches(plan)) == 100
    assert isinstance(plan.steps[-1], ComeBack)


def test_nonsense_in_one_object_is_no_obstacle_for_others() -> None:
    odd = group("odd", asks={"cpu": "99"}, created=-99)
    odd["status"] = {
        "phase": "Pending",
        "admitted": "noon",
        "allocated": {"cpu": "some"},
        "backOff": {"count": 1, "since": "once", "until": "later"},
        "conditions": [condition("Unschedulable", reason="NeverFits") | {"lastTransitionTime": "then"}],
    }
    nodes = [node(), node("odd", cpu="plenty")]
    plan = rounds.admit(everything(groups=[odd, group()], nodes=nodes, quotas=[quota(cpu="none")]), NOW)
    assert {name: status["phase"] for name, status in _patches(plan).items()} == {"odd": "Pending", "gang": "Inqueue"}


def test_nothing_waits_nothing_is_done() -> None:
    assert rounds.admit(everything(groups=[group(phase="Running")], nodes=[node()]), NOW).steps == ()


def test_a_round_over_many_is_followed_by_a_rest() -> None:
    few, many = (
        rounds.admit(everything(groups=[group(f"g{index}", phase="Running") for index in range(size)]), NOW)
        for size in (50, 2000)
    )
    assert few.steps == ()
    assert many.steps == (HoldKey(pytest.approx(0.2, rel=0.01)),)
