"""The whole house under kill -9, SIGSTOP and lost connections: every item is done once, by one Job."""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
import redis.asyncio as redis

from deploy.demo import manifest
from deploy.demo.report import Run, faults
from deploy.demo.run import run
from deploy.local import up
from deploy.local.supervisor import Component, Supervisor
from tests.chaos.parts import PARTS, Over, kill, process
from tests.support.embedded import embedded_apiserver
from tests.support.valkeys import ValkeyServer
from workers.api import crds
from workers.api.kinds import SCALED_JOB
from workers.cluster import Cluster
from workers.settings import Settings

pytestmark = pytest.mark.timeout(420)

#: How long things are broken, seconds.
SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))


async def die(part: str, broker: str) -> None:
    kill(part)


async def stand_still(part: str, broker: str) -> None:
    """Longer than a silent watch is believed, shorter than nothing moves for the demo's patience."""
    if victim := process(part):
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGSTOP)
            await asyncio.sleep(12)
            victim.send_signal(signal.SIGCONT)


async def cut(part: str, broker: str) -> None:
    """Cut every connection of the broker."""
    async with redis.Redis.from_url(broker) as client:
        await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


DISASTERS = {
    "kill -9 of every part": [(die, part) for part in PARTS if part != "broker"],
    "worker and informer stand still": [(stand_still, "worker"), (stand_still, "watch")],
    "cut connections and a killed worker": [(cut, ""), (die, "worker"), (cut, ""), (cut, "")],
}


async def disturb(disasters, broker: str) -> None:
    """One disaster after the other, each of them at least once."""
    until = time.monotonic() + SECONDS
    order = list(disasters)
    while order or time.monotonic() < until:
        disaster, part = order.pop(0) if order else random.choice(disasters)
        await disaster(part, broker)
        await asyncio.sleep(random.uniform(1.0, 4.0))


async def feed(paths: list[str], cluster: Cluster, queue: redis.Redis, disasters, broker: str) -> Run:
    """The demo's run, disturbed."""
    disturbing = asyncio.create_task(disturb(disasters, broker))
    try:
        return await run(cluster, queue, paths, lambda _: None)
    finally:
        if not disturbing.done():
            disturbing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await disturbing


@pytest.mark.parametrize("disasters", DISASTERS.values(), ids=DISASTERS.keys())
def test_every_item_is_done_once_by_one_job(tmp_path: Path, disasters):
    random.seed(len(disasters))
    paths = manifest.files(150)
    ended: list[Run] = []
    before = psutil.Process().children()

    async def house(queue_url: str) -> None:
        settings = Settings(home=tmp_path / "home")

        async def started(running: up.Running) -> None:
            cluster = await Cluster.connect(kubeconfig=running.kubeconfig, context=None, timeout=15, in_flight=16)
            async with cluster, redis.Redis.from_url(queue_url) as queue:
                address = queue_url.removeprefix("redis://").partition("/")[0]
                await cluster.create(SCALED_JOB, manifest.scaled_job(address))
                ended.append(await feed(paths, cluster, queue, disasters, running.broker))
            raise Over

        with contextlib.suppress(Over):
            await up.run(up.Options(settings), started=started)

    with ValkeyServer(config={"notify-keyspace-events": "Kl", "save": ""}) as server:
        asyncio.run(house(f"{server.connection_url}/0"))
    assert ended, "the house did not get as far as the work"
    assert faults(ended[0]) == []
    assert set(psutil.Process().children()) <= set(before), "something was left running"


async def flush(part: str, broker: str) -> None:
    """Lose everything that only the broker knows."""
    async with redis.Redis.from_url(broker) as client:
        await client.flushall()


def test_the_broker_is_emptied_again_and_again(tmp_path: Path):
    """The cluster's objects are kept elsewhere here: on a real one they are not the broker's either."""
    random.seed(7)
    paths = manifest.files(100)
    quiet = {"save": ""}

    async def house(kubeconfig: Path, logs: Path, broker: str, queue_url: str) -> Run:
        # Short leases make a short quarantine after each flush.
        settings = Settings(broker=broker, kubeconfig=kubeconfig, home=tmp_path / "home", jobs="all", lease=3.0)
        options = up.Options(settings)
        options.home.ready("").mkdir(parents=True)
        arguments = ["--kubeconfig", str(kubeconfig), "--logs", str(logs), "--root", str(options.home.pods)]
        kubelet = Component("kubelet", (sys.executable, "-m", "deploy.local.kubelet", *arguments, "--max-pods", "4"))
        cluster = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=15, in_flight=16)
        supervisor = Supervisor(tmp_path / "logs")
        async with cluster, redis.Redis.from_url(queue_url) as queue:
            await up.install(cluster, crds.all_crds())
            try:
                for part in (kubelet, *up.plan(options, broker).processes):
                    await supervisor.start(part)
                address = queue_url.removeprefix("redis://").partition("/")[0]
                await cluster.create(SCALED_JOB, manifest.scaled_job(address))
                return await feed(paths, cluster, queue, [(flush, "")], broker)
            finally:
                await supervisor.stop()

    with (
        embedded_apiserver(tmp_path / "cluster") as server,
        ValkeyServer(config=quiet) as broker,
        ValkeyServer(config={**quiet, "notify-keyspace-events": "Kl"}) as queue,
    ):
        urls = (f"{broker.connection_url}/0", f"{queue.connection_url}/0")
        seen = asyncio.run(house(server.kubeconfig, server.logs, *urls))
    assert faults(seen) == []
