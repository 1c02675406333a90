"""A whole installation under kill -9, SIGSTOP, lost connections and lost data: one Job does each item, once."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import redis.asyncio as redis

from deploy.demo import manifest
from deploy.demo.report import DemoRun, faults
from deploy.demo.run import run
from deploy.local import crd_installation, up
from deploy.local.parts import UpOptions, plan
from deploy.local.supervisor.supervisor import Component, Supervisor
from scheduler.broker import clients
from scheduler.keys import Keys
from tests.chaos.convergence import differences, present
from tests.chaos.parts import PARTS, kill, process, run_installation
from tests.chaos.patience import beside
from tests.support.embedded import embedded_apiserver
from tests.support.tables import cases
from tests.support.valkeys import ValkeyServer
from workers.api import crds
from workers.api.kinds import SCALED_JOB
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.settings import Settings

pytestmark = pytest.mark.timeout(420)

#: How long things are broken at least, seconds.
SECONDS = float(os.environ.get("CHAOS_SECONDS", "12"))
#: A watch that is silent for longer is not believed, seconds.
STALE = 4.0
#: A lease where each loss of the broker's data costs one, seconds.
SHORT = 3.0
#: Looks, and the pause before each in seconds, after which everything must be known and done again: half a minute. A
#: busy machine, on which the broker and the API server answer late, has longer.
LOOKS, PAUSE = 150, 0.2


async def die(part: str, broker: str) -> None:
    """One that is dead already dies again once it is back."""
    while not kill(part):
        await asyncio.sleep(0.02)


async def stand_still(part: str, broker: str) -> None:
    """Longer than a silent watch is believed and than leases last."""
    if victim := process(part):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(STALE + 2)
            finally:
                # Whoever stands still cannot be asked to end.
                victim.send_signal(signal.SIGCONT)


async def cut(part: str, broker: str) -> None:
    """Cut every connection of the broker."""
    async with redis.Redis.from_url(broker) as client:
        await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def disturb(disasters, broker: str) -> None:
    """One disaster after the other, each of them at least once."""
    until = time.monotonic() + SECONDS
    order = list(disasters)
    while order or time.monotonic() < until:
        disaster, part = order.pop(0) if order else random.choice(disasters)
        await disaster(part, broker)
        await asyncio.sleep(random.uniform(0.5, 3.0))


async def feed(paths: list[str], cluster: Cluster, queue: redis.Redis, disasters, broker: str) -> DemoRun:
    """The demo's run, disturbed: there is work as long as things are broken, and one item comes after all that."""
    push = queue.rpush

    async def slowly(name: str, path: str) -> None:
        await asyncio.sleep(SECONDS / len(paths))
        if path == paths[-1]:
            await disturbing
        await push(name, path)

    queue.rpush = slowly
    async with beside(disturb(disasters, broker)) as [disturbing]:
        return await run(cluster, queue, paths, lambda _: None)


@cases(
    ("kill -9 of every part", [(die, part) for part in PARTS if part != "broker"]),
    ("worker and informer stand still", [(stand_still, "worker"), (stand_still, "watch")]),
    ("cut connections and a killed worker", [(cut, ""), (die, "worker"), (cut, ""), (cut, "")]),
)
def test_every_item_is_done_once_by_one_job(disasters, tmp_path: Path):
    random.seed(len(disasters))
    paths = manifest.files(150)
    ended: list[DemoRun] = []

    async def happen(cluster: Cluster, running: up.RunningPart) -> None:
        async with redis.Redis(port=server.port) as queue:
            await cluster.create(SCALED_JOB, manifest.scaled_job(f"127.0.0.1:{server.port}"))
            ended.append(await feed(paths, cluster, queue, disasters, running.broker))

    with ValkeyServer(config={"notify-keyspace-events": "Kl", "save": ""}) as server:
        run_installation(tmp_path / "home", happen, stale=STALE)
    assert ended, "the installation did not get as far as the work"
    assert faults(ended[0]) == []


