"""All that is decided on gangs, in rounds of admission and one by one, word for word."""

from datetime import timedelta
from fractions import Fraction

import pytest

from tests.unit.controllers.factories import NOW, at
from tests.unit.controllers.plans import staged
from tests.unit.controllers.transcripts import PlanTranscript
from tests.unit.controllers.volcano.podgroup.gang_cluster import PATIENCE, GangCluster
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node, pod, priority, queue, quota, seen
from tests.unit.controllers.volcano.podgroup.test_gang_reclaim import running
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup.decide import GangDecision
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.decision.plan import Patch

CAPABILITY = {"cpu": "3500m", "memory": "1Gi"}
NOWHERE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}


def test_gangs_of_a_few_queues(transcript: PlanTranscript) -> None:
    queues = [
        queue("small", capability={"cpu": "2"}),
        queue("sure", guarantee={"resource": {"cpu": "2"}}, priority=5),
        queue("closed", state="Closed"),
        queue(),
    ]
    cluster = GangCluster(queues, {"one": 4, "two": 4})
    cluster.decide, cluster.admit = transcript.of(cluster.decide), transcript.of(cluster.admit)

    def then(line: str, seconds: int = 2) -> None:
        transcript.note(line)
        for _ in range(seconds):
            cluster.step()

    cluster.arrive("first", least=2, late=True)
    cluster.arrive("wide", least=3, queue="small", late=True)
    cluster.arrive("tall", least=1, cpu=9, late=False)
    cluster.arrive("shut", least=1, queue="closed", late=False)
    cluster.arrive("lost", least=1, queue="nowhere", late=False)
    then("one fits, others never will")
    cluster.arrive("large", least=4, late=False)
    cluster.arrive("behind", least=4, late=True)
    cluster.arrive("urgent", least=2, queue="sure", late=True, more=1)
    cluster.arrive("bound", least=1, on="gone", late=False)
    then("three more wait for room", 3)
    for name in cluster.running():
        cluster.end(name)
    then("what ran ends", 3)
    cluster.lose("one")
    then("a node is lost", 2)
    cluster.now += PATIENCE
    then("a minute later", 3)
    assert transcript.text == transcript.expected("gangs")


