"""The wiring of a reconcile worker: controllers, observer, executor and their services."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from scheduler.keys import Keys
from workers.client.event_recorder import Recorder
from workers.client.rest import Cluster
from workers.client.scale_client import Scales
from workers.controllers import registry
from workers.decision.controller import Controller
from workers.decision.followed_kinds import followed
from workers.reconcile.act import Actor
from workers.reconcile.decision_log import DecisionLog
from workers.reconcile.job_tracing import JobTracing
from workers.reconcile.observe import Observer
from workers.reconcile.reconciler import Reconciler
from workers.reconcile.reservations import Reservations
from workers.runtime.consumer import Consumer
from workers.runtime.health import Health
from workers.settings import Settings
from workers.tracing import span_export
from workers.wiring import BrokerServices, broker_services, check_servers, connect, consuming, utc_now

#: Seconds after which a claim with slow plans continues in the background: creations that an admission webhook keeps
#: waiting must not keep a notification from other keys.
LINGER = 0.25


@asynccontextmanager
async def reconciling(settings: Settings, health: Health) -> AsyncIterator[Consumer]:
    """Opens the consumer of the reconcile lane, as the only service of a process. health: of the process."""
    health.loop("event loop", asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        controllers = registry.configured(settings)
        parts = await stack.enter_async_context(broker_services(settings, controllers))
        cluster = await connect(settings)
        stack.push_async_callback(cluster.close)
        check_servers(health, parts, cluster, followed(controllers))
        yield await stack.enter_async_context(reconcile_consumer(parts, cluster, controllers, health))


@asynccontextmanager
async def reconcile_consumer(
    parts: BrokerServices, cluster: Cluster, controllers: Mapping[str, Controller], health: Health
) -> AsyncIterator[Consumer]:
    """Opens the consumer of the reconcile lane on services that are open."""
    settings = parts.settings
    async with AsyncExitStack() as stack:
        sink = span_export.opened(settings)
        tracing = JobTracing(cluster, utc_now, sink)
        stack.push_async_callback(tracing.close)
        recorder = Recorder(cluster, clock=utc_now)
        stack.push_async_callback(recorder.close)
        reconciler = Reconciler(
            controllers=controllers,
            observer=Observer(
                controllers=controllers,
                store=parts.store,
                readings=parts.readings,
                stale=settings.stale,
                scales=Scales(cluster),
                orders=parts.orders,
            ),
            actor=Actor(
                cluster=cluster,
                store=parts.store,
                recorder=recorder,
                orders=parts.orders,
                reconcile=parts.lanes["reconcile"],
                poll=parts.lanes["poll"],
                notify=parts.notify,
                in_flight=settings.in_flight,
                tracing=tracing,
            ),
            decisions=DecisionLog(parts.client, Keys(settings.prefix)),
            clock=utc_now,
            deadline=settings.deadline,
            slow=cluster.limiter.is_slow,
            reservations=Reservations(
                parts.client,
                Keys(settings.prefix),
                parts.store,
                parts.lanes["reconcile"],
                parts.notify,
                stale=settings.stale,
            ),
        )
        yield await stack.enter_async_context(
            consuming(
                parts,
                "reconcile",
                reconciler.handle,
                health,
                linger=LINGER,
                room=cluster.limiter.room,
                cluster=cluster,
            )
        )
