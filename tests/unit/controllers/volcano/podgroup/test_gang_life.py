"""Round after round over random queues, nodes and gangs while pods start and end: what never happens, what must."""

import random
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.podgroup.gang_cluster import GangCluster
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node, queue
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.places import part

# Seconds of CPU are minutes on a busy machine. A limit that ends an example makes Hypothesis report inconsistent data.
pytestmark = pytest.mark.timeout(900)

ONE = 10**9
#: A gang's pods work for less than so many seconds on average; then so many seconds are enough for any dozen of gangs.
BOUND = 1500


@st.composite
def trees(draw: st.DrawFn) -> list[Object]:
    """Two queues below one and one beside it, with bounds and guarantees that a cluster of ten cpus can keep."""
    above = draw(st.integers(3, 10))
    bounds = st.none() | st.integers(1, above)

    def one(name: str, parent: str, cpus: int | None, sure: int = 0, created: int = 0) -> Object:
        return queue(
            name,
            parent=parent,
            created=created,
            weight=draw(st.integers(1, 3)),
            priority=draw(st.sampled_from([0, 0, 0, 1])),
            **({"capability": {"cpu": str(cpus)}} if cpus else {}),
            **({"guarantee": {"resource": {"cpu": str(sure)}}} if sure else {}),
        )

    return [
        one("above", "root", above, created=-4),
        one("left", "above", draw(bounds), created=-3),
        one("right", "above", draw(bounds), created=-2),
        one("beside", "root", draw(st.none() | st.integers(1, 10)), draw(st.integers(0, 2)), created=-1),
    ]


def _fits_alone(queues: list[Object], cpus: dict[str, int], name: str, spec: Object) -> bool:
    nodes = [node(each, cpu=cpu, pods=50, labels={"name": each}) for each, cpu in cpus.items()]
    placement = {"minTaskMember": {"work": spec["minMember"]}, "minTaskPlacement": {"work": part(spec["where"])}}
    alone = group(name, least=spec["minMember"], asks=spec["minResources"], queue=spec["queue"], **placement)
    return bool(rounds.run(rounds.observe(everything(queues=queues, nodes=nodes, groups=[alone])), NOW).admitted)


def _holding(cluster: GangCluster, name: str) -> list[Member]:
    return [each for each in cluster.members(name) if each.occupies]


def _check(cluster: GangCluster, whole: set[str]) -> None:
    for name, body in cluster.nodes.items():
        assert cluster.used(name) <= vectors.read(body["status"]["allocatable"])["cpu"]
    used: Counter[str] = Counter()
    parents = {each["metadata"]["name"]: each["spec"].get("parent") for each in cluster.queues}
    for name, body in cluster.groups.items():
        at: str | None = body["spec"]["queue"]
        while at in parents:
            used[at] += sum(each.requests["cpu"] for each in _holding(cluster, name))
            at = parents[at]
        phase = body["status"]["phase"]
        if phase in ("Running", "Completed"):
            whole.add(name)
        # A pod beyond its gang has a place only once the whole gang has had one.
        if name not in whole:
            assert len(_holding(cluster, name)) <= body["spec"]["minMember"]
        if phase == "Pending" and name not in whole and not body["status"].get("backOff"):
            assert not _holding(cluster, name)
    for each in cluster.queues:
        limit = (each["spec"].get("capability") or {}).get("cpu")
        assert limit is None or used[each["metadata"]["name"]] <= int(limit) * ONE


