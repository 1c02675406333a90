"""Everything running, as separate processes, for the benchmarks that measure the whole way."""

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis.asyncio as redis

from deploy.local import up
from deploy.local.supervisor.supervisor import Supervisor
from tests.benchmarks.harness import broker
from tests.support import kube
from tests.support.embedded import embedded_apiserver
from workers.api import crds
from workers.api.kinds import Object
from workers.client.rest import Cluster
from workers.settings import Settings


@dataclass(frozen=True)
class Stack:
    """A running Penstock: its cluster, its broker, a Redis for the work, and the process ids of its parts."""

    cluster: Cluster
    kubeconfig: Path
    broker: str
    address: str
    work: redis.Redis
    pids: dict[str, int]


EMBEDDED = "embedded"
REAL = "real kube-apiserver"


def servers() -> tuple[str, ...]:
    """The API servers there are to measure on."""
    return (EMBEDDED, REAL) if os.environ.get("KUBEBUILDER_ASSETS") else (EMBEDDED,)


@contextmanager
def apiserver(which: str, folder: Path) -> Iterator[Path]:
    """An API server of this sort; its kubeconfig."""
    if which == EMBEDDED:
        with embedded_apiserver(folder) as server:
            yield server.kubeconfig
    else:
        with kube.control_plane(kube.assets(), folder) as server:
            yield server.kubeconfig


@asynccontextmanager
async def stack(**settings: object) -> AsyncIterator[Stack]:
    """One process of each part, on a fresh embedded API server and a fresh broker; the work waits on another broker.

    No pods run: what is measured is the way to the Job. It is the embedded server because the real one that tests can
    count on, kube-apiserver 1.20, dies on custom resources where it was built with Go 1.18 or newer.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        apiserver(EMBEDDED, Path(folder, "cluster")) as kubeconfig,
        broker() as store,
        broker() as queue,
    ):
        chosen = Settings(broker=store, kubeconfig=kubeconfig, home=Path(folder, "home"), **settings)
        options = up.UpOptions(chosen)
        cluster = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=15.0, in_flight=16)
        supervisor = Supervisor(Path(folder, "logs"))
        async with cluster, redis.Redis.from_url(queue) as work:
            await up.install(cluster, crds.all_crds())
            options.home.ready("").mkdir(parents=True)
            try:
                for part in up.plan(options, store).processes:
                    await supervisor.start(part)
                address = queue.removeprefix("redis://").partition("/")[0]
                yield Stack(cluster, kubeconfig, store, address, work, dict(supervisor.pids()))
            finally:
                await supervisor.stop()


def scaled_job(name: str, address: str, *, most: int, polling: int, strategy: str = "default") -> Object:
    """One Job per item of the list of the same name."""
    container = {"name": "work", "image": "python", "command": ["true"]}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "pollingInterval": polling,
            "maxReplicaCount": most,
            "scalingStrategy": {"strategy": strategy},
            "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
            "triggers": [{"type": "redis", "metadata": {"address": address, "listName": name, "listLength": "1"}}],
        },
    }
