"""GangDecision that come and end, nodes that go, plans that are cut short: nothing is stuck, nothing is more than there is."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.controllers.volcano.podgroup.gang_world import World
from tests.unit.controllers.volcano.podgroup.gangs import queue
from workers.controllers.volcano.podgroup import vectors

QUEUES = [
    queue("default", created=-3),
    queue("small", capability={"cpu": "4"}, created=-2),
    queue("sure", guarantee={"resource": {"cpu": "2"}}, weight=2, created=-1),
]
ONE = 10**9


def _check(world: World) -> None:
    for name, body in world.nodes.items():
        assert world.used(name) <= vectors.read(body["status"]["allocatable"])["cpu"]
    small = [name for name, body in world.groups.items() if body["spec"]["queue"] == "small"]
    assert sum(each.requests["cpu"] for name in small for each in world.members(name) if each.occupies) <= 4 * ONE
    for name, phase in world.phases().items():
        if phase == "Pending" and not world.groups[name]["status"].get("backOff"):
            lost = [each for each in world.members(name) if each.state == "running"]
            # Only one that was whole before may have a part of its pods while it waits.
            assert not lost or world.groups[name]["status"].get("conditions")


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.3]))
def test_every_gang_that_can_start_does_and_ends(seed: int, cut: float) -> None:
    chance = random.Random(seed)
    world = World(QUEUES, {"a": 4, "b": 4, "c": 3}, seed, cut=cut)
    for index in range(10):
        # The cluster shrinks to 8 cpus, and 2 of them are the queue sure's.
        name, cpu = chance.choice(["default", "small", "sure"]), chance.choice([1, 1, 2])
        most = (4 if name == "small" else 6) // cpu
        world.arrive(f"g{index}", least=chance.randint(1, most), cpu=cpu, queue=name, late=chance.random() < 0.5)
        if index == 6:
            world.lose("c")
        _live(world, chance, seconds=chance.randint(0, 6))
    for _ in range(60):
        _live(world, chance, seconds=20)
        if set(world.phases().values()) == {"Completed"}:
            break
    assert set(world.phases().values()) == {"Completed"}


def _live(world: World, chance: random.Random, *, seconds: int) -> None:
    for _ in range(seconds):
        world.step()
        _check(world)
        for name, phase in world.phases().items():
            if phase == "Running":
                # GangDecision work only as a whole: the pods of one that is not never end by themselves.
                for each in world.members(name):
                    if each.state == "running" and chance.random() < 0.2:
                        world.end(each.pod["metadata"]["name"])


@pytest.mark.parametrize("late", [False, True], ids=["held back", "made late"])
def test_two_gangs_that_fit_one_at_a_time_never_share_the_cluster(late: bool) -> None:
    world = World([queue()], {"a": 4})
    for name in ("first", "second"):
        world.arrive(name, least=3, late=late)
    for _ in range(5):
        world.step()
    assert world.running() == ["first-0", "first-1", "first-2"]
    assert world.phases() == {"first": "Running", "second": "Pending"}
    for name in world.running():
        world.end(name)
    for _ in range(3):
        world.step()
    assert world.running() == ["second-0", "second-1", "second-2"]


def test_half_a_gang_gives_its_places_to_another() -> None:
    world = World([queue()], {"a": 3, "b": 1})
    world.arrive("wide", least=2, cpu=2, late=True)
    # One pod of two cpus fits, the other does not; the round would see it, so somebody else let the gang through.
    world.groups["wide"]["status"] = {"phase": "Inqueue"}
    world.step()
    world.arrive("narrow", least=4, late=True)
    for _ in range(30):
        world.step()
    assert world.running() == ["wide-0"] or world.running() == ["wide-1"]
    for _ in range(60):
        world.step()
    assert world.back_outs == 1
    assert world.running() == [f"narrow-{index}" for index in range(4)]
    assert world.phases()["wide"] == "Pending"