@dataclass
class Watched:
    """A broker that loses data, and what an installation must come to know and do nevertheless.

    queue: with the items. pushed: those so far.
    """

    broker: ValkeyServer
    cluster: Cluster
    queue: redis.Redis
    pushed: list[str] = field(default_factory=list)

    def count_pushes(self) -> None:
        """Notes from now on what is pushed."""
        push = self.queue.rpush

        async def noted(name: str, path: str) -> None:
            await push(name, path)
            self.pushed.append(path)

        self.queue.rpush = noted

    async def flush(self) -> None:
        """Deletes everything that only the broker knows, and nothing more until the quarantine of a lease is over."""
        async with redis.Redis(port=self.broker.port) as client:
            await client.flushall()
        await asyncio.sleep(SHORT)

    async def restore_older(self) -> None:
        """Kills the broker, starts it with data some seconds old, in which it acknowledged writes, and waits."""
        async with redis.Redis(port=self.broker.port) as client:
            await client.execute_command("SAVE")
        await asyncio.sleep(random.uniform(1.0, STALE))
        await asyncio.to_thread(self.broker.terminate)
        await asyncio.to_thread(self.broker.start)
        await self.converge()

    async def converge(self) -> None:
        """Waits until the store knows all that the API server knows now, and all is done that was pushed so far."""
        past, pushed = await present(self.cluster), set(self.pushed)
        missing, undone = ["nothing compared yet"], pushed
        async with clients.client(f"{self.broker.connection_url}/0") as client:
            store = Store(client, Keys("penstock"), {})
            for _ in range(LOOKS):
                await asyncio.sleep(PAUSE)
                missing = missing and await differences(store, self.cluster, past)
                undone = pushed - {path.decode() for path in await self.queue.hkeys(f"{manifest.PREFIX}:results")}
                if not missing and not undone:
                    return
        raise AssertionError(f"not converged after {LOOKS} looks: in the store {missing}, not done {undone}")


def test_the_broker_loses_data_again_and_again(tmp_path: Path):
    """The API server's objects are kept elsewhere here, as on a real cluster."""
    random.seed(7)
    paths = manifest.files(100)
    quiet = {"save": ""}

    async def run_parts(kubeconfig: Path, logs: Path) -> DemoRun:
        url = f"{broker.connection_url}/0"
        asked = Settings(
            broker=url, kubeconfig=kubeconfig, home=tmp_path / "home", jobs="all", lease=SHORT, leadership=3
        )
        options = UpOptions(asked)
        options.home.ready("").mkdir(parents=True)
        arguments = [
            "--isolation",
            "none",
            "--kubeconfig",
            str(kubeconfig),
            "--logs",
            str(logs),
            "--root",
            str(options.home.pods),
        ]
        kubelet = Component("kubelet", (sys.executable, "-m", "deploy.local.kubelet", *arguments, "--max-pods", "4"))
        cluster = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=15, in_flight=16)
        supervisor = Supervisor(tmp_path / "logs")
        async with cluster, redis.Redis(port=queue_server.port) as queue:
            await crd_installation.install(cluster, crds.all_crds())
            watched = Watched(broker, cluster, queue)
            watched.count_pushes()
            # Each follows on the other: what is left of one loss is there in the next.
            losses = itertools.cycle((watched.flush, watched.restore_older))

            async def lose(_part: str, _broker: str) -> None:
                await next(losses)()

            try:
                for part in (kubelet, *plan(options, url).processes):
                    await supervisor.start(part)
                await cluster.create(SCALED_JOB, manifest.scaled_job(f"127.0.0.1:{queue_server.port}"))
                seen = await feed(paths, cluster, queue, [(lose, "")] * 4, url)
                await watched.converge()
                return seen
            finally:
                await supervisor.stop()

    with (
        embedded_apiserver(tmp_path / "cluster") as server,
        ValkeyServer(config=quiet) as broker,
        ValkeyServer(config={**quiet, "notify-keyspace-events": "Kl"}) as queue_server,
    ):
        seen = asyncio.run(run_parts(server.kubeconfig, server.logs))
    assert faults(seen) == []
