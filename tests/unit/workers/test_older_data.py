"""A broker with older data than was written to it: noticed by every writer, and believed by no decision."""

from contextlib import nullcontext

import pytest

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.support.older_data import become_another_server, restore, saved
from tests.support.stored_readings import store_readings
from tests.support.tables import cases
from tests.unit.workers.objects import job, ref, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Ref
from workers.cache.store import ObjectVersion, Store, StoreLost
from workers.decision.limits import JobLimit, LimitReservation
from workers.decision.plan import Delete, Patch, PatchStatus
from workers.decision.snapshot import Reading, Snapshot
from workers.errors import Conflict, NotFound
from workers.handoff.readings import Readings
from workers.reconcile.reservations import Reservations

KEYS = Keys("test")
A, B = "jobs.batch/default/a", "jobs.batch/default/b"


async def notify(_notifications):
    pass


async def listed(store, *bodies, kind=JOB):
    listing = await store.begin(kind, 1)
    await store.apply(kind, [ObjectVersion(body) for body in bodies], listing=listing)
    await store.finish(listing, {"": "9"})
    await store.touch(kind, 1, await store.touch(kind, 1, None))


@pytest.fixture
async def store(client):
    store = Store(client, KEYS, {})
    await listed(store, job("a", 1))
    return store


WRITES = {
    "an event": lambda store: store.apply(JOB, [ObjectVersion(job("b", 5))], epoch=1),
    "a claim of freshness": lambda store: store.touch(JOB, 1, 10**18),
}


@pytest.mark.parametrize("lost", WRITES.values(), ids=[f"lost: {name}" for name in WRITES])
@pytest.mark.parametrize("noticing", WRITES.values(), ids=[f"noticed by {name}" for name in WRITES])
async def test_a_reflector_notices_that_its_last_write_is_lost_and_its_kind_is_unknown_until_listed(
    client, store, lost, noticing
):
    data = await saved(client)
    await lost(store)
    await restore(client, data)
    with pytest.raises(StoreLost):
        await noticing(store)
    assert await store.freshness([JOB]) == {JOB.id: None}
    listing = await store.begin(JOB, 1)
    await store.finish(listing, {"": "9"})
    assert await store.freshness([JOB]) == {JOB.id: None}
    await store.touch(JOB, 1, await store.touch(JOB, 1, None))
    assert (await store.freshness([JOB]))[JOB.id] < 60


async def test_another_server_makes_all_kinds_unknown_before_anything_is_written(real_redis):
    await listed(store := Store(real_redis, KEYS, {}))
    await become_another_server(real_redis)
    assert await store.freshness([JOB]) == {JOB.id: None}
    with pytest.raises(StoreLost):
        await store.touch(JOB, 1, None)


@pytest.fixture
async def lane(client):
    lane = Lane(client, "reconcile", KEYS, lease=30.0)
    await lane.open()
    return lane


async def test_a_claim_that_finds_an_older_token_than_its_process_has_seen_closes_all_lanes(client, lane, caplog):
    await lane.mark([A, B])
    data = await saved(client)
    claim = await lane.claim(1)
    await lane.finish([(claim.leases[0], Done())])
    await restore(client, data)
    poll = Lane(client, "poll", KEYS, lease=30.0)
    for closed in (lane, lane, poll):
        again = await closed.claim(1)
        assert (again.leases, 29 < again.opens <= 30) == ((), True)
    assert [record.message for record in caplog.records] == ["the broker lost data, or may have"]


async def test_a_claim_on_another_server_closes_the_lane_also_for_a_process_that_has_seen_no_token(real_redis):
    lane = Lane(real_redis, "reconcile", KEYS, lease=30.0)
    await lane.open()
    await lane.mark([A])
    await become_another_server(real_redis)
    assert (await Lane(real_redis, "reconcile", KEYS, lease=30.0).claim(1)).opens == 30.0


async def begin_anew(client, store):
    """The broker loses a write, and the reflector notices."""
    data = await saved(client)
    await store.touch(JOB, 1, None)
    await restore(client, data)
    with pytest.raises(StoreLost):
        await store.touch(JOB, 1, None)


async def test_a_reading_from_before_the_loss_counts_as_none(client, store, lane):
    readings = Readings(client, KEYS)
    now = await store.touch(JOB, 1, None)
    await store_readings(readings, {A: Reading(now, now, 1)}, lane)
    assert await readings.get_many([A]) == [Reading(now, now, 1)]
    await begin_anew(client, store)
    assert await readings.get_many([A]) == [None]


async def test_reservations_from_before_the_loss_are_counted_again(client, store, lane):
    policy = {"metadata": {"name": "quota", "uid": "u"}, "spec": {"maxJobs": 6}}
    limits = (JobLimit(policy, 6, SCALED_JOB, lambda body: True),)
    reservations = Reservations(client, KEYS, store, lane, notify, stale=3600)

    async def ask(name, alive, wanted):
        body = {"metadata": {"name": name, "uid": f"uid-{name}"}}
        snapshot = Snapshot(Ref(SCALED_JOB, "default", name), body)
        return await reservations.ask(snapshot, LimitReservation(limits, alive, wanted))

    a, b = scaled_job("a", 1), scaled_job("b", 1)
    await listed(store, a, b, kind=SCALED_JOB)
    assert await ask("a", 0, 1) == 1
    await begin_anew(client, store)
    await listed(store, *(job(f"a-{number}", number, owner=a) for number in range(1, 5)))
    await listed(store, a, b, kind=SCALED_JOB)
    assert await ask("b", 0, 6) == 2


STATUS = PatchStatus({"a": 1})


@cases(
    ("a patch", lambda ref, uid: Patch(ref, {"spec": {}}, "900"), True, Conflict),
    ("a deletion", lambda ref, uid: Delete(ref, uid, resource_version="900"), True, Conflict),
    ("a deletion of another object", lambda ref, uid: Delete(ref, "another"), True, None),
    ("a patch of what is gone", lambda ref, uid: Patch(ref, {"spec": {}}, "900"), False, NotFound),
    ("a status", lambda ref, uid: STATUS, True, Conflict),
    ("the status of what is gone", lambda ref, uid: STATUS, False, NotFound),
)
async def test_an_object_on_which_a_write_failed_is_read_from_the_api_server(step, exists, raised, rig):
    """The store has a version of another history, later than every version of the API server's."""
    stored = rig.cluster.add(JOB, rig.job("a"))
    foreign = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "900"}}
    await rig.store.apply(JOB, [ObjectVersion(foreign)])
    seen = (await rig.store.get(ref(JOB, "a"))).seen
    if not exists:
        del rig.cluster.objects[ref(JOB, "a")]
    with pytest.raises(raised) if raised else nullcontext():
        await rig.act(step(ref(JOB, "a"), stored["metadata"]["uid"]), ref=ref(JOB, "a"), body=foreign, at=seen + 1)
    assert (await rig.store.get(ref(JOB, "a"))).body == (stored if exists else None)


async def test_what_was_stored_after_the_decision_was_made_is_not_overruled_by_a_lower_version(rig):
    stored = rig.cluster.add(JOB, rig.job("a"))
    newer = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "900"}}
    await rig.store.apply(JOB, [ObjectVersion(newer)])
    seen = (await rig.store.get(ref(JOB, "a"))).seen
    with pytest.raises(Conflict):
        await rig.act(Patch(ref(JOB, "a"), {}, "1"), at=seen)
    assert (await rig.store.get(ref(JOB, "a"))).body == newer
