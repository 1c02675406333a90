"""The watch process: the informers of every kind the controllers see, until a signal comes."""

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
    """The kinds to follow, each with the labels that its objects must have ("": any).

    selector: the settings' own; it narrows only kinds that nobody looks for from another object. Who owns, adopts or
    is named by what a controller sees must see all of it, whatever its labels; but of kinds whose objects all carry a
    label of ours no others are followed. Pods are followed because a controller may ask for grandchildren, object by
    object.
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
    """Run until SIGINT or SIGTERM."""
    until_signal.run(settings, _until_told)


async def _until_told(settings: Settings, told: asyncio.Event) -> None:
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
    """Say that this process is ready when every kind is known to be fresh, whoever leads it.

    queues: set when the built-in queues have been seen to: work that names none is refused before.
    """
    await queues.wait()
    while not await _fresh(store, kinds):  # noqa: ASYNC110 - what is waited for is in the broker
        await asyncio.sleep(0.1)
    readiness.announce()


async def _fresh(store: Store, kinds: Collection[Kind]) -> bool:
    try:
        return None not in (await store.freshness(kinds)).values()
    except RedisError:
        # The informers outlive a broker that is away, so must this.
        return False
