"""The page of one process: the index, what keeps it current, and the services that its answers ask."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from redis.asyncio import Redis

from deploy.local.home import Home
from deploy.object_rows import derivation
from deploy.object_rows.row import Row
from deploy.page.live.broadcast import Broadcast
from deploy.page.live.pipeline_monitor import PipelineMonitor
from deploy.page.live.row_index import RowIndex
from deploy.page.live.sampler import Sampler
from deploy.page.live.series import AllSeries
from deploy.page.live.store_follower import StoreFollower
from deploy.page.web.access import Access
from scheduler.keys import Keys
from scheduler.queue import Lane
from workers.cache.staleness import Ages
from workers.cache.store import Store
from workers.cancellation import cancelled
from workers.client.rest import Cluster
from workers.errors import UserError
from workers.handoff.readings import Readings
from workers.lanes import LANES
from workers.reconcile.decision_log import DecisionLog
from workers.settings import Settings
from workers.wiring import utc_now

#: Seconds after a request during which the index is kept current by itself.
INTEREST = 60.0


@dataclass
class BrowserPage:
    """The services behind the page's answers. cluster: with this process's rights, for Events and logs."""

    settings: Settings
    client: Redis
    cluster: Cluster
    access: Access
    index: RowIndex = field(default_factory=RowIndex)
    broadcast: Broadcast = field(default_factory=Broadcast)
    series: AllSeries = field(default_factory=AllSeries)

    def __post_init__(self) -> None:
        keys = Keys(self.settings.prefix)
        self.keys = keys
        self.store = Store(self.client, keys, {})
        self.decisions = DecisionLog(self.client, keys)
        self.readings = Readings(self.client, keys)
        self.lanes = {name: Lane(self.client, name, keys, lease=self.settings.lease) for name in LANES}
        self.monitor = PipelineMonitor(
            self.client,
            self.lanes,
            ages=self._ages,
            probe=lambda: self.cluster.request("GET", "/version"),
            home=_home_of(self.settings),
            stale=self.settings.stale,
        )
        self._asked = -INTEREST
        self.follower = StoreFollower(
            self.client, self.store, self.index, looked_at=self.looked_at, changed=self.changed
        )
        self.sampler = Sampler(
            self.index,
            self.series,
            self.broadcast,
            self.readings,
            self.decisions.of,
            looked_at=self.looked_at,
            changed=self.changed,
            pipeline=self.monitor.encoded,
            now=utc_now,
        )

    def looked_at(self) -> bool:
        """Returns True while a visitor watches or has asked lately."""
        return self.broadcast.watched or time.monotonic() - self._asked < INTEREST

    async def current(self) -> None:
        """Returns once the index is current; from now on it is kept so for a while. Raises `errors.Stale`."""
        await self.follower.current()
        self._asked = time.monotonic()

    def changed(self, rows: Sequence[Row], gone: Sequence[Row]) -> None:
        """Sends changed rows and those that are gone to their watchers."""
        if not self.broadcast.watched:
            return
        for row in rows:
            if found := self.index.get(row.kind, row.namespace, row.name):
                self.broadcast.publish(topics_of(row), "row", found.encoded)
        for row in gone:
            if not self.index.get(row.kind, row.namespace, row.name):
                data = {"kind": row.kind, "namespace": row.namespace, "name": row.name}
                self.broadcast.publish(topics_of(row), "gone", orjson.dumps(data))

    async def _ages(self) -> Ages:
        return await self.store.freshness([each.kind for each in derivation.SHOWN.values()])

    async def run(self) -> None:
        """Keeps everything current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follower.run(), name="page: follow the store")
            group.create_task(self.sampler.run(), name="page: sample")


def topics_of(row: Row) -> tuple[str, str]:
    """Returns the topics of a row's changes: of its kind's list, and of the object by itself."""
    return f"rows:{row.kind}", f"row:{row.kind}/{row.namespace}/{row.name}"


def _home_of(settings: Settings) -> Path | None:
    """Returns the home of the embedded Penstock that the broker belongs to, None for another broker."""
    try:
        url = Home(settings.home.resolve()).broker_url()
    except (UserError, OSError):
        return None
    return settings.home.resolve() if url and url == settings.broker_url else None


@asynccontextmanager
async def running(page: BrowserPage) -> AsyncIterator[BrowserPage]:
    """Keeps a page current for the length of a block; its watchers end with it."""
    task = asyncio.create_task(page.run(), name="page")
    try:
        yield page
    finally:
        page.broadcast.end()
        await cancelled(task)
