"""A reconcile worker: the controllers, and everything their decisions are carried out with."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from scheduler.keys import Keys
from workers.act import Actor
from workers.base import base, connect, draining, utc_now
from workers.controllers import registry
from workers.decisions import Decisions
from workers.drain import Drain
from workers.events import Recorder
from workers.observe import Observer
from workers.reconcile import Reconciler
from workers.reservations import Reservations
from workers.scales import Scales
from workers.settings import Settings


@asynccontextmanager
async def reconciling(settings: Settings) -> AsyncIterator[Drain]:
    """A reconcile worker: answers the bells of the reconcile lane."""
    async with AsyncExitStack() as stack:
        controllers = registry.configured(settings)
        parts = await stack.enter_async_context(base(settings, controllers))
        cluster = await connect(settings)
        stack.push_async_callback(cluster.close)
        recorder = Recorder(cluster, clock=utc_now)
        stack.push_async_callback(recorder.close)
        reconciler = Reconciler(
            controllers=controllers,
            observer=Observer(
                controllers=controllers,
                mirror=parts.mirror,
                readings=parts.readings,
                stale=settings.stale,
                scales=Scales(cluster),
            ),
            actor=Actor(
                cluster=cluster,
                mirror=parts.mirror,
                recorder=recorder,
                orders=parts.orders,
                reconcile=parts.lanes["reconcile"],
                poll=parts.lanes["poll"],
                ring=parts.ring,
                in_flight=settings.in_flight,
            ),
            decisions=Decisions(parts.client, Keys(settings.prefix)),
            clock=utc_now,
            deadline=settings.deadline,
            reservations=Reservations(
                parts.client,
                Keys(settings.prefix),
                parts.mirror,
                parts.lanes["reconcile"],
                parts.ring,
                stale=settings.stale,
            ),
        )
        yield await stack.enter_async_context(draining(parts, "reconcile", reconciler.handle))
