"""Observing what objects scale: read for each decision, and what cannot be read is said, not guessed."""

from datetime import UTC, datetime

import pytest

from tests.unit.workers.test_reconcile import House
from workers.api.kinds import SCALED_JOB
from workers.controller import Controller, Target
from workers.plan import NOTHING
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