def test_a_round_over_every_obstacle(transcript: PlanTranscript) -> None:
    """Of each reason why a gang waits there is one, in a tree of queues."""
    queues = [
        queue(),
        queue("few", maxRunningJobs=1),
        queue("above", capability={"cpu": "20"}, created=-8000),
        queue("left", parent="above", weight=3, deserved={"cpu": "6"}),
        queue(
            "right", parent="above", guarantee={"resource": {"cpu": "4"}}, capability={"cpu": "3500m", "memory": "1Gi"}
        ),
        queue("shut", state="Closing"),
        queue("slow", dequeueStrategy="fifo"),
        queue("sure", guarantee={"resource": {"cpu": "2"}}, priority=9),
    ]
    whole = {"type": "Scheduled", "status": "True", "reason": "r", "message": ""}
    told = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NeverFits",
        "message": "…",
        "lastTransitionTime": at(-30),
    }
    groups = [
        group("runs", least=2, phase="Running", queue="left", status={"allocated": {"cpu": "2", "pods": "2"}}),
        group("begins", least=2, phase="Inqueue", queue="right", status={"admitted": at(-5)}),
        group("done", phase="Completed"),
        group("fits", least=1),
        group("never", least=99),
        group("large", least=2, asks={"cpu": "14", "pods": "2"}),
        group("memory", asks={"cpu": "1", "memory": "2Gi"}, queue="right"),
        group("cpu", least=3, queue="right"),
        group("third", queue="left", least=1),
        group("only", least=1, queue="few", phase="Running"),
        group("more", least=1, queue="few"),
        group("closed", queue="shut"),
        group("lost", queue="nowhere"),
        group("first", least=50, queue="slow", created=-99),
        group("second", least=1, queue="slow"),
        group("backs", status={"backOff": {"count": 2, "since": at(-9), "until": at(9)}}),
        group("once", status={"backOff": {"count": 1, "since": at(-9), "until": at(9)}}),
        group("nothing", least=1, asks={"cpu": "0", "pods": "1"}),
        group("grown", least=1, status={"admittedFor": {"minMember": 1, "minResources": {"example.com/old": "1"}}}),
        group("silent", queue="nowhere", status={"conditions": [{key: told[key] for key in told if key != "message"}]}),
        group("limit", annotations={"penstock.dev/waiting-limit": "30s"}),
        group("again", annotations={"penstock.dev/waiting-limit": "30s"}, status={"conditions": [whole]}, least=1),
        group("wrong", asks={"cpu": "much"}),
        group("quota", namespace="default", asks={"requests.memory": "9Gi", "cpu": "1"}),
        group("known", least=88, status={"conditions": [told]}),
        group("urgent", least=2, priorityClassName="high", created=-10, queue="sure"),
        group("placed", least=1, minTaskMember={"w": 1}, minTaskPlacement={"w": {"nodeSelector": {"zone": "far"}}}),
        group("tainted", least=1, minTaskMember={"w": 1}, minTaskPlacement={"w": {"nodeSelector": {"zone": "odd"}}}),
    ]
    pods = [
        *(pod(f"runs-{n}", "runs", node="one", phase="Running") for n in range(2)),
        pod("begins-0", "begins", node="two", phase="Running"),
        pod("begins-1", "begins"),
        pod("web", None, cpu="3", node="one", phase="Running"),
        pod("old", None, cpu="9", node="one", phase="Succeeded"),
    ]
    nodes = [
        node("one", cpu=8, pods=20, memory="4Gi"),
        node("two", cpu=8, pods=20, memory="4Gi", labels={"zone": "near"}),
        node("odd", cpu=8, pods=20, labels={"zone": "odd"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        node("away", ready="Unknown"),
        node("shut", spec={"unschedulable": True}),
    ]
    admit = transcript.of(rounds.admit)
    quotas = [quota(memory="8Gi", used={"memory": "1Gi"})]
    given = {"queues": queues, "pods": pods, "nodes": nodes, "quotas": quotas, "priorities": [priority("high", 7)]}
    admit(everything(groups=groups, **given), NOW, DEFAULT_RULES)
    transcript.note("twice as much may be promised")
    admit(everything(groups=groups, **given), NOW, GangRules(overcommit=Fraction(2)))
    transcript.note("without nodes")
    admit(everything(groups=groups, **(given | {"nodes": []})), NOW)
    assert transcript.text == transcript.expected("obstacles")


def test_a_gang_that_makes_room_for_another_queue(transcript: PlanTranscript) -> None:
    rules = GangRules(reclaim=True)
    (old, old_pods), (young, young_pods) = running("old", created=-90), running("young", created=-50)
    waiting = group("waiting", queue="owed")
    given = {"queues": [queue("lent"), queue("owed")], "nodes": [node(cpu=6, pods=99)]}
    admit, decide = transcript.of(rounds.admit), transcript.of(GangDecision(rules).decide)
    plan = admit(everything(groups=[old, young, waiting], pods=[*old_pods, *young_pods], **given), NOW, rules)
    [patch] = [each for each in staged(plan, Patch) if each.ref.name == "young"]
    given_up = {**young, "status": {**young["status"], **patch.body["status"]}}
    decide(seen(given_up, *young_pods), NOW)
    transcript.note("its pods are gone")
    later = NOW + timedelta(seconds=60)
    decide(seen(given_up), later)
    admit(everything(groups=[old, given_up, waiting], pods=old_pods, **given), later, rules)
    assert transcript.text == transcript.expected("reclaim")


@pytest.mark.parametrize("phase", ["Pending", "Inqueue", "Running", "Unknown", "Completed"])
def test_what_a_group_says_of_its_pods(phase: str, transcript: PlanTranscript) -> None:
    decide = transcript.of(GangDecision(GangRules(patience=PATIENCE, topology=("rack",))).decide)
    two = [pod(f"p{n}", node="one", phase="Running") for n in range(2)]
    states: dict[str, list[Object]] = {
        "none": [],
        "all wait": [pod(f"p{n}", created=-200) for n in range(3)],
        "one runs": [pod("p0", node="one", phase="Running"), pod("p1"), pod("p2", gated=True)],
        "all run": [pod(f"p{n}", node="one", phase="Running") for n in range(3)],
        "one ended": [*two, pod("p2", phase="Succeeded")],
        "one failed": [*two, pod("p2", phase="Failed")],
        "all ended": [pod(f"p{n}", node="one", phase="Succeeded") for n in range(3)],
        "one goes": [
            *(pod(f"p{n}", node="one", phase="Running") for n in range(2)),
            pod("p2", node="one", leaving=True),
        ],
        "too many": [pod(f"p{n}", node="one", phase="Running", cpu="2") for n in range(3)] + [pod("p3", gated=True)],
        "nowhere": [pod(f"p{n}", conditions=[NOWHERE], created=-200) for n in range(3)],
        "of nobody": [pod(f"p{n}", owned=False, conditions=[NOWHERE], created=-200) for n in range(3)],
    }
    for name, pods in states.items():
        transcript.note(name)
        topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 2}}
        body = group(phase=phase, status={"admitted": at(-100)} if phase != "Pending" else {}, **topology)
        decide(seen(body, *pods), NOW)
        decide(seen({**body, "spec": {**body["spec"], "minMember": 4}}, *pods), NOW + timedelta(seconds=30))
    assert transcript.text == transcript.expected(f"group-{phase}")


def test_a_gang_that_finds_no_nodes_backs_out_again_and_again(transcript: PlanTranscript) -> None:
    cluster = GangCluster([queue()], {"one": 4, "two": 4}, overtaking=timedelta(seconds=20))
    cluster.decide, cluster.admit = transcript.of(cluster.decide), transcript.of(cluster.admit)
    cluster.arrive("gang", least=2, cpu=3, late=False)
    cluster.step()
    transcript.note("nodes are smaller than they said, and nothing fits")
    cluster.nodes = {name: node(name, cpu=2, pods=50) for name in cluster.nodes}
    for _ in range(3):
        cluster.now += PATIENCE
        cluster.step()
    transcript.note("small gangs overtake it, for a while")
    cluster.nodes = {name: node(name, cpu=4, pods=50) for name in cluster.nodes}
    for number in range(4):
        cluster.arrive(f"small-{number}", least=1, late=True)
        cluster.now += timedelta(seconds=9)
        cluster.step()
    assert transcript.text == transcript.expected("back_off")
