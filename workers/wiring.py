"""The wiring of a process: the broker's client and the services that keep their state in the broker."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from penstock import __version__
from scheduler.keys import Keys
from scheduler.queue import Lane, RetryBackoff
from workers.api.references import REFERENCES
from workers.app import LANES, app
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.decision.controller import Controller
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.metrics import servers
from workers.runtime import broker_info, redis_client
from workers.runtime.consumer import Consumer, Handler
from workers.runtime.leases import LeaseKeeper, Notify
from workers.runtime.notifier import Notifier
from workers.settings import Settings


def utc_now() -> datetime:
    """The wall clock, read at the edge only; below it time is an argument."""
    return datetime.now(UTC)


def broker_client(settings: Settings, *, connections: int = 64) -> redis.Redis:
    """A client of the broker: every call has a deadline, and a lost connection is tried again for a moment.

    Every script is idempotent under that replay.
    """
    return redis_client.client(
        settings.broker.get_secret_value(),
        socket_timeout=5,
        socket_connect_timeout=3,
        socket_keepalive=True,
        health_check_interval=10,
        max_connections=connections,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
        client_name=f"penstock/{__version__}",
    )


@dataclass(frozen=True)
class BrokerServices:
    """The services of every process. notify: sends notifications for lanes."""

    settings: Settings
    client: redis.Redis
    lanes: Mapping[str, Lane]
    store: Store
    readings: Readings
    orders: ClaimOrders
    notify: Notify


def lanes_of(controllers: Mapping[str, Controller], lanes: Mapping[str, Lane]) -> dict[str, tuple[Lane, ...]]:
    """By kind id, the lanes in which a change of an object of that kind is news."""
    return {
        kind_id: (lanes["reconcile"], lanes["poll"]) if controller.polled else (lanes["reconcile"],)
        for kind_id, controller in controllers.items()
    }


def store_of(
    client: redis.Redis, keys: Keys, lanes: Mapping[str, Lane], controllers: Mapping[str, Controller]
) -> Store:
    """Returns the store for these controllers; all processes that write to one must know the same controllers."""
    return Store(
        client,
        keys,
        lanes_of(controllers, lanes),
        accepts={kind_id: controller.accepts for kind_id, controller in controllers.items()},
        adopted={kind.id for controller in controllers.values() for kind in controller.adopts},
        references={
            kind.id: REFERENCES[kind.id]
            for controller in controllers.values()
            for kind in (*controller.referrers, *((controller.kind,) if controller.peers else ()))
        },
    )


@asynccontextmanager
async def base(
    settings: Settings, controllers: Mapping[str, Controller] = MappingProxyType({})
) -> AsyncIterator[BrokerServices]:
    """Opens the broker's services.

    controllers: by kind id. A process that writes to the store must know them: they determine the keys it marks.
    """
    keys = Keys(settings.prefix)
    client = broker_client(settings)
    backoff = RetryBackoff(base=settings.backoff_base, cap=settings.backoff_cap)
    lanes = {
        name: Lane(client, name, keys, lease=settings.lease, backoff=backoff, slots=settings.slots) for name in LANES
    }
    notifier = Notifier(app, LANES)
    try:
        yield BrokerServices(
            settings=settings,
            client=client,
            lanes=lanes,
            store=store_of(client, keys, lanes, controllers),
            readings=Readings(client, keys),
            orders=ClaimOrders(client, keys),
            notify=notifier.notify,
        )
    finally:
        notifier.close()
        await client.aclose()


@asynccontextmanager
async def consuming(
    base: BrokerServices, lane: str, handle: Handler, *, linger: float | None = None
) -> AsyncIterator[Consumer]:
    """Opens the consumer of one lane with this handler, and sweeps the lane every second.

    linger: seconds after which an unfinished claim continues in the background.
    """
    keeper = LeaseKeeper(base.lanes[lane], base.notify, lease=base.settings.lease)
    consumer = Consumer(keeper, handle, base.notify, batch=base.settings.batch, work=base.settings.work, linger=linger)
    tasks = (
        asyncio.create_task(consumer.sweep_forever(), name=f"sweep {lane}"),
        asyncio.create_task(broker_info.export_forever(base.client), name="read the broker's INFO"),
    )
    try:
        yield consumer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await consumer.close()
        await keeper.close()


async def connect(settings: Settings) -> Cluster:
    """Returns a client of the API server that the settings name; its requests count in the metrics."""
    cluster = await Cluster.connect(
        kubeconfig=settings.kubeconfig,
        context=settings.context,
        timeout=settings.timeout,
        in_flight=settings.in_flight,
    )
    cluster.answered = servers.export_request
    return cluster
