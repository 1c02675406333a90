"""The watch process: runs the informers of all kinds that controllers read until SIGINT or SIGTERM."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping

from redis.exceptions import RedisError

from deploy.processes import readiness, until_signal
from workers import wiring
from workers.api.kinds import POD, Kind
from workers.cache.informers import run_informers
from workers.cache.store import Store
from workers.controllers import registry
from workers.decision.controller import Controller
from workers.runtime import default_queues
from workers.settings import Settings


def followed(controllers: Mapping[str, Controller], selector: str = "") -> dict[Kind, str]:
    """Returns the kinds to follow, each with its label selector ("": all objects).

    selector: the settings' own, which applies only to kinds that no controller reaches from another object: children,
    adopted and referenced objects must be complete. A kind whose objects all carry one of Penstock's labels is narrowed
    by it. Pods are always followed, because a controller may request grandchildren of any object.
    """
    needs: dict[Kind, set[str]] = {POD: {""}}
    for each in controllers.values():
        for kind in (*each.children, *each.adopts, *each.referrers, *each.cluster_wide, *each.follows):
            needs.setdefault(kind, set()).add(each.labelled.get(kind.id, ""))
    top = {each.kind: selector for each in controllers.values() if each.kind not in needs}
    return top | {
        kind: min(labels) if len(labels) == 1 and kind.id not in controllers else "" for kind, labels in needs.items()
    }


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM."""
    until_signal.run(settings, _run)


async def _run(settings: Settings, stop: asyncio.Event) -> None:
    work = asyncio.create_task(serve(settings), name="watch")
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not work.done():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def serve(settings: Settings) -> None:
    """Runs the informers until cancelled."""
    controllers = registry.configured(settings)
    kinds = followed(controllers, settings.selector)
    async with wiring.base(settings, controllers) as parts:
        cluster = await wiring.connect(settings)
        tried = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run_informers(settings, cluster, parts.store, kinds, parts.notify))
                group.create_task(_announce(parts.store, kinds, tried))
                if settings.volcano:
                    group.create_task(default_queues.keep(cluster, tried))
                else:
                    tried.set()
        finally:
            await cluster.close()


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
