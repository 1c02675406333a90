"""Volcano's default Queues, which must always exist: `root`, the parent of all, and `default`."""

import asyncio
import logging

from workers.api.kinds import QUEUE, Object, Ref
from workers.api.references import DEFAULT_QUEUE, ROOT_QUEUE
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, ClusterError, NotFound
from workers.json_logs import Outage

log = logging.getLogger(__name__)

#: Seconds between two checks, and after a failed one.
CHECK, RETRY = 30.0, 1.0

_SPECS: dict[str, Object] = {
    ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    DEFAULT_QUEUE: {"weight": 1, "reclaimable": True, "parent": ROOT_QUEUE},
}


async def establish(cluster: Cluster) -> list[str]:
    """Creates the missing ones and returns their names. Raises ClusterError; NotFound without their definition."""
    created = []
    for name, spec in _SPECS.items():
        try:
            await cluster.get(Ref(QUEUE, "", name))
        except NotFound:
            body = {
                "apiVersion": QUEUE.api_version,
                "kind": QUEUE.kind,
                "metadata": {"name": name},
                "spec": spec,
            }
            try:
                await cluster.create(QUEUE, body)
            except AlreadyExists:
                continue
            created.append(name)
    return created


async def keep(cluster: Cluster, tried: asyncio.Event) -> None:
    """Creates missing queues until cancelled; any number of processes may.

    tried: set after the first attempt, even a failed one: an account that may not create queues may still watch them.
    """
    outage = Outage(log)
    while True:
        try:
            if created := await establish(cluster):
                log.info("queues were made", extra={"queues": ", ".join(created)})
        except ClusterError as error:
            outage.lasts("the queues that must be there are not known to be", error=str(error))
            tried.set()
            await asyncio.sleep(RETRY)
        else:
            outage.over("the queues that must be there are")
            tried.set()
            await asyncio.sleep(CHECK)
