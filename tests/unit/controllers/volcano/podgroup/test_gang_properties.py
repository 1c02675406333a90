"""Properties of every round, for generated clusters."""

import random
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.podgroup.gang_cluster import GangCluster
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node, pod, queue
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup import deserved_shares, vectors
from workers.controllers.volcano.podgroup.admission_round import ClusterView, RoundOutcome
from workers.controllers.volcano.podgroup.deserved_shares import QueueDemand
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, Group
from workers.controllers.volcano.podgroup.ledger import PlacementLedger

Objects = dict[str, list[Object]]

_PARENTS = {"a": "root", "b": "root", "c": "b", "d": "b"}
_cpus = st.none() | st.integers(1, 12).map(str)


@st.composite
def clusters(draw: st.DrawFn) -> Objects:
    """Up to five nodes, four queues in a tree, and a dozen groups, of which some run whole already."""
    nodes = [
        node(f"n{index}", cpu=cpu, pods=50) for index, cpu in enumerate(draw(st.lists(st.integers(1, 6), max_size=5)))
    ]
    queues = [_queue(draw, name, parent) for name, parent in _PARENTS.items()]
    groups, pods = [], []
    free = {each["metadata"]["name"]: int(each["status"]["allocatable"]["cpu"]) for each in nodes}
    for index in range(draw(st.integers(0, 12))):
        least, name = draw(st.integers(1, 4)), f"g{index:02}"
        place = [each for each, left in free.items() for _ in range(left)][:least]
        runs = draw(st.booleans()) and len(place) == least
        groups.append(
            group(
                name,
                least=least,
                phase="Running" if runs else draw(st.sampled_from(["Pending"] * 4 + ["Inqueue"])),
                queue=draw(st.sampled_from("acd")),
                created=-draw(st.integers(1, 5)),
            )
        )
        if runs:
            pods += [pod(f"{name}-{at}", name, node=each, phase="Running") for at, each in enumerate(place)]
            for each in place:
                free[each] -= 1
    return {"nodes": nodes, "queues": queues, "groups": groups, "pods": pods}


def _queue(draw: st.DrawFn, name: str, parent: str) -> Object:
    capability, guarantee = draw(_cpus), draw(st.none() | st.integers(1, 3).map(str))
    return queue(
        name,
        parent=parent,
        weight=draw(st.integers(1, 3)),
        priority=draw(st.sampled_from([0, 0, 1])),
        **({"capability": {"cpu": capability}} if capability else {}),
        **({"guarantee": {"resource": {"cpu": guarantee}}} if guarantee else {}),
        **({"maxRunningJobs": draw(st.integers(0, 3))} if draw(st.booleans()) else {}),
    )


def _held(cluster: Objects) -> tuple[ClusterView, RoundOutcome]:
    view = rounds.observe(everything(**cluster))
    return view, rounds.run(view, NOW)


def _books(cluster: ClusterView, admitted: tuple[Group, ...] = ()) -> PlacementLedger:
    ledger = PlacementLedger(cluster.tree, cluster.nodes, cluster.groups, DEFAULT_RULES.overcommit)
    for each in admitted:
        ledger.promise(each)
    return ledger


def _cpu(vector: Mapping[str, int]) -> int:
    return vector.get("cpu", 0)


@settings(max_examples=300)
@given(clusters())
def test_queues_never_get_more_than_they_may_have(objects: Objects) -> None:
    cluster, outcome = _held(objects)
    before, after = _books(cluster), _books(cluster, outcome.admitted)
    for name in cluster.tree:
        limit = cluster.tree[name].capability.get("cpu")
        if limit is not None and _cpu(after.use[name]) > _cpu(before.use[name]):
            assert _cpu(after.use[name]) <= limit
        most = cluster.tree[name].limit
        if most is not None and after.running[name] > before.running[name]:
            assert after.running[name] <= most


@settings(max_examples=300)
@given(clusters())
def test_no_more_is_promised_than_there_is_and_guarantees_stay_free(objects: Objects) -> None:
    cluster, outcome = _held(objects)
    if cluster.nodes.total is None or not outcome.admitted:
        return
    total = _cpu(cluster.nodes.total)
    used = sum(_cpu(each.allocated) + _cpu(each.reserve) for each in cluster.groups)
    used += sum(_cpu(each.need) for each in outcome.admitted)
    assert used <= total
    after = _books(cluster, outcome.admitted).use
    last = outcome.admitted[-1].queue
    # Whoever was let through last left to all beside its own queues what they are guaranteed and do not have.
    owed = 0
    chain = cluster.tree.chains[last]
    for child, parent in pairwise(chain):
        for name in cluster.tree.children[parent]:
            if name != child:
                owed += _owed(cluster, after, name)
    assert used + owed <= total


