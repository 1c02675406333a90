"""The shared informers of a process: a reflector per kind, running while this process leads the kind."""

import asyncio
import logging
import re
import secrets
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing, nullcontext, suppress

from redis.exceptions import RedisError

from workers.api.kinds import LEASE, Kind, Ref
from workers.cache.reflector import Pace, Reflector
from workers.cache.store import LeadershipLost, Store
from workers.client.leader_election import Elector, Terms, Work
from workers.client.rest import Cluster
from workers.errors import Unavailable
from workers.json_logs import Outage
from workers.metrics.objects import OBJECT_METRICS
from workers.metrics.servers import LEADER
from workers.runtime.health import STILL, Health
from workers.runtime.leases import Notify
from workers.runtime.presence import Presence
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds until a broken subscription is tried again.
AGAIN = 1.0


async def run_informers(
    settings: Settings,
    cluster: Cluster,
    store: Store,
    kinds: Mapping[Kind, str],
    notify: Notify,
    health: Health,
    presence: Presence | None = None,
) -> None:
    """Campaigns for each kind and follows it while leading, until cancelled; any number of processes may.

    kinds: by kind, the label selector of the objects to follow ("": all). health: of the process; it gets a task and a
    pulse for each kind. presence: tells other candidates that this process is alive; without it they wait until its
    Leases run out when it is killed.
    """
    terms = Terms.of(settings.leadership)
    identity = presence.identity if presence else f"{socket.gethostname()}_{secrets.token_hex(4)}"
    async with (
        presence.kept() if presence else nullcontext(),
        asyncio.TaskGroup() as group,
        AsyncExitStack() as stack,
    ):
        asked = {kind.id: asyncio.Event() for kind in kinds}
        group.create_task(_receive_requests(store, asked), name="requests for proofs")
        for kind, selector in kinds.items():
            reflector = Reflector(
                cluster,
                store,
                kind,
                notify,
                namespaces=settings.namespaces if kind.namespaced else (),
                selector=selector,
                pace=pace(settings),
                table=OBJECT_METRICS.table(kind),
                asked=asked[kind.id],
            )
            lease = Ref(LEASE, settings.own_namespace, lease_name(settings.prefix, kind))
            name = f"inform {kind.id}"
            # An attempt may take some calls, each up to its deadline.
            trying = health.pulse(name, STILL + 2 * settings.timeout)
            floor = _Floor(store, kind)
            elector = Elector(cluster, lease, identity, terms=terms, presence=presence, floor=floor, trying=trying)
            stack.callback(health.forget, name)
            informing = group.create_task(elector.lead(_until_deposed(kind, reflector)), name=name)
            stack.enter_context(health.endless({name: informing}))
        await asyncio.Future()


async def _receive_requests(store: Store, asked: Mapping[str, asyncio.Event]) -> None:
    """Sets the events of the kinds whose freshness is to be proved at once."""
    outage = Outage(log)
    while True:
        try:
            async with aclosing(store.proofs_asked_for()) as messages:
                async for ids in messages:
                    outage.over("requests for proofs of freshness arrive again")
                    for id in asked.keys() & ids:
                        asked[id].set()
        except (RedisError, OSError) as error:
            outage.lasts("requests for proofs of freshness do not arrive", error=str(error))
            await asyncio.sleep(AGAIN)


def pace(settings: Settings) -> Pace:
    """Returns the default pace, made quick enough that a followed kind never counts as stale."""
    usual = Pace()
    return Pace(beat=min(usual.beat, settings.stale / 8), probe=min(usual.probe, settings.stale / 4))


def lease_name(prefix: str, kind: Kind) -> str:
    """Returns the name of a kind's Lease, with the prefix reduced to the characters that names may have."""
    return f"{re.sub('[^a-z0-9.-]', '-', prefix.lower()).strip('.-') or 'x'}-informer-{kind.id}"


class _Floor:
    """Reads the store's epoch of a kind: a Lease that was deleted would count from 0 again."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind

    async def __call__(self) -> int:
        try:
            return await self._store.epoch(self._kind)
        except RedisError as error:
            raise Unavailable(f"the broker does not tell the epoch: {error}") from error


def _until_deposed(kind: Kind, reflector: Reflector) -> Work:
    async def work(epoch: int) -> None:
        # A later epoch writes although our Lease has not run out: the other candidate's clock runs faster. Campaign
        # again.
        with LEADER.labels(kind.id).track_inprogress(), suppress(LeadershipLost):
            await reflector.run(epoch)

    return work
