"""Everything running, as separate processes, for the benchmarks that measure the whole way."""

import os
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import redis.asyncio as redis

from deploy.local import crd_installation
from deploy.local.parts import UpOptions, plan
from deploy.local.supervisor.supervisor import Supervisor
from tests.benchmarks.harness import IN_FLIGHT, broker
from tests.support import kube
from tests.support.embedded import embedded_apiserver
from tests.support.routed import RoutedCluster
from workers.api import crds
from workers.api.kinds import JOB, Kind, Object
from workers.client.rest import Cluster
from workers.settings import Settings
from workers.wiring import broker_client


@dataclass(frozen=True)
class Stack:
    """A running Penstock: its cluster, its broker, a Redis for the work, and the process ids of its parts.

    ready: seconds from the start of each part until it was ready. gateway: HOST:PORT of the gateway, '' without one.
    """

    cluster: Cluster
    kubeconfig: Path
    broker: str
    address: str
    work: redis.Redis
    pids: dict[str, int]
    ready: dict[str, float]
    gateway: str = ""


EMBEDDED = "embedded"
REAL = "real kube-apiserver"


def servers() -> tuple[str, ...]:
    """The API servers there are to measure on."""
    return (EMBEDDED, REAL) if os.environ.get("KUBEBUILDER_ASSETS") else (EMBEDDED,)


@contextmanager
def apiserver(which: str, folder: Path) -> Iterator[Path]:
    """An API server of this sort; its kubeconfig."""
    if which == EMBEDDED:
        with embedded_apiserver(folder, forked=False) as server:
            yield server.kubeconfig
    else:
        with kube.control_plane(kube.assets(), folder) as server:
            yield server.kubeconfig


@dataclass(frozen=True)
class Server:
    """A running API server. folder: holds the files of its processes."""

    cluster: Cluster
    kubeconfig: Path
    folder: Path


@asynccontextmanager
async def server(which: str) -> AsyncIterator[Server]:
    """A fresh API server of this sort, and a client of it."""
    with tempfile.TemporaryDirectory() as folder, apiserver(which, Path(folder)) as kubeconfig:
        connected = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=60.0, in_flight=IN_FLIGHT)
        async with connected as cluster:
            yield Server(cluster, kubeconfig, Path(folder))


@asynccontextmanager
async def clients(which: str) -> AsyncIterator[tuple[Cluster, redis.Redis]]:
    """A fresh API server of this sort and a fresh broker, as a worker in this process reaches them."""
    with broker() as url:
        async with server(which) as found, broker_client(Settings(broker=url)) as client:
            yield found.cluster, client


async def version_of(cluster: Cluster, kind: Kind) -> str:
    """Returns the resourceVersion from which a watch of the default namespace shows what comes now."""
    async with aclosing(cluster.pages(kind, "default", limit=1)) as pages:
        _, version = await anext(pages)
    return version


class Timed(RoutedCluster):
    """Notes when each Job was there, and the Job."""

    def __init__(self, server: Cluster, unknown: Collection[Kind] = ()) -> None:
        super().__init__(server, unknown)
        self.created: list[tuple[float, Object]] = []

    async def create(self, kind: Kind, body: Object) -> Object:
        created = await super().create(kind, body)
        if kind == JOB:
            self.created.append((perf_counter(), created))
        return created

    def moments(self, wanted: int) -> list[float]:
        """When the Jobs were there. Raises RuntimeError unless they are this many."""
        if len(self.created) != wanted:
            raise RuntimeError(f"{len(self.created)} instead of {wanted} Jobs were created")
        return [moment for moment, _ in self.created]

    def took(self, wanted: int) -> float:
        """Returns the seconds from the first Job to the last. Raises RuntimeError unless they are this many."""
        moments = self.moments(wanted)
        return moments[-1] - moments[0]


@asynccontextmanager
async def stack(
    which: str = EMBEDDED, *, single: bool = False, gateway: str = "", **settings: object
) -> AsyncIterator[Stack]:
    """One process of each part, or a single process, on a fresh API server of this sort and a fresh broker.

    The work waits on another broker.

    No pods run: what is measured is the way to the Job. gateway: HOST:PORT of a gateway beside them, '' for none.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        apiserver(which, Path(folder, "cluster")) as kubeconfig,
        broker() as store,
        broker() as queue,
    ):
        chosen = Settings(broker=store, kubeconfig=kubeconfig, home=Path(folder, "home"), **settings)
        options = UpOptions(chosen, single=single)
        cluster = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=15.0, in_flight=IN_FLIGHT)
        supervisor = Supervisor(Path(folder, "logs"))
        async with cluster, redis.Redis.from_url(queue) as work:
            await crd_installation.install(cluster, crds.all_crds())
            options.home.ready("").mkdir(parents=True)
            try:
                ready = {}
                for part in plan(options, store, gateway=gateway).processes:
                    began = perf_counter()
                    await supervisor.start(part)
                    ready[part.name] = perf_counter() - began
                address = queue.removeprefix("redis://").partition("/")[0]
                yield Stack(cluster, kubeconfig, store, address, work, dict(supervisor.pids()), ready, gateway)
            finally:
                await supervisor.stop()
