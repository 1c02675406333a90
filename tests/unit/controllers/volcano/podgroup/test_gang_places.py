"""The nodes that take a pod: node selectors, required node affinity, taints and tolerations, and the room on each."""

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.volcano.podgroup.gangs import group, names, node, outcome, pod, reasons, words
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import places
from workers.controllers.volcano.podgroup.group import GangRules
from workers.controllers.volcano.podgroup.nodes import Bins
from workers.controllers.volcano.podgroup.places import Machine, PodShape, shape

GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


def affinity(*terms: Object) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def term(key: str, operator: str, *values: str, by: str = "matchExpressions") -> Object:
    return {by: [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def tolerating(**toleration: str) -> Object:
    return {"tolerations": [toleration]}


@cases(
    ("nothing demanded", True, {}),
    ("selector", True, {"nodeSelector": {"zone": "a"}}),
    ("selector, another value", False, {"nodeSelector": {"zone": "b"}}),
    ("selector, one label is missing", False, {"nodeSelector": {"zone": "a", "disk": "ssd"}}),
    ("In", True, affinity(term("zone", "In", "b", "a"))),
    ("In, others", False, affinity(term("zone", "In", "b"))),
    ("In, without the label", False, affinity(term("disk", "In", "ssd"))),
    ("NotIn", False, affinity(term("zone", "NotIn", "a"))),
    ("NotIn, without the label", True, affinity(term("disk", "NotIn", "ssd"))),
    ("Exists", True, affinity(term("zone", "Exists"))),
    ("Exists, without the label", False, affinity(term("disk", "Exists"))),
    ("DoesNotExist", True, affinity(term("disk", "DoesNotExist"))),
    ("DoesNotExist, with the label", False, affinity(term("zone", "DoesNotExist"))),
    ("Gt", True, affinity(term("cores", "Gt", "15"))),
    ("Gt, as many", False, affinity(term("cores", "Gt", "16"))),
    ("Lt", True, affinity(term("cores", "Lt", "17"))),
    ("Lt, as many", False, affinity(term("cores", "Lt", "16"))),
    ("Lt, no number", False, affinity(term("zone", "Lt", "17"))),
    ("an operator that nobody knows", False, affinity(term("zone", "Like", "a"))),
    ("by its name", True, affinity(term("metadata.name", "In", "one", by="matchFields"))),
    ("by another name", False, affinity(term("metadata.name", "In", "two", by="matchFields"))),
    ("one of two terms", True, affinity(term("zone", "In", "b"), term("zone", "In", "a"))),
    (
        "both requirements of one term",
        False,
        affinity({"matchExpressions": [term("zone", op, "a")["matchExpressions"][0] for op in ("In", "NotIn")]}),
    ),
    ("an empty term holds nowhere", False, affinity({})),
    ("no terms hold nowhere", False, affinity()),
    ("both must hold", False, {"nodeSelector": {"zone": "b"}, **affinity(term("zone", "Exists"))}),
    ("nobody can read it", False, {"affinity": {"nodeAffinity": "zone a"}}),
)
def test_labels(allowed: bool, spec: Object) -> None:
    machine = Machine("one", {}, {}, {"zone": "a", "cores": "16"})
    assert places.read(spec).allow(machine) == allowed
    assert places.read(places.part(spec)).allow(machine) == (
        allowed or spec == {"affinity": {"nodeAffinity": "zone a"}}
    )


@cases(
    ("not tolerated", False, GPU, {}),
    ("not tolerated, and driven out", False, {**GPU, "effect": "NoExecute"}, {}),
    ("only if there is no other", True, {**GPU, "effect": "PreferNoSchedule"}, {}),
    ("exactly", True, GPU, tolerating(key="gpu", value="a100", effect="NoSchedule")),
    ("whatever its effect", True, GPU, tolerating(key="gpu", operator="Equal", value="a100")),
    ("whatever its value", True, GPU, tolerating(key="gpu", operator="Exists")),
    ("everything", True, GPU, tolerating(operator="Exists")),
    ("another value", False, GPU, tolerating(key="gpu", value="h100")),
    ("another key", False, GPU, tolerating(key="tpu", operator="Exists")),
    ("another effect", False, GPU, tolerating(key="gpu", operator="Exists", effect="NoExecute")),
    ("no key, and not everything", False, GPU, tolerating(value="a100")),
    ("a taint without a value", True, {"key": "x", "effect": "NoSchedule"}, tolerating(key="x")),
)
def test_taints(allowed: bool, taint: Object, spec: Object) -> None:
    assert places.read(spec).allow(Machine("one", {}, {}, taints=(taint,))) == allowed


ZONE_B = {"nodeSelector": {"zone": "b"}}
TOLERANT = tolerating(key="gpu", operator="Exists")
ZONES = [node("a", cpu=8, pods=9, labels={"zone": "a"}), node("b", cpu=2, pods=9, labels={"zone": "b"})]
TAINTED = [node("a", cpu=2, pods=9), node("gpu", cpu=8, pods=9, spec={"taints": [GPU]})]


@cases(
    ("anywhere", None, ZONES, {}),
    ("the nodes it may go to are too small", "NeverFits", ZONES, ZONE_B),
    ("two are large enough", None, [*ZONES, node("c", cpu=1, pods=9, labels={"zone": "b"})], ZONE_B),
    ("no node is there", "NeverFits", ZONES[:1], ZONE_B),
    ("a taint keeps it out", "NeverFits", TAINTED, {}),
    ("it tolerates the taint", None, TAINTED, TOLERANT),
    ("cordoned", "NeverFits", [*TAINTED[:1], node("gpu", cpu=8, pods=9, spec={"unschedulable": True})], {}),
)
@cases(("held back", True), ("not made yet", False))
def test_a_gang_starts_where_its_pods_may_go(
    made: bool, reason: str | None, nodes: list[Object], more: dict[str, Any]
) -> None:
    pods = [pod(f"gang-{index}", gated=True, **more) for index in range(3)] if made else []
    body = group() if made else group(minTaskMember={"work": 3}, minTaskPlacement={"work": places.part(more)})
    found = outcome(groups=[body], pods=pods, nodes=nodes)
    assert reasons(found) == ({"gang": reason} if reason else {})
    assert names(found) == ([] if reason else ["gang"])


def test_pods_of_several_tasks_have_places_of_their_own() -> None:
    tasks: dict[str, Any] = {
        "minTaskMember": {"any": 2, "there": 1},
        "minTaskResources": {"any": {"cpu": "1"}, "there": {"cpu": "500m"}},
        "minTaskPlacement": {"there": ZONE_B},
    }
    small = [node("a", cpu=2, pods=9), node("b", cpu=1, pods=9, labels={"zone": "b"})]
    assert names(outcome(groups=[group(**tasks)], nodes=small)) == ["gang"]
    # Whoever may go to fewer nodes comes first, or the only one would be taken.
    renamed = [node("z", cpu=2, pods=9), node("b", cpu=1, pods=9, labels={"zone": "b"})]
    assert names(outcome(groups=[group(**tasks)], nodes=renamed)) == ["gang"]


def test_a_node_is_not_ready_until_it_says_so() -> None:
    silent = node()
    silent["status"]["conditions"] = []
    assert reasons(outcome(groups=[group()], nodes=[silent])) == {"gang": "NeverFits"}


def test_several_small_nodes_are_no_large_one_also_where_more_may_be_promised() -> None:
    nodes = [node("a", cpu=2, pods=9), node("b", cpu=2, pods=9)]
    asked = group(least=1, asks={"cpu": "3", "pods": "1"})
    assert reasons(outcome(GangRules(overcommit=Fraction(2)), groups=[asked], nodes=nodes)) == {"gang": "NeverFits"}


def test_an_admitted_group_without_pods_takes_room_on_nodes() -> None:
    unknown = group("old", phase="Inqueue", least=2, asks={"cpu": "3", "pods": "2"}, minTaskMember={"a": 1, "b": 1})
    machines = [node("a", cpu=3, pods=9), node("b", cpu=3, pods=9)]
    asked = group(least=1, asks={"cpu": "3", "pods": "1"})
    found = outcome(groups=[unknown, asked], nodes=machines)
    assert names(found) == ["gang"]
    wide = group("old", phase="Inqueue", least=3, asks={"cpu": "3", "pods": "3"}, minTaskMember={"a": 2, "b": 1})
    alone = [node("a", cpu=2, pods=9), node("b", cpu=3, pods=9), node("c", cpu=1, pods=9)]
    assert words(outcome(groups=[wide, asked], nodes=alone)) == {
        "gang": "there is room for the gang on all nodes together, but not for each of its 1 pods on one that takes it"
    }


# The packing itself


def _bins(*cpus: int) -> Bins:
    machines = [Machine(f"n{index:03}", {"cpu": cpu}, {"cpu": cpu}) for index, cpu in enumerate(cpus)]
    return Bins(machines, Fraction(1), ())


@given(st.lists(st.integers(1, 9), max_size=8), st.lists(st.integers(1, 9), max_size=12), st.randoms())
def test_what_is_placed_fits_and_the_order_says_nothing(cpus: list[int], asked: list[int], chance: Any) -> None:
    pods = [shape({"cpu": value}) for value in asked]
    mixed = list(pods)
    chance.shuffle(mixed)
    bins, other = _bins(*cpus), _bins(*cpus)
    taken = bins.take(pods)
    assert other.take(mixed) == taken
    assert taken <= (sum(asked) <= sum(cpus))
    # What is left is for as many small pods as there is room, and no more.
    left = sum(cpus) - (sum(asked) if taken else 0)
    assert bins.take(places.pieces({"cpu": left}, left) if left else ())
    assert not bins.take((shape({"cpu": 1}),))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_a_refusal_takes_nothing_and_is_repeated(cpus: list[int], asked: list[int]) -> None:
    bins, pods = _bins(*cpus), tuple(shape({"cpu": value}) for value in asked)
    if not bins.take((*pods, shape({"cpu": 99}))):
        assert not bins.take((*pods, shape({"cpu": 99})))
    assert bins.take(pods) == _bins(*cpus).take(pods) == _bins(*cpus).fits_alone(pods)


def test_fewer_of_those_that_did_not_fit_may_fit() -> None:
    bins, pod_ = _bins(4, 4), shape({"cpu": 3})
    assert not bins.take((pod_,) * 3)
    assert bins.take((pod_,) * 2)


def test_what_does_not_fit_of_those_on_their_way_is_left_out() -> None:
    bins = _bins(4, 2)
    bins.fill((shape({"cpu": 3}), shape({"cpu": 3}), shape({"cpu": 1})))
    assert not bins.take((shape({"cpu": 3}),))
    assert bins.take((shape({"cpu": 2}),))


def test_a_shape_without_amounts_takes_any_node() -> None:
    assert _bins(1).take((PodShape(()),) * 5)
    assert not _bins().take((PodShape(()),))
