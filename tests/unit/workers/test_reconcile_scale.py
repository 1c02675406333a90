"""Observing what objects scale: read for each decision, and what cannot be read is said, not guessed."""

from datetime import UTC, datetime

import pytest

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.test_reconcile import House
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Ref
from workers.base import mirror_of
from workers.controller import Controller, Target
from workers.mirror import Change
from workers.plan import NOTHING
from workers.readings import Readings
from workers.reconcile import Reconciler
from workers.snapshot import Scalable


class Scales:
    """Knows one workload."""

    def __init__(self):
        self.asked = []

    async def read(self, namespace, target):
        self.asked.append((namespace, target.name))
        return Scalable(replicas=3) if target.name == "pool" else Scalable(error="away")


@pytest.fixture
async def house(fake_redis):
    house = House(fake_redis, lambda snapshot, now: NOTHING)
    house.scales = Scales()
    controller = Controller(
        SCALED_JOB,
        lambda snapshot, now: NOTHING,
        scales=lambda body: Target("apps/v1", "Deployment", body["spec"]["on"]) if "on" in body["spec"] else None,
    )
    parts = vars(house.reconciler)
    house.observer = Reconciler(
        controllers={SCALED_JOB.id: controller},
        mirror=parts["_mirror"],
        readings=parts["_readings"],
        actor=parts["_actor"],
        decisions=parts["_decisions"],
        clock=lambda: datetime(2026, 3, 1, tzinfo=UTC),
        deadline=30.0,
        stale=10.0,
        scales=house.scales,
    )
    for lane in house.lanes.values():
        await lane.open()
    return house


async def observed(house):
    """What every object's decision would see as its target, by the object's name."""
    await house.follow()
    claim = await house.lane.claim(10)
    snapshots = await house.observer.observe(claim.leases)
    return {lease.key.rpartition("/")[2]: snapshot.scale for lease, snapshot in snapshots.items()}


async def test_each_decision_sees_its_own_target_as_it_is_now(house):
    for name, spec in {"a": {"on": "pool"}, "b": {"on": "other"}, "c": {}}.items():
        house.cluster.add(SCALED_JOB, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    assert await observed(house) == {"a": Scalable(replicas=3), "b": Scalable(error="away"), "c": None}
    assert sorted(house.scales.asked) == [("default", "other"), ("default", "pool")]


async def test_who_names_the_same_is_seen(fake_redis):
    """By the mirror's index, whatever else there is; the object itself and what is gone are not among them."""
    keys = Keys("test")
    lanes = {name: Lane(fake_redis, name, keys) for name in ("reconcile", "poll")}
    controller = Controller(SCALED_OBJECT, lambda snapshot, now: NOTHING, peers=True)
    mirror = mirror_of(fake_redis, keys, lanes, {SCALED_OBJECT.id: controller})
    for lane in lanes.values():
        await lane.open()
    listing = await mirror.begin(SCALED_OBJECT, 1)
    bodies = [
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "5"},
            "spec": {"scaleTargetRef": {"name": target}} if target else {},
        }
        for namespace, name, target in (
            ("team", "a", "pool"),
            ("team", "b", "pool"),
            ("team", "c", "other"),
            ("team", "d", None),
            ("else", "e", "pool"),
            ("team", "f", "pool"),
        )
    ]
    await mirror.apply(SCALED_OBJECT, [Change(body) for body in bodies], listing=listing)
    await mirror.finish(listing, {"": "9"})
    await mirror.touch(SCALED_OBJECT, 1, await mirror.touch(SCALED_OBJECT, 1, None))
    await mirror.apply(SCALED_OBJECT, [Change.gone(Ref(SCALED_OBJECT, "team", "f"), "team-f")])
    observer = Reconciler(
        controllers={SCALED_OBJECT.id: controller},
        mirror=mirror,
        readings=Readings(fake_redis, keys),
        actor=None,
        decisions=None,
        clock=lambda: datetime(2026, 3, 1, tzinfo=UTC),
        deadline=30.0,
        stale=10.0,
    )
    claim = await lanes["reconcile"].claim(10)
    snapshots = await observer.observe(claim.leases)
    found = {
        snapshot.ref.name: [peer.ref.name for peer in snapshot.peers]
        for snapshot in snapshots.values()
        if snapshot.body
    }
    assert found == {"a": ["b"], "b": ["a"], "c": [], "d": [], "e": []}
