"""Polls of EventJobs: what is pushed wakes them, the reading has claims and counts, and nothing of them stays."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
import redis.asyncio as redis

from penstock.client import beside
from tests.integration.scalers.test_wakeups import connected, ready, running, until, wakeups_of
from tests.integration.scalers.world import KEYS, Polling, World, build, redis_trigger, scaled_job
from tests.support.event_jobs import event_of
from tests.support.redis_calls import at_rest, rounds_of
from tests.support.tables import cases
from workers.api.kinds import EVENT_JOB, Object, Ref
from workers.cache.store import ObjectVersion
from workers.decision.claims import DELIVERIES, ClaimedItem, ClaimOrder, ClaimSettlement
from workers.decision.snapshot import Reading

REF = Ref(EVENT_JOB, "team", "orders")
INTAKE = KEYS.channel("team", "orders")
JOB = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "none"}]}}}}


@pytest.fixture
async def world(redis_url: str, real_redis: redis.Redis) -> World:
    world = await build(real_redis)
    world.triggers.broker, world.triggers.prefix = redis_url, KEYS.prefix
    return world


def event_job(name: str = "orders", *, uid: str = "u1", generation: int = 1, **spec: Any) -> Object:
    metadata = {"namespace": "team", "name": name, "uid": uid, "generation": generation, "resourceVersion": "1"}
    return {"apiVersion": EVENT_JOB.api_version, "metadata": metadata, "spec": {"jobTemplate": JOB, **spec}}


async def apply(world: World, *bodies: Object) -> None:
    await world.store.apply(EVENT_JOB, [ObjectVersion(body) for body in bodies])


async def poll(polling: Polling, ref: Ref = REF) -> Reading | None:
    await polling.world.poll.mark([ref.key])
    await polling.once()
    return (await polling.world.readings.get_many([ref.key]))[0]


async def push(client: redis.Redis, id: str, stream: str = INTAKE, **attributes: str) -> None:
    await client.xadd(stream, dict(event_of(id, **attributes)))  # type: ignore[arg-type]


def claims_of(reading: Reading | None) -> tuple[ClaimedItem, ...]:
    assert reading is not None
    assert reading.ledger is not None
    return reading.ledger.claims or ()


async def test_a_poll_tells_claims_and_counts(world: World) -> None:
    await apply(world, event_job())
    await push(world.client, "1")
    await push(world.client, "2")
    await world.orders.put(REF.key, ClaimOrder(1, DELIVERIES, 1), world.poll)
    async with world.polling() as polling:
        reading = await poll(polling)
        [claim] = claims_of(reading)
        assert orjson.loads(claim.item or "") == event_of("1")
        assert reading is not None
        assert reading.ledger is not None
        assert reading.ledger.counts is not None
        assert (reading.ledger.of, reading.ledger.limit, reading.ledger.order) == (DELIVERIES, 1, 1)
        assert (reading.ledger.counts["waiting"], reading.ledger.counts["running"]) == (1, 1)
        assert reading.ledger.last_arrival > 0
        assert [sample.value for sample in reading.samples] == [1.0]


async def test_what_becomes_due_books_the_poll(world: World) -> None:
    await apply(world, event_job(delaySeconds=3))
    await push(world.client, "1")
    async with world.polling() as polling:
        await poll(polling)
    [(_, booked)] = await world.client.zrange(f"{KEYS.tag}:lane:poll:later", 0, -1, withscores=True)
    now, _ = await world.client.time()
    assert booked / 1e6 - now < 5


async def test_a_push_a_direct_push_and_a_replay_wake_the_event_job(world: World) -> None:
    await apply(world, event_job())
    wakeups = wakeups_of(world)
    async with running(wakeups), world.polling(wakeups=wakeups) as polling:
        await poll(polling)
        await connected(wakeups, 3)

        async def woken() -> None:
            await until(lambda: ready(world))
            await polling.once()

        await woken()
        await push(world.client, "1")
        await woken()
        await push(world.client, "2", beside(INTAKE, "accepted"))
        await woken()
        deliveries = polling.poller._deliveries
        assert deliveries is not None
        [waiting] = await deliveries.of_event("u1", "2")
        while await ready(world):
            await polling.once()
        assert await deliveries.drop("u1", [waiting.entry]) == 1
        await woken()


async def test_a_spec_that_cannot_be_used_ends_claims_and_takes_none(world: World) -> None:
    await apply(world, event_job())
    await push(world.client, "1")
    await push(world.client, "2")
    await world.orders.put(REF.key, ClaimOrder(1, DELIVERIES, 1), world.poll)
    async with world.polling() as polling:
        [claim] = claims_of(await poll(polling))
        broken = event_job(generation=2, filter={"cel": "event..type"})
        broken["metadata"]["resourceVersion"] = "2"
        await apply(world, broken)
        order = ClaimOrder(2, DELIVERIES, 1, settlements=(ClaimSettlement(claim.id, "done"),))
        await world.orders.put(REF.key, order, world.poll)
        reading = await poll(polling)
        assert claims_of(reading) == ()
        assert reading is not None
        assert reading.samples[0].value == 1.0


async def test_the_intake_of_a_scaled_job_is_left_alone(world: World) -> None:
    await world.apply(scaled_job("orders", {"type": "push", "metadata": {}}))
    await apply(world, event_job())
    await push(world.client, "1")
    async with world.polling() as polling:
        await poll(polling)
    [group] = await world.client.xinfo_groups(beside(INTAKE, "accepted"))
    assert group["name"] == b"penstock"
    assert await world.client.xlen(beside(INTAKE, "accepted")) == 1


async def test_a_scaled_job_of_that_name_with_another_trigger_is_no_obstacle(world: World, port: int) -> None:
    await world.apply(scaled_job("orders", redis_trigger(port, "queue")))
    await apply(world, event_job())
    await push(world.client, "1")
    async with world.polling() as polling:
        await poll(polling)
    assert await world.client.xlen(INTAKE) == 0


async def test_the_channel_has_the_settings_of_its_own_event_job(world: World) -> None:
    await apply(world, event_job(maxEvents=1), event_job("audit", uid="u2", channel="orders", maxEvents=5))
    async with world.polling() as polling:
        await poll(polling)
        await push(world.client, "1")
        await push(world.client, "2")
        reading = await poll(polling, replace(REF, name="audit"))
    assert reading is not None
    assert reading.samples[0].value == 1.0


@cases(("gone", False), ("replaced by a namesake", True))
async def test_an_event_job_that_lost_its_finalizer_leaves_nothing(again: bool, world: World) -> None:
    body = event_job()
    await apply(world, body)
    await push(world.client, "1")
    async with world.polling() as polling:
        await poll(polling)
        assert await world.client.keys("*deliveries:u1*")
        await world.store.apply(EVENT_JOB, [ObjectVersion.gone(REF, "u1")])
        if again:
            namesake = event_job(uid="u9")
            namesake["metadata"]["resourceVersion"] = "9"
            await apply(world, namesake)
        await poll(polling)
    assert await world.client.keys("*deliveries:u1*") == []
    assert bool(await world.client.keys("*:events:*")) == again


async def test_an_event_at_rest_is_claimed_after_few_waits_for_the_broker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a row: the claim; object, reading and order; the channel; events; their routes; the end."""
    await apply(world, event_job())
    await world.orders.put(REF.key, ClaimOrder(1, DELIVERIES, 9), world.poll)
    async with world.polling() as polling:
        await push(world.client, "1")
        await poll(polling)
        await push(world.client, "2")
        await world.poll.mark([REF.key])
        await at_rest(world.client)
        with rounds_of(monkeypatch) as rounds:
            await polling.once()
        [reading] = await world.readings.get_many([REF.key])
    assert [orjson.loads(claim.item or "")["id"] for claim in claims_of(reading)] == ["1", "2"]
    assert len(rounds) <= 6
