"""The scaler process: it polls objects that are due and listens for pushes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from scalers.auth.authenticator import Authenticator
from scalers.auth.lookups import Lookups
from scalers.auth.vault import Vaults
from scalers.deliveries.deliveries import Deliveries
from scalers.polling.poller import Poller
from scalers.triggers.parse import Triggers
from scalers.wakeups.wakeups import Wakeups
from scheduler.keys import Keys
from workers.client.rest import Cluster
from workers.runtime.consumer import Consumer
from workers.settings import Settings
from workers.wiring import base, connect, consuming

log = logging.getLogger(__name__)

#: Seconds that the consumer waits for the servers of the keys it claimed before it claims the next ones.
LINGER = 0.25


@asynccontextmanager
async def measuring(settings: Settings) -> AsyncIterator[Consumer]:
    """Yields the consumer of the poll lane.

    It reads from the cluster only what triggers name: authentications, ConfigMaps, Secrets, service accounts' tokens,
    and the objects that they measure.
    """
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(base(settings))
        cluster = await connect(settings)
        stack.push_async_callback(cluster.close)
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
            stack.push_async_callback(_cancel, listening)
        poller = Poller(
            store=parts.store,
            readings=parts.readings,
            orders=parts.orders,
            reconcile=parts.lanes["reconcile"],
            notify=parts.notify,
            settings=settings,
            triggers=triggers,
            deliveries=Deliveries(parts.client, Keys(settings.prefix)),
            wakeups=wakeups,
            cluster=cluster,
        )
        stack.push_async_callback(poller.close)
        yield await stack.enter_async_context(consuming(parts, "poll", poller.handle, linger=LINGER))


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
        broker=settings.broker.get_secret_value(),
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


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