def _owed(cluster: ClusterView, use: Mapping[str, Mapping[str, int]], name: str) -> int:
    own = max(0, _cpu(cluster.tree[name].guarantee) - _cpu(use[name]))
    return max(own, sum(_owed(cluster, use, child) for child in cluster.tree.children[name]))


@settings(max_examples=200)
@given(clusters(), st.integers(0, 2**32))
def test_the_order_in_which_objects_are_seen_says_nothing(cluster: Objects, seed: int) -> None:
    mixed = {name: list(objects) for name, objects in cluster.items()}
    for objects in mixed.values():
        random.Random(seed).shuffle(objects)
    (_, first), (_, second) = _held(cluster), _held(mixed)
    assert [each.ref for each in first.admitted] == [each.ref for each in second.admitted]
    assert [(each.ref, why) for each, why in first.waiting] == [(each.ref, why) for each, why in second.waiting]


@settings(max_examples=300)
@given(clusters())
def test_no_group_is_overtaken_by_its_like(cluster: Objects) -> None:
    _, outcome = _held(cluster)
    for waiting, _ in outcome.waiting:
        for admitted in outcome.admitted:
            if (admitted.queue, admitted.least) == (waiting.queue, waiting.least):
                assert admitted.age < waiting.age


@settings(max_examples=300)
@given(clusters())
def test_every_group_is_checked_once_and_no_waiting_group_could_start(cluster: Objects) -> None:
    view, outcome = _held(cluster)
    asked = [each.ref for each in outcome.admitted] + [each.ref for each, _ in outcome.waiting]
    assert sorted(map(str, asked)) == sorted(str(each.ref) for each in view.groups if each.phase == "Pending")
    if not cluster["groups"]:
        return
    done = {each.ref.name for each in outcome.admitted}
    admitted = {"phase": "Inqueue"}
    after = [{**body, "status": admitted} if body["metadata"]["name"] in done else body for body in cluster["groups"]]
    assert _held({**cluster, "groups": after})[1].admitted == ()


_claims = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(QueueDemand, weight=st.integers(1, 9), least=st.integers(0, 20), most=st.integers(0, 90)),
    max_size=6,
)


@settings(max_examples=500)
@given(st.integers(0, 200), _claims)
def test_shares_fill_like_water(whole: int, claims: dict[str, QueueDemand]) -> None:
    found = deserved_shares.filled(whole, claims)
    for name, each in claims.items():
        assert each.least <= found[name] <= max(each.most, each.least)
    least = sum(each.least for each in claims.values())
    assert sum(found.values()) <= max(whole, least)
    for name, each in claims.items():
        if found[name] >= max(each.most, each.least):
            continue
        # Whoever could do with more has no less for its weight than anybody above its own guarantee.
        for other, claim in claims.items():
            if found[other] > claim.least:
                assert Fraction(found[other], claim.weight) <= Fraction(found[name] + 1, each.weight)
        # And nothing is left over while it could; but for what fractions lose.
        if whole >= least:
            assert sum(found.values()) > whole - len(claims)


_vectors = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 50))


@given(_vectors, _vectors)
def test_vectors(first: dict[str, int], second: dict[str, int]) -> None:
    left = vectors.minus(first, second)
    assert vectors.fits(first, vectors.total((left, second)))
    assert vectors.fits(left, first)
    assert vectors.fits(first, vectors.most(first, second))
    assert vectors.fits(second, vectors.most(first, second))


@cases(("held back", False), ("made late", True))
def test_two_gangs_that_fit_one_at_a_time_never_share_the_cluster(late: bool) -> None:
    cluster = GangCluster([queue()], {"a": 4})
    for name in ("first", "second"):
        cluster.arrive(name, least=3, late=late)
    for _ in range(5):
        cluster.step()
    assert cluster.running() == ["first-0", "first-1", "first-2"]
    assert cluster.phases() == {"first": "Running", "second": "Pending"}
    for name in cluster.running():
        cluster.end(name)
    for _ in range(3):
        cluster.step()
    assert cluster.running() == ["second-0", "second-1", "second-2"]


def test_half_a_gang_gives_its_places_to_another() -> None:
    cluster = GangCluster([queue()], {"a": 3, "b": 1})
    cluster.arrive("wide", least=2, cpu=2, late=True)
    # One pod of two cpus fits, the other does not; the round would see it, so somebody else let the gang through.
    cluster.groups["wide"]["status"] = {"phase": "Inqueue"}
    cluster.step()
    cluster.arrive("narrow", least=4, late=True)
    for _ in range(30):
        cluster.step()
    assert cluster.running() == ["wide-0"] or cluster.running() == ["wide-1"]
    for _ in range(60):
        cluster.step()
    assert cluster.back_outs == 1
    assert cluster.running() == [f"narrow-{index}" for index in range(4)]
    assert cluster.phases()["wide"] == "Pending"
