"""Plans carried out: order, fences, effects that exist already, and their write-through to the store."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from prometheus_client import REGISTRY

from tests.support.tables import cases
from tests.unit.workers.acting import OWNER, TAKEN, ActorRig
from workers.api.kinds import JOB, SCALED_JOB, Ref
from workers.cache.store import ObjectVersion
from workers.decision.claims import ClaimOrder
from workers.decision.plan import (
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
from workers.errors import Conflict
from workers.metrics import process

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@cases(
    ("a create", ()),
    ("after a write to the object itself", (PatchStatus({"a": 1}),)),
)
async def test_what_was_created_is_seen_by_the_next_decision_and_marks_itself_alone(status, rig):
    await rig.act(*status, Create(JOB, rig.job("a")))
    assert await rig.children() == {"a": False}
    assert await rig.claimed() == ["jobs.batch/default/a"]
    assert rig.notified["reconcile"] == 1


async def test_creating_what_is_there_and_ours_is_success(rig):
    rig.cluster.add(JOB, rig.job("a"))
    await rig.act(Create(JOB, rig.job("a")))
    assert await rig.children() == {"a": False}


async def test_a_child_that_existed_already_marks_its_owner_in_any_state(rig):
    await rig.store.apply(SCALED_JOB, [ObjectVersion(rig.owner)])
    await rig.claimed()
    rig.cluster.add(JOB, rig.job("a", succeeded=1))
    await rig.act(Create(JOB, rig.job("a")), Create(JOB, rig.job("b")))
    assert (await rig.lane.stats()).dirty == 1, "its watch brings the same version and would say nothing more"


async def test_a_status_refers_to_what_its_plan_has_made(rig):
    rig.stranger("taken")
    made = tuple(Ref(JOB, "default", name) for name in ("a", "taken", "b"))
    known = {"name": "old", "uid": "uid-old"}
    await rig.act(
        *(Create(JOB, rig.job(ref.name), taken=TAKEN) for ref in made), PatchStatus({"active": [known]}, made)
    )
    status = (await rig.cluster.get(OWNER))["status"]
    assert [each["name"] for each in status["active"]] == ["old", "a", "b"]
    assert all(each["uid"] for each in status["active"])


async def test_a_plan_leaves_nothing_for_the_collector(rig):
    gc.collect()
    gc.disable()
    try:
        await rig.act(Together(rig.jobs(2)), PatchStatus({"a": 1}), ComeBack(NOON))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = [each for each in gc.garbage if type(each).__module__.startswith("workers.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert ours == []


async def test_another_object_is_marked_and_notified(rig):
    await rig.act(MarkObject(Ref(JOB, "default", "parent")))
    assert await rig.claimed() == ["jobs.batch/default/parent"]
    assert rig.notified == {"reconcile": 1}


async def test_a_rest_keeps_the_key_and_what_comes_after_it_waits(rig, monkeypatch):
    rested = []

    async def sleep(seconds):
        rested.append((seconds, dict(rig.notified)))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await rig.act(HoldKey(0.2), MarkObject(Ref(JOB, "default", "parent")))
    assert (rested, rig.notified) == ([(0.2, {})], {"reconcile": 1})


async def test_an_event_may_be_about_another_object(rig):
    other = {"metadata": {"name": "other"}}
    await rig.act(RecordEvent("Normal", "Waits", "for room", about=(JOB, other)), RecordEvent("Normal", "Own", "word"))
    assert rig.recorder.records == [("Waits", "for room"), ("Own", "word")]
    assert rig.recorder.regarding == [(JOB, other), (SCALED_JOB, rig.owner)]


def measured(name, **labels):
    return REGISTRY.get_sample_value(f"penstock_{name}", labels) or 0.0


async def test_what_is_measured_counts_once_the_steps_before_it_worked(rig):
    counter, labels = "job_controller_job_pods_finished_total", {"completion_mode": "Indexed", "result": "failed"}
    skew = "cronjob_controller_job_creation_skew_duration_seconds"
    before = measured(counter, **labels), measured(f"{skew}_sum"), measured(f"{skew}_bucket", le="1.0")
    steps = (
        CountMetric("job_pods_finished", 3, ("Indexed", "failed")),
        CountMetric("job_creation_skew", 0.5),
        CountMetric("job_creation_skew", 90),
    )
    await rig.act(PatchStatus({"a": 1}), *steps)
    rig.owner = {**rig.owner, "metadata": {**rig.owner["metadata"], "resourceVersion": "an older one"}}
    with pytest.raises(Conflict):
        await rig.act(PatchStatus({"a": 2}), *steps)
    after = measured(counter, **labels), measured(f"{skew}_sum"), measured(f"{skew}_bucket", le="1.0")
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 90.5, 1]


def test_every_name_that_decisions_may_measure_by_stands_for_a_metric():
    assert set(get_args(Metric)) == set(process.MEASURES)


async def test_deleting_what_is_gone_is_success_and_leaves_a_tombstone(rig):
    await rig.act(Create(JOB, rig.job("a")))
    [(ref, body)] = [(ref, body) for ref, body in rig.cluster.objects.items() if ref.kind is JOB]
    del rig.cluster.objects[ref]
    await rig.act(Delete(ref, body["metadata"]["uid"]))
    assert await rig.children() == {"a": True}


@cases(
    ("equal", {"a": 1, "c": [{"type": "Ready"}]}, {"a": 1, "c": [{"type": "Ready"}]}, 0),
    ("what the new one lacks is removed", {"old": 1, "kept": 2}, {"kept": 2, "new": 3}, 1),
)
async def test_a_status_is_computed_whole_and_written_if_it_differs(known, written, writes, rig):
    rig.own(status=known)
    await rig.act(PatchStatus(written))
    assert rig.cluster.objects[OWNER]["status"] == written
    assert len(rig.cluster.log) == writes


async def test_the_own_writes_of_a_plan_do_not_conflict_with_each_other(rig):
    version = rig.owner["metadata"]["resourceVersion"]
    finalizers = {"metadata": {"finalizers": ["finalizer.keda.sh"]}}
    await rig.act(Patch(OWNER, finalizers, version), PatchStatus({"a": 1}), PatchStatus({"a": 2}))
    stored = rig.cluster.objects[OWNER]
    assert (stored["metadata"]["finalizers"], stored["status"]) == (["finalizer.keda.sh"], {"a": 2})


async def test_steps_together_are_recorded_once_with_the_number_that_succeeded(rig):
    await rig.act(Together(rig.jobs(7), then=RecordEvent("Normal", "KEDAJobsCreated", "Created {done} jobs")))
    assert rig.recorder.records == [("KEDAJobsCreated", "Created 7 jobs")]
    assert len(await rig.children()) == 7


async def test_no_more_requests_are_in_flight_than_allowed(fake_redis):
    rig = ActorRig(fake_redis, in_flight=3)
    rig.own()
    flying, most = 0, 0
    create = rig.cluster.create

    async def slow(kind, body):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        flying -= 1
        return await create(kind, body)

    rig.cluster.create = slow
    await rig.act(Together(rig.jobs(10)))
    assert most == 3


async def test_the_earliest_of_several_instants_is_when_to_come_back(rig):
    assert await rig.act(ComeBack(NOON + timedelta(hours=1)), ComeBack(NOON)) == NOON
    assert await rig.act() is None


@cases(("a reading", None), ("an order", ClaimOrder(id=7, of="ledger", limit=3)))
async def test_asking_for_a_reading_stores_the_order_and_makes_the_object_ready_in_the_poll_lane(order, rig):
    await rig.act(PollNow(order))
    assert await rig.claimed("poll") == [OWNER.key]
    assert rig.notified == {"poll": 1}
    assert await rig.actor.orders.get_many([OWNER.key]) == [order]


async def test_the_effects_of_a_large_stage_reach_the_store_in_few_calls(rig, monkeypatch):
    calls = []
    write_through = rig.store.write_through

    async def counted(kind, changes, acting, **options):
        calls.append(len(changes))
        return await write_through(kind, changes, acting, **options)

    monkeypatch.setattr(rig.store, "write_through", counted)
    await rig.act(Together(rig.jobs(200)))
    assert len(await rig.children()) == 200
    assert sum(calls) == 200
    assert len(calls) <= 5


async def test_what_the_server_says_about_created_objects_is_recorded_once(rig):
    rig.cluster.says = ['unknown field "spec.backofLimit"']
    await rig.act(Together(tuple(Create(JOB, rig.job(name)) for name in "abc")))
    await rig.act(Create(JOB, rig.job("d")))
    assert rig.recorder.records == [("CreatedWithWarning", 'Job: unknown field "spec.backofLimit"')]


async def test_what_the_server_says_about_a_refused_object_is_not_recorded(rig):
    rig.cluster.says = ['unknown field "spec.backofLimit"']
    rig.cluster.add(JOB, rig.job("a"))
    await rig.act(Create(JOB, rig.job("a")))
    assert rig.recorder.records == []