@settings(max_examples=12)
@given(trees(), st.integers(0, 2**32), st.sampled_from([0.0, 0.1]))
def test_gangs_start_whole_within_capacity_and_none_starves(queues: list[Object], seed: int, cut: float) -> None:
    chance = random.Random(seed)
    cpus = {"a": 4, "b": 4, "c": 2}
    cluster, whole, able = GangCluster(queues, cpus, seed, cut=cut), set[str](), set[str]()
    for index in range(8):
        name = f"g{index}"
        cluster.arrive(
            name,
            least=chance.randint(1, 4),
            cpu=chance.choice([1, 1, 2, 3]),
            queue=chance.choice(["left", "right", "beside"]),
            late=chance.random() < 0.5,
            more=chance.choice([0, 0, 3]),
            on=chance.choice([None, None, *cpus]),
        )
        if _fits_alone(queues, cpus, name, cluster.groups[name]["spec"]):
            able.add(name)
        _live(cluster, chance, whole, seconds=chance.randint(0, 4))
    for _ in range(BOUND // 20):
        _live(cluster, chance, whole, seconds=20)
        if all(cluster.phases()[name] == "Completed" for name in able):
            break
    assert {name for name, phase in cluster.phases().items() if phase == "Completed"} == able


def _live(cluster: GangCluster, chance: random.Random, whole: set[str], *, seconds: int) -> None:
    for _ in range(seconds):
        cluster.step()
        _check(cluster, whole)
        if chance.random() < 0.1:
            # Seen in another order, it is the same round; and asked again, it says the same.
            assert _said(cluster, mixed=True) == _said(cluster) == _said(cluster)
        for name, phase in cluster.phases().items():
            # Pods beyond their gang outlive it; those of one that is not whole never end by themselves.
            for each in cluster.members(name) if phase in ("Running", "Completed") else ():
                if each.state == "running" and chance.random() < 0.2:
                    cluster.end(each.pod["metadata"]["name"])


#: Of a cluster that shrinks to 8 cpus, 2 are guaranteed to the queue `sure`.
SHRINKING = [
    queue("default", created=-3),
    queue("small", capability={"cpu": "4"}, created=-2),
    queue("sure", guarantee={"resource": {"cpu": "2"}}, weight=2, created=-1),
]


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
# The owner replaces a lost pod, without a gate, before its gang waits again.
@example(424, 0.0)
# Room that is kept for the lost pods of a gang keeps others, and it, from starting.
@example(5531, 0.3)
def test_every_gang_that_can_start_does_and_ends_though_a_node_is_lost(seed: int, cut: float) -> None:
    chance, whole = random.Random(seed), set[str]()
    cluster = GangCluster(SHRINKING, {"a": 4, "b": 4, "c": 3}, seed, cut=cut)
    for index in range(10):
        name, cpu = chance.choice(["default", "small", "sure"]), chance.choice([1, 1, 2])
        most = (4 if name == "small" else 6) // cpu
        cluster.arrive(f"g{index}", least=chance.randint(1, most), cpu=cpu, queue=name, late=chance.random() < 0.5)
        if index == 6:
            cluster.lose("c")
        _live(cluster, chance, whole, seconds=chance.randint(0, 6))
    for _ in range(60):
        _live(cluster, chance, whole, seconds=20)
        if set(cluster.phases().values()) == {"Completed"}:
            break
    assert set(cluster.phases().values()) == {"Completed"}


def _said(cluster: GangCluster, *, mixed: bool = False) -> list[str]:
    return [str(step) for step in cluster.round(mixed=mixed).steps]


@cases(("many small pods", 1), ("one pod as large as a node", 4))
def test_a_large_gang_starts_though_small_ones_never_stop_coming(cpu: int) -> None:
    """Without a bound on overtaking it waits for ever."""
    chance = random.Random(7)
    for overtaking, starts in ((timedelta(seconds=60), True), (timedelta(), False)):
        cluster = GangCluster([queue()], {"a": 4, "b": 4}, overtaking=overtaking)
        started = False
        for index in range(250):
            # There are always some that wait, each of one pod that ends after about ten seconds.
            for each in range(12 - Counter(cluster.phases().values())["Pending"]):
                cluster.arrive(f"small-{index}-{each}", least=1, late=True)
            if index == 10:
                cluster.arrive("large", least=7 if cpu == 1 else 1, cpu=cpu, late=True)
            cluster.step()
            started = started or cluster.phases().get("large") == "Running"
            for name in cluster.running():
                if chance.random() < 0.1:
                    cluster.end(name)
            _forget(cluster)
        assert started == starts


def _forget(cluster: GangCluster) -> None:
    """Completed gangs are of no more interest."""
    for name, phase in cluster.phases().items():
        if phase == "Completed":
            del cluster.groups[name]
            cluster.pods = {each: body for each, body in cluster.pods.items() if not each.startswith(f"{name}-")}
