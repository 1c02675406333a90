"""The parts of a reconcile worker, in this process: what a decision costs without the processes around it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support import broker_clock
from tests.support.stored_readings import store_readings
from workers.api.kinds import SCALED_JOB, Kind, Object, ref_of
from workers.cache.store import ObjectVersion, Store
from workers.client.request_limiter import RequestLimiter
from workers.controllers import registry
from workers.decision.controller import Controller
from workers.decision.snapshot import Reading, TriggerSample
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.reconcile.act import Actor
from workers.reconcile.decision_log import DecisionLog
from workers.reconcile.job_tracing import JobTracing
from workers.reconcile.observe import Observer
from workers.reconcile.reconcile_worker import LINGER
from workers.reconcile.reconciler import Reconciler
from workers.runtime import garbage_collection
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper, Notify
from workers.wiring import store_of, utc_now

#: Seconds: a busy machine must not take keys from their holder.
LEASE = 60.0


class _Silent:
    def record(self, *_: object) -> None:
        """Drops Events: writing them is not measured."""


async def _notify(_notifications: Mapping[str, int]) -> None:
    """Drops notifications: the benchmark itself consumes."""


@dataclass(frozen=True)
class Worker:
    """One worker on a broker of its own: its lanes, its cache, and its consumer."""

    client: redis.Redis
    lanes: Mapping[str, Lane]
    store: Store
    readings: Readings
    consumer: Consumer

    async def settle(self, notifications: int = 1) -> None:
        """Consumes, so many at once, until nothing is left to do."""
        while any(await asyncio.gather(*(self.consumer.consume() for _ in range(notifications)))):
            await asyncio.sleep(0)

    async def fill(self, kind: Kind, bodies: list[Object]) -> Mapping[str, int]:
        """Makes these the objects of their kind in the cache. Returns the notifications to send, by lane."""
        listing = await self.store.begin(kind, 1)
        notifications = await self.store.apply(kind, [ObjectVersion(body) for body in bodies], listing=listing)
        await self.store.finish(listing, {"": "999999999"})
        now = await self.store.touch(kind, 1, None)
        await self.store.touch(kind, 1, now)
        return notifications

    async def read(self, owner: Object, items: int) -> None:
        """Stores the reading that so many items wait for this ScaledJob; asks for no decision."""
        now = await broker_clock.now(self.client)
        sample = TriggerSample(name="s0-redis-work", type="redis", value=float(items), target=1.0, active=True)
        reading = Reading(id=now, started=now, generation=1, samples=(sample,), uid=owner["metadata"]["uid"])
        await store_readings(self.readings, {ref_of(SCALED_JOB, owner).key: reading}, self.lanes["reconcile"])


@asynccontextmanager
async def worker(
    client: redis.Redis,
    cluster: Any,
    *,
    in_flight: int = 16,
    jobs: Literal["managed", "all"] = "managed",
    controllers: Mapping[str, Controller] | None = None,
    clock: Callable[[], datetime] = utc_now,
    limiter: RequestLimiter | None = None,
    notify: Notify = _notify,
) -> AsyncIterator[Worker]:
    """A worker that writes to this cluster, with a cache that counts as fresh for an hour: no informer runs beside it.

    controllers: instead of the usual ones, with `jobs`. limiter: of the cluster; claims wait for it and continue in the
    background, as those of a process do, so that `Worker.settle` cannot know when all is done. notify: told of keys
    that are ready, where the caller does not consume until nothing is left.
    """
    await client.flushall()
    keys = Keys("bench")
    lanes = {name: Lane(client, name, keys, lease=LEASE) for name in ("reconcile", "poll")}
    await lanes["reconcile"].open()
    if controllers is None:
        controllers = registry.controllers(jobs, cronjobs=True)
    store = store_of(client, keys, lanes, controllers)
    readings = Readings(client, keys)
    reconciler = Reconciler(
        controllers=controllers,
        observer=Observer(
            controllers=controllers, store=store, readings=readings, stale=3600.0, orders=ClaimOrders(client, keys)
        ),
        actor=Actor(
            cluster=cluster,
            store=store,
            recorder=_Silent(),  # type: ignore[arg-type]
            orders=ClaimOrders(client, keys),
            reconcile=lanes["reconcile"],
            poll=lanes["poll"],
            notify=notify,
            in_flight=in_flight,
            tracing=JobTracing(cluster, clock),
        ),
        decisions=DecisionLog(client, keys),
        clock=clock,
        deadline=60.0,
        slow=limiter.is_slow if limiter else lambda namespace: False,
    )
    keeper = LeaseKeeper(lanes["reconcile"], notify, lease=LEASE)
    garbage_collection.begin(garbage_collection.YOUNG_OF_PLANS)
    background: dict[str, Any] = {"linger": LINGER, "room": limiter.room} if limiter else {}
    consumer = Consumer(keeper, reconciler.handle, notify, batch=64, work=60.0, **background)
    try:
        yield Worker(client, lanes, store, readings, consumer)
    finally:
        await consumer.close(0.0)
        await keeper.close()
