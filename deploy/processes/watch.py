"""The watch process: runs the informers of all kinds that controllers read until SIGINT or SIGTERM."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

import uvloop
from redis.exceptions import RedisError

from deploy.processes import readiness, until_signal
from workers import wiring
from workers.api.kinds import Kind
from workers.cache.informers import run_informers
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.controllers import registry
from workers.decision.controller import Controller
from workers.decision.followed_kinds import followed
from workers.runtime import default_queues, garbage_collection
from workers.runtime.health import Health
from workers.settings import Settings
from workers.wiring import BrokerServices

log = logging.getLogger(__name__)


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM."""
    # Its TLS costs less CPU for each event of a watch.
    until_signal.run(settings, _run, loop=uvloop.new_event_loop)


async def _run(settings: Settings, stop: asyncio.Event, health: Health) -> None:
    await until_stopped(serve(settings, health), stop)


async def until_stopped(endless: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Runs it until `stop` is set, and then cancels it. Raises what it raises."""
    work = asyncio.create_task(endless)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not work.done():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def serve(settings: Settings, health: Health) -> None:
    """Runs the informers until cancelled."""
    controllers = registry.configured(settings)
    async with wiring.broker_services(settings, controllers) as parts:
        cluster = await wiring.connect(settings)
        try:
            wiring.check_servers(health, parts, cluster, followed(controllers))
            garbage_collection.begin()
            await inform(parts, cluster, controllers, health)
        finally:
            await cluster.close()


async def inform(
    parts: BrokerServices, cluster: Cluster, controllers: Mapping[str, Controller], health: Health
) -> None:
    """Runs the informers on services that are open, until cancelled. Creates the ready file once they are."""
    settings, tried = parts.settings, asyncio.Event()
    kinds = followed(controllers, settings.selector)
    if not settings.cluster_scoped:
        log.info("kinds without namespaces are not read", extra={"namespaces": ", ".join(settings.namespaces)})
    async with asyncio.TaskGroup() as group:
        group.create_task(run_informers(settings, cluster, parts.store, kinds, parts.notify, health, parts.presence))
        group.create_task(_announce(parts.store, kinds, tried))
        if settings.volcano:
            group.create_task(default_queues.keep(cluster, tried))
        else:
            tried.set()


async def _announce(store: Store, kinds: Collection[Kind], queues: asyncio.Event) -> None:
    """Creates the ready file when every kind's store is fresh, whichever process leads that kind.

    queues: set once the default queues exist: before, the API server rejects work without a queue.
    """
    await queues.wait()
    while not await _fresh(store, kinds):  # noqa: ASYNC110 - the state is in the broker
        await asyncio.sleep(0.1)
    readiness.announce()


async def _fresh(store: Store, kinds: Collection[Kind]) -> bool:
    try:
        return None not in (await store.freshness(kinds)).values()
    except RedisError:
        # The informers survive an unreachable broker, so this must too.
        return False
