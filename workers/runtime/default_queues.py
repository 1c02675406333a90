"""The queues that must always be there: `root`, above all others, and `default`, for work that names none."""

import asyncio
import logging

from workers.api.kinds import QUEUE, Object, Ref
from workers.api.references import DEFAULT_QUEUE, ROOT_QUEUE
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, ClusterError, NotFound
from workers.logs import Outage

log = logging.getLogger(__name__)

#: Seconds between two looks, and before one that failed is repeated.
LOOK = 30.0
AGAIN = 1.0

_SPECS: dict[str, Object] = {
    ROOT_QUEUE: {"weight": 1, "reclaimable": False},
    DEFAULT_QUEUE: {"weight": 1, "reclaimable": True, "parent": ROOT_QUEUE},
}


async def establish(cluster: Cluster) -> list[str]:
    """Makes those that are missing, and answers their names. Raises ClusterError, NotFound without their definition."""
    made = []
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
            made.append(name)
    return made


async def keep(cluster: Cluster, tried: asyncio.Event) -> None:
    """Sees to it until cancelled that they are there; any number of processes may.

    tried: set after the first attempt, whatever came of it: who may not make queues may still watch them.
    """
    outage = Outage(log)
    while True:
        try:
            if made := await establish(cluster):
                log.info("queues were made", extra={"queues": ", ".join(made)})
        except ClusterError as error:
            outage.lasts("the queues that must be there are not known to be", error=str(error))
            tried.set()
            await asyncio.sleep(AGAIN)
        else:
            outage.over("the queues that must be there are")
            tried.set()
            await asyncio.sleep(LOOK)
