"""Broken entries of the broker: each is set aside or replaced and logged, and everything else goes on."""

from typing import Any

import pytest
from redis.exceptions import ResponseError

from scheduler.keys import TYPES, Keys, type_of
from scheduler.scripts import Script
from tests.support.stored_readings import store_readings
from tests.support.tables import for_each
from tests.unit.workers.acting import OWNER, owned
from tests.unit.workers.reconciling import WorkerRig
from workers.api.kinds import JOB, SCALED_JOB
from workers.cache.store import StoreLost
from workers.decision.claims import ClaimOrder
from workers.decision.plan import NOTHING, PollNow
from workers.decision.snapshot import Reading

KEYS = Keys("test")
LANE = KEYS.lane("reconcile")
OBJECTS = "{test}:objects:jobs.batch"
CHILD = b"default/child"


@pytest.fixture
async def broken(client):
    """A worker whose ScaledJob has a child and a reading, and has been reconciled."""
    worker: Any = WorkerRig(client, lambda snapshot, now: NOTHING)
    worker.client = client
    worker.own(spec={})
    worker.cluster.add(JOB, owned("child", worker.owner))
    await recovers(worker)
    return worker


async def recovers(worker):
    """Runs informer, poller and worker until the object is decided on, with its child and its reading."""
    worker.snapshots.clear()
    for attempt in range(1, 5):
        for lane in worker.lanes.values():
            await lane.open()
        try:
            await worker.follow()
        except StoreLost:
            continue
        now = await worker.store.touch(JOB, 1, None)
        await store_readings(worker.readings, {OWNER.key: Reading(now, now, 1)}, worker.lane)
        await worker.act(PollNow(ClaimOrder(id=now, of="ledger", limit=3)))
        await worker.lane.mark([OWNER.key], forgive=True)
        await worker.consume()
        seen = worker.snapshots[-1] if worker.snapshots else None
        if seen and seen.reading and [child.ref.name for child in seen.children[JOB.id]] == ["child"]:
            assert (await worker.actor.orders.get_many([OWNER.key]))[0]
            return attempt
    raise AssertionError("it was not decided on")


STORE = ["freshness", "readings", "orders", "generation"]
STORE += [f"{part}:{kind.id}" for part in ("objects", "gone") for kind in (SCALED_JOB, JOB)] + [f"owners:{JOB.id}"]
NAMES = [*LANE.all(), *(f"{{test}}:{name}" for name in STORE)]


@pytest.mark.parametrize("name", NAMES)
async def test_a_key_of_a_wrong_type_is_set_aside(broken, name, caplog):
    await broken.client.delete(name)
    if type_of(name) == b"string":
        await broken.client.rpush(name, "garbage")
    else:
        await broken.client.set(name, "garbage")
    await recovers(broken)
    aside = await broken.client.keys(f"{name}:unreadable:*")
    assert len(aside) == 1
    assert [record.key for record in caplog.records if "wrong type" in record.message] == [name]


def test_every_key_has_a_type():
    assert all(type_of(name) for name in [*NAMES, "{test}:limit:x", "{test}:decisions:x", "{test}:decision:a/b/c"])
    assert type_of("{test}:celery:penstock.poll") is None
    assert set(TYPES.values()) == {b"zset", b"hash", b"set", b"list", b"string", b"stream"}


VALUES = [b"garbage", b"", b"1 2 3", b"\xff\xfe", b"5 x u - - - - 1 00 {}", b"5 7 uid-child - - - - 1 00 {"]
VALUES += [b"5 7 uid-child - - - - 1 00 " + json for json in (b"5", b"null", b"[]", b'{"metadata": 7}')]


@pytest.mark.parametrize("value", VALUES)
async def test_a_stored_object_that_cannot_be_read_is_set_aside_and_listed_again(broken, value, caplog):
    await broken.client.hset(OBJECTS, CHILD, value)
    broken.snapshots.clear()
    await broken.lane.mark([OWNER.key])
    await broken.consume()
    assert not any(not seen.children[JOB.id] for seen in broken.snapshots), "the child is unknown, not missing"
    await recovers(broken)


async def test_a_value_that_was_set_aside_is_kept_under_its_name(broken, caplog):
    await broken.client.hset(OBJECTS, CHILD, b"garbage")
    await broken.store.children(JOB, broken.owner["metadata"]["uid"])
    assert await broken.client.hgetall("{test}:unreadable") == {b"jobs.batch/default/child": b"garbage"}
    assert "a stored object cannot be read and was set aside" in caplog.text
    assert await broken.store.freshness([JOB]) == {JOB.id: None}


FIELDS = [
    *((LANE.all()[-1], field) for field in ("virtual", "token", "notifications", "claimed", "repairs", "opens")),
    *((LANE.all()[-1], field) for field in ("repaired", "generation")),
    (LANE.all()[-2], OWNER.key),
    ("{test}:freshness", JOB.id),
    ("{test}:readings", OWNER.key),
    ("{test}:orders", OWNER.key),
]


@for_each(b"garbage", b"", b"\xff", b"1 []", b'1 {"id":"x","started":"y","generation":[]}')
@pytest.mark.parametrize(("name", "field"), FIELDS, ids=[":".join(field) for field in FIELDS])
async def test_a_field_that_cannot_be_read_stops_nothing(value, broken, name, field):
    await broken.client.hset(name, field, value)
    await broken.lane.mark([OWNER.key])
    await broken.lane.sweep()
    await broken.lane.stats()
    await broken.consume()
    await broken.readings.get_many([OWNER.key])
    await broken.actor.orders.get_many([OWNER.key])
    await broken.store.epoch(JOB)
    await recovers(broken)


async def test_a_ready_key_that_cannot_be_read_is_dropped_and_the_others_of_its_claim_are_reconciled(broken, caplog):
    await broken.lane.mark([OWNER.key])
    for member in (b"\xff\xfe", b"scaledjobs.keda.sh/\xff/a"):
        await broken.client.zadd(LANE.all()[0], {member: -5})
    broken.snapshots.clear()
    assert await broken.consume() == 1
    assert [seen.ref for seen in broken.snapshots] == [OWNER]
    stats = await broken.lane.stats()
    assert (stats.ready, stats.leased) == (0, 0)
    assert "keys that cannot be read were dropped" in caplog.text


@for_each(True, False)
async def test_a_key_of_a_measured_server_is_never_set_aside(ours, client):
    key = "{shop}:orders"
    await client.rpush(key, "an order")
    script = Script("return redis.call('HGET', KEYS[1], 'x')", ours=ours)
    if ours:
        assert await script(client, [key], []) is None
    else:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await script(client, [key], [])
    assert (await client.llen(key) == 1) is not ours
