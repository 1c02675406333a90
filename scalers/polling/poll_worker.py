"""The scaler process: it polls objects that are due and listens for pushes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from redis.asyncio import Redis

from scalers.auth.authenticator import Authenticator
from scalers.auth.lookups import Lookups
from scalers.auth.vault import Vaults
from scalers.deliveries.deliveries import Deliveries
from scalers.deliveries.forgotten_deliveries import ForgottenDeliveries
from scalers.polling.poller import Poller
from scalers.triggers.parse import Triggers
from scalers.wakeups.wakeups import Wakeups
from scheduler.keys import Keys
from workers.api.kinds import EVENT_JOB, SCALED_JOB, SCALED_OBJECT
from workers.cache.decode_cache import SIZE_OF_POLLER
from workers.cancellation import cancelled
from workers.client.rest import Cluster
from workers.runtime.consumer import Consumer
from workers.runtime.health import Health
from workers.settings import Settings
from workers.wiring import BrokerServices, broker_services, check_servers, connect, consuming

log = logging.getLogger(__name__)

#: Seconds that the consumer waits for the servers of the keys it claimed before it claims the next ones.
LINGER = 0.25
#: Kinds whose objects are measured.
MEASURED = (SCALED_JOB, SCALED_OBJECT, EVENT_JOB)


@asynccontextmanager
async def measuring(settings: Settings, health: Health) -> AsyncIterator[Consumer]:
    """Opens the consumer of the poll lane, as the only service of a process. health: of the process."""
    health.loop("event loop", asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(broker_services(settings, kept=SIZE_OF_POLLER))
        cluster = await connect(settings)
        stack.push_async_callback(cluster.close)
        check_servers(health, parts, cluster, MEASURED)
        yield await stack.enter_async_context(poll_consumer(parts, cluster, health))


@asynccontextmanager
async def poll_consumer(parts: BrokerServices, cluster: Cluster, health: Health) -> AsyncIterator[Consumer]:
    """Opens the consumer of the poll lane on services that are open.

    It reads from the cluster only what triggers name: authentications, ConfigMaps, Secrets, service accounts' tokens,
    and the objects that they measure.
    """
    settings = parts.settings
    async with AsyncExitStack() as stack:
        vaults = vaults_of(settings)
        stack.push_async_callback(vaults.close)
        triggers = triggers_of(settings, lookups_of(settings, cluster), vaults)
        wakeups = None
        if settings.wakeups:
            wakeups = Wakeups(
                client=parts.client,
                keys=Keys(settings.prefix),
                poll=parts.lanes["poll"],
                notify=parts.notify,
                store=parts.store,
                triggers=triggers,
            )
            listening = asyncio.create_task(_listen(wakeups), name="wake-ups")
            stack.enter_context(health.endless({"wake-ups": listening}))
            stack.push_async_callback(cancelled, listening)
        deliveries = removable_deliveries(settings, parts.client)
        if deliveries is not None:
            sweeping = asyncio.create_task(
                ForgottenDeliveries(deliveries, parts.store, settings.stale).sweep_forever(),
                name="forgotten deliveries",
            )
            stack.enter_context(health.endless({"forgotten deliveries": sweeping}))
            stack.push_async_callback(cancelled, sweeping)
        poller = Poller(
            store=parts.store,
            readings=parts.readings,
            orders=parts.orders,
            reconcile=parts.lanes["reconcile"],
            notify=parts.notify,
            settings=settings,
            triggers=triggers,
            deliveries=deliveries,
            wakeups=wakeups,
            cluster=cluster,
        )
        stack.push_async_callback(poller.close)
        yield await stack.enter_async_context(consuming(parts, "poll", poller.handle, health, linger=LINGER))


def removable_deliveries(settings: Settings, client: Redis) -> Deliveries | None:
    """Returns the deliveries from which those of EventJobs that are gone are removed.

    None with a selector: an EventJob that does not match it any more looks gone, and its events would be lost.
    """
    return None if settings.selector else Deliveries(client, Keys(settings.prefix))


def vaults_of(settings: Settings) -> Vaults:
    """Returns the clients of vaults, as the settings say. The caller closes them."""
    return Vaults(
        servers=settings.vault_servers,
        token_file=settings.vault_token_file,
        authority=settings.vault_ca,
        timeout=settings.source_timeout,
    )


def lookups_of(settings: Settings, cluster: Cluster) -> Lookups:
    """Returns the cached reads of Secrets and other objects in the cluster, as the settings say."""
    return Lookups(
        cluster.get,
        cluster.request,
        own_namespace=settings.own_namespace,
        restricted=settings.restrict_secrets,
        cluster_scoped=settings.cluster_scoped,
    )


def triggers_of(settings: Settings, lookups: Lookups, vaults: Vaults) -> Triggers:
    """Returns the parser of triggers, as the settings say."""
    return Triggers(
        lookups=lookups,
        authenticator=Authenticator(
            settings.own_namespace,
            vaults,
            settings.auth_folder,
            missing_is_empty="missing-secrets" in settings.keda_quirks,
        ),
        broker=settings.broker_url,
        prefix=settings.prefix,
        most=settings.max_triggers,
        quirks=settings.keda_quirks,
    )


async def _listen(wakeups: Wakeups, *, pause: float = 5.0) -> None:
    """Listens until cancelled. An unexpected error is logged and listening starts again; polling goes on meanwhile."""
    while True:
        try:
            await wakeups.run()
        except Exception:
            log.exception("listening for wake-ups failed; it starts again")
        await asyncio.sleep(pause)
