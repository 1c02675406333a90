"""The watch process: the informers of every kind the controllers see, until a signal comes."""

import asyncio
import contextlib
import signal
from collections.abc import Collection, Mapping

from redis.exceptions import RedisError

from deploy import ready
from workers import base, logs, metrics
from workers.api.kinds import POD, Kind
from workers.controller import Controller
from workers.controllers import registry
from workers.informers import run_informers
from workers.mirror import Mirror
from workers.settings import Settings


def followed(controllers: Mapping[str, Controller]) -> tuple[tuple[Kind, ...], tuple[Kind, ...]]:
    """(all kinds to follow, those of them that the settings' selector narrows).

    Children, what may be adopted and what is seen whole are followed whatever their labels: who owns a selected
    object must see all it owns. Pods are followed because a controller may ask for grandchildren, object by object.
    """
    children = dict.fromkeys(
        kind for each in controllers.values() for kind in (*each.children, *each.adopts, *each.everywhere)
    )
    children |= {POD: None}
    own = [controller.kind for controller in controllers.values()]
    top = tuple(kind for kind in own if kind not in children)
    return (*top, *children), top


def main(settings: Settings) -> None:
    """Run until SIGINT or SIGTERM."""
    logs.set_up(settings.log_level)
    metrics.serve(settings.metrics_port)
    asyncio.run(_until_signal(settings))


async def _until_signal(settings: Settings) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    work = asyncio.create_task(serve(settings), name="watch")
    stop = asyncio.create_task(told.wait())
    await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not work.done():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def serve(settings: Settings) -> None:
    """Follow the kinds until cancelled."""
    controllers = registry.controllers(
        settings.jobs, cronjobs=settings.cronjobs, policies=settings.policies, workloads=settings.workloads
    )
    kinds, top = followed(controllers)
    async with base.base(settings, controllers) as parts:
        cluster = await base.connect(settings)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run_informers(settings, cluster, parts.mirror, kinds, parts.ring, top=top))
                group.create_task(_announce(parts.mirror, kinds))
        finally:
            await cluster.close()


async def _announce(mirror: Mirror, kinds: Collection[Kind]) -> None:
    """Say that this process is ready when every kind is known to be fresh, whoever leads it."""
    while not await _fresh(mirror, kinds):  # noqa: ASYNC110 - what is waited for is in the broker
        await asyncio.sleep(0.1)
    ready.announce()


async def _fresh(mirror: Mirror, kinds: Collection[Kind]) -> bool:
    try:
        return None not in (await mirror.freshness(kinds)).values()
    except RedisError:
        # The informers outlive a broker that is away, so must this.
        return False
