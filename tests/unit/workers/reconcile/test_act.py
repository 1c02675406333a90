"""Carrying out plans: order, fences, effects that are there already, and the mirror that sees everything at once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from prometheus_client import REGISTRY

from tests.unit.workers.acting import OWNER, TAKEN, World
from workers.api.kinds import JOB, SCALED_JOB, Ref
from workers.cache.store import ObjectVersion
from workers.errors import Conflict
from workers.handoff.claims import ClaimOrder
from workers.metrics import process
from workers.reconcile.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    HoldKey,
    MarkObject,
    Metric,
    Patch,
    PatchStatus,
    PollNow,
    RecordEvent,
    Together,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_what_was_created_is_seen_by_the_next_decision_and_wakes_its_own_controller(world):
    await world.act(Create(JOB, world.job("a")))
    assert await world.children() == {"a": False}
    claim = await world.lanes["reconcile"].claim(10)
    assert [lease.key for lease in claim.leases] == ["jobs.batch/default/a"]
    assert world.rung["reconcile"] == 1


async def test_creating_what_is_there_and_ours_is_success(world):
    world.cluster.add(JOB, world.job("a"))
    await world.act(Create(JOB, world.job("a")))
    assert await world.children() == {"a": False}


async def test_a_child_that_was_there_already_is_news_for_its_owner_whatever_became_of_it(world):
    await world.mirror.apply(SCALED_JOB, [ObjectVersion(world.owner)])
    lane = world.lanes["reconcile"]
    await lane.claim(10)
    world.cluster.add(JOB, world.job("a", succeeded=1))
    await world.act(Create(JOB, world.job("a")), Create(JOB, world.job("b")))
    assert (await lane.stats()).dirty == 1, "its watch brings the same version and would say nothing more"


async def test_a_status_refers_to_what_its_plan_has_made(world):
    world.cluster.add(JOB, {"metadata": {"name": "taken", "namespace": "default"}})
    made = tuple(Ref(JOB, "default", name) for name in ("a", "taken", "b"))
    known = {"name": "old", "uid": "uid-old"}
    await world.act(
        *(Create(JOB, world.job(ref.name), taken=TAKEN) for ref in made), PatchStatus({"active": [known]}, made)
    )
    status = (await world.cluster.get(OWNER))["status"]
    assert [each["name"] for each in status["active"]] == ["old", "a", "b"]
    assert all(each["uid"] for each in status["active"])


async def test_another_object_is_marked_and_its_bell_rung(world):
    await world.act(MarkObject(Ref(JOB, "default", "parent")))
    claim = await world.lanes["reconcile"].claim(10)
    assert [lease.key for lease in claim.leases] == ["jobs.batch/default/parent"]
    assert world.rung == {"reconcile": 1}


async def test_a_rest_keeps_the_key_and_what_comes_after_it_waits(world, monkeypatch):
    rested = []

    async def sleep(seconds):
        rested.append((seconds, dict(world.rung)))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await world.act(HoldKey(0.2), MarkObject(Ref(JOB, "default", "parent")))
    assert (rested, world.rung) == ([(0.2, {})], {"reconcile": 1})


async def test_an_event_may_be_about_another_object(world):
    other = {"metadata": {"name": "other"}}
    await world.act(
        RecordEvent("Normal", "Waits", "for room", about=(JOB, other)), RecordEvent("Normal", "Own", "word")
    )
    assert world.told.records == [("Waits", "for room"), ("Own", "word")]
    assert world.told.regarding == [(JOB, other), (SCALED_JOB, world.owner)]


def measured(name, **labels):
    return REGISTRY.get_sample_value(f"penstock_{name}", labels) or 0.0


async def test_what_is_measured_counts_once_the_steps_before_it_worked(world):
    counter, labels = "job_controller_job_pods_finished_total", {"completion_mode": "Indexed", "result": "failed"}
    skew = "cronjob_controller_job_creation_skew_duration_seconds"
    before = measured(counter, **labels), measured(f"{skew}_sum"), measured(f"{skew}_bucket", le="1.0")
    steps = (
        CountMetric("job_pods_finished", 3, ("Indexed", "failed")),
        CountMetric("job_creation_skew", 0.5),
        CountMetric("job_creation_skew", 90),
    )
    await world.act(PatchStatus({"a": 1}), *steps)
    world.owner = {**world.owner, "metadata": {**world.owner["metadata"], "resourceVersion": "an older one"}}
    with pytest.raises(Conflict):
        await world.act(PatchStatus({"a": 2}), *steps)
    after = measured(counter, **labels), measured(f"{skew}_sum"), measured(f"{skew}_bucket", le="1.0")
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 90.5, 1]


def test_every_name_that_decisions_may_measure_by_stands_for_a_metric():
    assert set(get_args(Metric)) == set(process.MEASURES)


async def test_deleting_what_is_gone_is_success_and_leaves_a_tombstone(world):
    await world.act(Create(JOB, world.job("a")))
    [(ref, body)] = [(ref, body) for ref, body in world.cluster.objects.items() if ref.kind is JOB]
    del world.cluster.objects[ref]
    await world.act(Delete(ref, body["metadata"]["uid"]))
    assert await world.children() == {"a": True}


async def test_an_equal_status_is_not_written(world):
    world.owner = world.cluster.add(SCALED_JOB, {**world.owner, "status": {"a": 1, "conditions": [{"type": "Ready"}]}})
    await world.act(PatchStatus({"a": 1, "conditions": [{"type": "Ready"}]}))
    assert world.cluster.log == []


async def test_a_status_is_computed_whole_so_what_it_lacks_is_removed(world):
    world.owner = world.cluster.add(SCALED_JOB, {**world.owner, "status": {"old": 1, "kept": 2}})
    await world.act(PatchStatus({"kept": 2, "new": 3}))
    assert world.cluster.objects[OWNER]["status"] == {"kept": 2, "new": 3}


async def test_the_own_writes_of_a_plan_do_not_conflict_with_each_other(world):
    version = world.owner["metadata"]["resourceVersion"]
    finalizers = {"metadata": {"finalizers": ["finalizer.keda.sh"]}}
    await world.act(Patch(OWNER, finalizers, version), PatchStatus({"a": 1}), PatchStatus({"a": 2}))
    stored = world.cluster.objects[OWNER]
    assert (stored["metadata"]["finalizers"], stored["status"]) == (["finalizer.keda.sh"], {"a": 2})


async def test_the_acting_object_is_not_marked_by_its_own_writes(world):
    await world.act(PatchStatus({"a": 1}), Create(JOB, world.job("a")))
    claim = await world.lanes["reconcile"].claim(10)
    assert [lease.key for lease in claim.leases] == ["jobs.batch/default/a"]


async def test_steps_together_are_told_of_once_with_the_number_that_worked(world):
    jobs = tuple(Create(JOB, world.job(f"j{number}")) for number in range(7))
    await world.act(Together(jobs, then=RecordEvent("Normal", "KEDAJobsCreated", "Created {done} jobs")))
    assert world.told.records == [("KEDAJobsCreated", "Created 7 jobs")]
    assert len(await world.children()) == 7


async def test_no_more_requests_are_in_flight_than_allowed(fake_redis):
    world = World(fake_redis, in_flight=3)
    flying, most = 0, 0
    create = world.cluster.create

    async def slow(kind, body):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        flying -= 1
        return await create(kind, body)

    world.cluster.create = slow
    await world.act(Together(tuple(Create(JOB, world.job(f"j{number}")) for number in range(10))))
    assert most == 3


async def test_the_earliest_of_several_instants_is_when_to_come_back(world):
    assert await world.act(ComeBack(NOON + timedelta(hours=1)), ComeBack(NOON)) == NOON
    assert await world.act() is None


async def test_asking_for_a_reading_makes_the_object_ready_in_the_poll_lane(world):
    await world.act(PollNow())
    claim = await world.lanes["poll"].claim(10)
    assert [lease.key for lease in claim.leases] == [OWNER.key]
    assert world.rung == {"poll": 1}


async def test_an_order_is_kept_and_the_object_polled(world):
    order = ClaimOrder(id=7, of="ledger", limit=3)
    await world.act(PollNow(order))
    claim = await world.lanes["poll"].claim(10)
    assert [lease.key for lease in claim.leases] == [OWNER.key]
    assert await world.actor.orders.get_many([OWNER.key]) == [order]


async def test_the_effects_of_a_large_stage_reach_the_mirror_in_few_calls(world, monkeypatch):
    calls = []
    apply = world.mirror.apply

    async def counted(kind, changes, **options):
        calls.append(len(changes))
        return await apply(kind, changes, **options)

    monkeypatch.setattr(world.mirror, "apply", counted)
    await world.act(Together(tuple(Create(JOB, world.job(f"j{number}")) for number in range(200))))
    assert len(await world.children()) == 200
    assert sum(calls) == 200
    assert len(calls) <= 5
