"""How often in a row an observation waits for the broker."""

from typing import Any

import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.redis_calls import rounds_of
from tests.support.stored_readings import store_readings
from workers.api.kinds import EVENT_JOB, JOB, SCALED_JOB, Kind, Ref
from workers.cache.store import ObjectVersion, Store
from workers.controllers.eventjob.decide import CONTROLLER
from workers.decision.claims import DELIVERIES, ClaimLedger, ClaimOrder
from workers.decision.snapshot import Reading
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.reconcile.observe import Observer
from workers.wiring import store_of

KEYS = Keys("test")
REF = Ref(EVENT_JOB, "team", "orders")


async def follow(store: Store, kind: Kind, *bodies: Any) -> None:
    """Stores all objects of a kind, as an informer that is up to date."""
    listing = await store.begin(kind, 1)
    await store.apply(kind, [ObjectVersion(body) for body in bodies], listing=listing)
    await store.finish(listing, {"": "2"})
    await store.touch(kind, 1, await store.touch(kind, 1, None))


@pytest.fixture
async def lane(real_redis: redis.Redis) -> Lane:
    lane = Lane(real_redis, "reconcile", KEYS, lease=60.0)
    await lane.open()
    return lane


@pytest.fixture
async def observer(lane: Lane, real_redis: redis.Redis) -> Observer:
    """An observer of the EventJob `u1`, whose order has the id 3."""
    controllers = {EVENT_JOB.id: CONTROLLER}
    store = store_of(real_redis, KEYS, {"reconcile": lane, "poll": lane}, controllers)
    metadata = {"namespace": "team", "name": "orders", "uid": "u1", "generation": 1, "resourceVersion": "1"}
    await follow(store, EVENT_JOB, {"metadata": metadata, "spec": {"jobTemplate": {}}})
    await follow(store, JOB)
    await follow(store, SCALED_JOB)
    orders = ClaimOrders(real_redis, KEYS)
    await orders.put(REF.key, ClaimOrder(3, DELIVERIES, 10), lane)
    readings = Readings(real_redis, KEYS)
    return Observer(controllers=controllers, store=store, readings=readings, stale=3600.0, orders=orders)


def reading(uid: str) -> Reading:
    return Reading(7, 1, 1, uid=uid, ledger=ClaimLedger(DELIVERIES, 10, ()))


async def test_an_eventjob_is_observed_with_its_reading_and_its_order_after_two_waits(
    lane: Lane, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_readings(observer.readings, {REF.key: reading("u1")}, lane)
    [lease] = (await lane.claim(1)).leases
    # The first time the scripts themselves travel.
    await observer.observe([lease])

    with rounds_of(monkeypatch) as rounds:
        found = await observer.observe([lease])

    snapshot: Any = found[lease]
    assert (snapshot.reading.id, snapshot.order.id) == (7, 3)
    assert len(rounds) == 2


async def test_beside_the_reading_of_a_namesake_its_order_is_not_seen_either(lane: Lane, observer: Observer) -> None:
    await store_readings(observer.readings, {REF.key: reading("u-of-another")}, lane)
    [lease] = (await lane.claim(1)).leases

    snapshot: Any = (await observer.observe([lease]))[lease]

    assert (snapshot.reading, snapshot.order) == (None, None)
