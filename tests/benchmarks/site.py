"""A worker on an API server, whose decisions are measured and whose writes are counted.

BENCH_PROFILE=1 prints where the time of its process goes.
"""

import asyncio
import cProfile
import gc
import os
import pstats
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter
from typing import Any

from deploy.local import crd_installation
from tests.benchmarks.harness import IN_FLIGHT
from tests.benchmarks.stack import clients
from tests.benchmarks.worker import Worker, worker
from workers.api import crds
from workers.api.kinds import POD, QUEUE, Kind, Object, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.client.rest import Cluster
from workers.controllers import registry
from workers.controllers.volcano.podgroup.decide import ROUND
from workers.decision.controller import Controller
from workers.decision.followed_kinds import followed
from workers.decision.plan import Plan
from workers.decision.snapshot import Snapshot
from workers.runtime import default_queues

#: Consumers side by side.
SLOTS = 16
#: Seconds between two looks at what became due.
SWEEP = 0.02


@dataclass
class Costs:
    """Seconds that decisions took, by kind; `round` stands for the admission round, which is queue root's."""

    spent: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measured(self, controllers: Mapping[str, Controller]) -> dict[str, Controller]:
        """The controllers, each with a decision that is measured."""
        return {id: replace(each, decide=self._decide(each)) for id, each in controllers.items()}

    def mean(self, what: str) -> float:
        """Milliseconds."""
        return 1000 * sum(self.spent[what]) / len(self.spent[what])

    def _decide(self, controller: Controller) -> Callable[[Snapshot, datetime], Plan]:
        def decide(snapshot: Snapshot, now: datetime) -> Plan:
            started = perf_counter()
            try:
                return controller.decide(snapshot, now)
            finally:
                what = "round" if snapshot.ref == ROUND else controller.kind.id
                self.spent[what].append(perf_counter() - started)

        return decide


class Watched:
    """A cluster that counts what is written, and shows each pod that may start and each object that was written."""

    def __init__(self, server: Cluster) -> None:
        self.server = server
        self.writes: Counter[tuple[str, str]] = Counter()
        self.free: asyncio.Queue[Ref] = asyncio.Queue()
        self.written: Callable[[Kind, Object], None] = lambda _kind, _body: None

    async def create(self, kind: Kind, body: Object) -> Object:
        return self._seen("create", kind, await self.server.create(kind, body))

    async def patch(self, ref: Ref, body: Any, **options: Any) -> Object:
        return self._seen("patch", ref.kind, await self.server.patch(ref, body, **options))

    async def delete(self, ref: Ref, **options: Any) -> Any:
        self.writes["delete", ref.kind.id] += 1
        return await self.server.delete(ref, **options)

    def each(self, verb: str, kind: Kind, number: int) -> int:
        """Returns the number of such writes per object, rounded."""
        return round(self.writes[verb, kind.id] / number)

    def _seen(self, verb: str, kind: Kind, body: Object) -> Object:
        self.writes[verb, kind.id] += 1
        if kind == POD and not body["spec"].get("schedulingGates") and not body["metadata"].get("deletionTimestamp"):
            self.free.put_nowait(ref_of(POD, body))
        self.written(kind, body)
        return body

    def __getattr__(self, name: str) -> Any:
        return getattr(self.server, name)


@dataclass(frozen=True)
class Site:
    """A worker on an API server."""

    server: Cluster
    cluster: Watched
    worker: Worker
    costs: Costs
    notifications: "Notifications"

    async def add(self, kind: Kind, body: Object) -> Object:
        """Makes an object, and tells the mirror."""
        made = await self.server.create(kind, body)
        await self.tell(kind, [made])
        return made

    async def tell(self, kind: Kind, bodies: Sequence[Object]) -> None:
        """Tells the mirror of objects, as an informer does."""
        await self.notifications.send(await self.worker.store.apply(kind, [ObjectVersion(body) for body in bodies]))


class Notifications(asyncio.Queue[None]):
    """Those that no consumer has yet: of processes, they are Celery's messages."""

    async def send(self, numbers: Mapping[str, int]) -> None:
        """Hands notifications of the lane of reconciles to the consumers."""
        for _ in range(numbers.get("reconcile", 0)):
            self.put_nowait(None)


@asynccontextmanager
async def site(which: str, *without: Kind) -> AsyncIterator[Site]:
    """A worker of its own, on a server of this sort. without: kinds that have no controller."""
    costs, notifications = Costs(), Notifications()
    known = registry.controllers("managed", cronjobs=False, volcano=True)
    controllers = costs.measured({id: each for id, each in known.items() if id not in {kind.id for kind in without}})
    async with clients(which) as (server, client):
        await crd_installation.install(server, crds.all_crds(volcano=True))
        await default_queues.establish(server)
        cluster = Watched(server)
        parts = {"controllers": controllers, "notify": notifications.send}
        async with worker(client, cluster, in_flight=IN_FLIGHT, **parts) as running:
            for kind in followed(controllers):
                found, _ = await server.list(kind)
                await notifications.send(await running.fill(kind, found if kind == QUEUE else []))
            yield Site(server, cluster, running, costs, notifications)


async def until(site_: Site, done: asyncio.Event) -> None:
    """Consumes on each notification, and makes ready what became due, until it is done."""
    lane = site_.worker.lanes["reconcile"]

    async def consume() -> None:
        await site_.notifications.get()
        await site_.worker.consumer.consume()

    async def sweep() -> None:
        await site_.notifications.send({lane.name: (await lane.sweep()).notifications})
        await asyncio.sleep(SWEEP)

    # As a worker's process does when it begins (`workers.runtime.worker_lifecycle`).
    gc.collect()
    gc.freeze()
    with _profiled():
        async with repeating(consume, SLOTS), repeating(sweep, 1):
            await done.wait()


@contextmanager
def _profiled() -> Iterator[None]:
    if not os.environ.get("BENCH_PROFILE"):
        yield
        return
    with cProfile.Profile() as profile:
        yield
    for order in ("tottime", "cumulative"):
        pstats.Stats(profile, stream=sys.stderr).sort_stats(order).print_stats(45)


@asynccontextmanager
async def repeating(work: Callable[[], Awaitable[None]], number: int) -> AsyncIterator[None]:
    """Runs so many tasks that do it again and again, beside the block. Raises what one of them raised."""

    async def again() -> None:
        while True:
            await work()

    tasks = [asyncio.create_task(again()) for _ in range(number)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error


@asynccontextmanager
async def ending(
    tell: Callable[[Kind, Sequence[Object]], Awaitable[object]],
    server: Cluster,
    waiting: "asyncio.Queue[Ref]",
    status: Callable[[], Object],
) -> AsyncIterator[None]:
    """Writes this status to every object that `waiting` names, and tells of all that were written meanwhile at once."""
    ended: asyncio.Queue[tuple[Kind, Object]] = asyncio.Queue()

    async def end() -> None:
        ref = await waiting.get()
        ended.put_nowait((ref.kind, await server.patch(ref, status(), subresource="status")))

    async def pass_on() -> None:
        kind, first = await ended.get()
        await tell(kind, [first, *(ended.get_nowait()[1] for _ in range(ended.qsize()))])

    async with repeating(end, IN_FLIGHT), repeating(pass_on, 1):
        yield
