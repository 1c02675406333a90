"""The wiring of a process: the broker's client and the services that keep their state in the broker."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from penstock import __version__
from scheduler.broker import clients
from scheduler.keys import Keys
from scheduler.queue import Lane, RetryBackoff
from workers.api.kinds import Kind
from workers.api.references import REFERENCES
from workers.cache import decode_cache
from workers.cache.store import Store
from workers.cancellation import cancelled
from workers.client.request_limiter import Priority, requests
from workers.client.rest import Cluster
from workers.decision.controller import Controller
from workers.errors import Forbidden, Stale
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.lanes import LANES
from workers.metrics import servers
from workers.runtime import broker_info, free_memory
from workers.runtime.api_reach import ApiReach
from workers.runtime.consumer import Consumer, Handler, Room
from workers.runtime.format_guard import FormatGuard
from workers.runtime.health import Check, Health
from workers.runtime.leases import RENEWALS, LeaseKeeper, Notify
from workers.runtime.notifier import Notifier
from workers.runtime.presence import Presence
from workers.settings import Settings


def utc_now() -> datetime:
    """The wall clock, read at the edge only; below it time is an argument."""
    return datetime.now(UTC)


def broker_client(settings: Settings, *, connections: int = 64, patience: float = 5.0) -> redis.Redis:
    """A client of the broker: every call has a deadline, and a lost connection is tried again for a moment.

    Every script is idempotent under that replay. patience: seconds that one answer may take.
    """
    return clients.client(
        settings.broker_address,
        socket_timeout=patience,
        socket_connect_timeout=min(patience, 3.0),
        socket_keepalive=True,
        health_check_interval=10,
        max_connections=connections,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
        client_name=f"penstock/{__version__}",
    )


@dataclass(frozen=True)
class BrokerServices:
    """The services of every process. notify: sends notifications for lanes. presence: begins where it is kept.

    sweep_every: seconds between two sweeps of a lane by its consumer.
    """

    settings: Settings
    client: redis.Redis
    lanes: Mapping[str, Lane]
    store: Store
    readings: Readings
    orders: ClaimOrders
    notify: Notify
    presence: Presence
    sweep_every: float = 1.0


def lanes_of(controllers: Mapping[str, Controller], lanes: Mapping[str, Lane]) -> dict[str, tuple[Lane, ...]]:
    """By kind id, the lanes in which a change of an object of that kind is news."""
    return {
        kind_id: (lanes["reconcile"], lanes["poll"]) if controller.polled else (lanes["reconcile"],)
        for kind_id, controller in controllers.items()
    }


def store_of(
    client: redis.Redis,
    keys: Keys,
    lanes: Mapping[str, Lane],
    controllers: Mapping[str, Controller],
    kept: int = decode_cache.SIZE,
) -> Store:
    """Returns the store for these controllers; all processes that write to one must know the same controllers.

    kept: bytes of values whose decoded objects stay in memory.
    """
    return Store(
        client,
        keys,
        lanes_of(controllers, lanes),
        accepts={kind_id: controller.accepts for kind_id, controller in controllers.items()},
        adopted={kind.id for controller in controllers.values() for kind in controller.adopts},
        references={
            kind.id: REFERENCES[kind.id]
            for controller in controllers.values()
            for kind in (*controller.referrers, *controller.peers)
        },
        kept=kept,
    )


@asynccontextmanager
async def broker_services(
    settings: Settings,
    controllers: Mapping[str, Controller] = MappingProxyType({}),
    *,
    notify: Notify | None = None,
    sweep_every: float = 1.0,
    kept: int = decode_cache.SIZE,
) -> AsyncIterator[BrokerServices]:
    """Opens the broker's services, and ends this process when it may no longer work on the broker's data.

    controllers: by kind id. A process that writes to the store must know them: they determine the keys it marks.
    notify: sends notifications for lanes, to Celery workers if None. sweep_every: seconds between two sweeps by a
    consumer. kept: bytes of the store's values whose decoded objects stay in memory.

    Raises penstock._broker_format.FormatRefused if this release does not read the broker's data, or a restore has not
    ended; at the end if that was found out meanwhile.
    """
    keys = Keys(settings.prefix)
    client = broker_client(settings)
    backoff = RetryBackoff(base=settings.backoff_base, cap=settings.backoff_cap)
    # A poll is little work, and cheap in large claims: a notification for every claim that can be filled is enough.
    spread = {"poll": settings.batch}
    lanes = {
        name: Lane(
            client,
            name,
            keys,
            lease=settings.lease,
            backoff=backoff,
            slots=settings.slots,
            spread=spread.get(name),
        )
        for name in LANES
    }
    guard = FormatGuard(client, keys)
    async with AsyncExitStack() as stack:
        stack.callback(guard.tell)
        stack.push_async_callback(client.aclose)
        await broker_info.report_problems(client, keys, settings.broker_address)
        if notify is None:
            notify = Notifier(client, settings.prefix).notify
        await guard.begin()
        stack.push_async_callback(cancelled, asyncio.create_task(guard.watch(), name="watch the format"))
        freeing = free_memory.keep_giving_back(free_memory.SELDOM)
        stack.push_async_callback(cancelled, asyncio.create_task(freeing, name="give memory back"))
        yield BrokerServices(
            settings=settings,
            client=client,
            lanes=lanes,
            store=store_of(client, keys, lanes, controllers, kept),
            readings=Readings(client, keys),
            orders=ClaimOrders(client, keys),
            notify=notify,
            presence=Presence(client, lambda: broker_client(settings, connections=2, patience=1.0), keys),
            sweep_every=sweep_every,
        )


@asynccontextmanager
async def _lane_beside(settings: Settings, name: str) -> AsyncIterator[Lane]:
    """Opens the lane with a client of its own, which gives up an answer in time for another attempt to renew."""
    client = broker_client(settings, connections=2, patience=settings.lease / RENEWALS)
    try:
        yield Lane(client, name, Keys(settings.prefix), lease=settings.lease)
    finally:
        await client.aclose()


def check_servers(health: Health, parts: "BrokerServices", cluster: Cluster, kinds: Collection[Kind]) -> None:
    """Adds the checks of a process that reads these kinds from the cache."""
    health.check("broker", broker_answers(parts.client))
    health.check("API server", cluster_answers(cluster))
    health.check("cache", cache_is_fresh(parts.store, kinds, parts.settings.stale))


def broker_answers(client: redis.Redis) -> Check:
    """Returns the check that the broker answers."""

    async def check() -> str | None:
        return None if await client.ping() else "it does not answer PING"

    return check


def cluster_answers(cluster: Cluster) -> Check:
    """Returns the check that the API server answers, and knows this process."""

    async def check() -> str | None:
        try:
            await _version(cluster)
        except Forbidden as error:
            # It answers. Some clusters keep their version from accounts that may do their work.
            return None if error.status == 403 else str(error)
        return None

    return check


def cache_is_fresh(store: Store, kinds: Collection[Kind], stale: float) -> Check:
    """Returns the check that the cache knows these kinds, and of changes at most `stale` seconds ago."""

    async def check() -> str | None:
        try:
            await store.require_fresh(tuple(kinds), stale)
        except Stale as error:
            return str(error)
        return None

    return check


@asynccontextmanager
async def consuming(
    parts: BrokerServices,
    lane: str,
    handle: Handler,
    health: Health,
    *,
    linger: float | None = None,
    room: Room | None = None,
    cluster: Cluster | None = None,
) -> AsyncIterator[Consumer]:
    """Opens the consumer of one lane with this handler, and sweeps the lane.

    What it has in hand when it is closed may take as long as one reconcile.

    health: of the process; it gets the lane's tasks. linger: seconds after which an unfinished claim continues in the
    background. room: claims wait for it. cluster: the API server without which there is nothing to do in this lane.
    """
    keeper = LeaseKeeper(
        parts.lanes[lane], parts.notify, lease=parts.settings.lease, beside=partial(_lane_beside, parts.settings, lane)
    )
    reach = ApiReach(partial(_version, cluster), keeper.abandon) if cluster else None
    consumer = Consumer(
        keeper,
        handle,
        parts.notify,
        batch=parts.settings.batch,
        work=parts.settings.work,
        linger=linger,
        able=lambda: reach is None or reach.there,
        room=room,
    )
    sweeping = asyncio.create_task(consumer.sweep_forever(parts.sweep_every, health.pulse(f"sweep {lane}")))
    tasks = (
        sweeping,
        *((asyncio.create_task(reach.watch(), name="ask the API server"),) if reach else ()),
        asyncio.create_task(broker_info.export_forever(parts.client), name="read the broker's INFO"),
    )
    try:
        with health.endless({f"sweep {lane}": sweeping, f"renew leases of {lane}": keeper.renewing}):
            yield consumer
    finally:
        health.forget(f"sweep {lane}")
        await cancelled(*tasks)
        await consumer.close(parts.settings.deadline)
        await keeper.close()


async def _version(cluster: Cluster) -> object:
    """Asks the API server for its version, before everything that waits: it is asked whether it answers at all."""
    with requests(Priority.ELECT):
        return await cluster.request("GET", "/version")


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
