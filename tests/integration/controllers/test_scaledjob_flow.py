"""Producers and consumers at random speed, with real processes on the embedded cluster: each strategy gets everything
done within its bounds, limits that objects share hold, and what was decided can be explained."""

import asyncio
import itertools
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio as redis

from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import JOB, SCALE_POLICY, SCALED_JOB, Object, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "1", "policies": "true"}

#: Seconds that a dozen processes on a busy machine may take for anything.
LONG = 60.0
ITEMS = 24
MOST = 4

#: A Job: takes one item if there is one, works on it for a while of its own, and counts it as done, or itself as idle.
WORK = """
import random, socket, sys, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def ask(*words):
    parts = [f"*{len(words)}\\r\\n", *(f"${len(word)}\\r\\n{word}\\r\\n" for word in words)]
    server.sendall("".join(parts).encode())
    return server.recv(4096)
item = ask("LPOP", sys.argv[2])
idle = item.startswith(b"$-1") or item.startswith(b"_")
time.sleep(0 if idle else random.uniform(0.0, 0.4))
ask("INCR", sys.argv[2] + (":idle" if idle else ":done"))
"""

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def source() -> Iterator[ValkeyServer]:
    with ValkeyServer(config={"save": "", "notify-keyspace-events": "Kl"}) as server:
        yield server


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


@pytest.fixture
async def queue(source: ValkeyServer) -> AsyncIterator[redis.Redis]:
    async with redis.Redis(port=source.port) as client:
        yield client


def manifest(name: str, port: int, command: list[str], *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "none", "command": command}
    metadata = {"address": f"127.0.0.1:{port}", "listName": name, "listLength": "1"}
    return {
        "apiVersion": SCALED_JOB.api_version,
        "kind": SCALED_JOB.kind,
        "metadata": {"namespace": "default", "name": name, "labels": labels or {}},
        "spec": {
            "pollingIntervalMilliseconds": 500,
            "jobTargetRef": {
                "backoffLimit": 0,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
            "triggers": [{"type": "redis", "metadata": metadata}],
            **spec,
        },
    }


async def unfinished(cluster: Cluster, selector: str) -> int:
    jobs, _ = await cluster.list(JOB, "default", label_selector=selector)
    return sum(not conditions.finished(job) for job in jobs)


@asynccontextmanager
async def watched(cluster: Cluster, selector: str) -> AsyncIterator[list[int]]:
    """How many unfinished Jobs there were, looked at all the time."""
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(await unfinished(cluster, selector))
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def remove(cluster: Cluster, ref: Ref) -> None:
    async def gone() -> bool:
        try:
            await cluster.delete(ref)
        except NotFound:
            return True
        return False

    await eventually(gone, LONG)


@pytest.mark.parametrize(
    "strategy",
    [
        {},
        {"strategy": "accurate"},
        {"strategy": "eager"},
        {"strategy": "custom", "customScalingRunningJobPercentage": "1"},
    ],
    ids=["default", "accurate", "eager", "custom"],
)
async def test_everything_gets_done_within_the_maximum(
    cluster: Cluster, queue: redis.Redis, source: ValkeyServer, running: House, strategy: dict[str, str]
) -> None:
    name = f"flow-{next(_numbers)}"
    command = [sys.executable, "-S", "-E", "-c", WORK, str(source.port), name]
    await cluster.create(
        SCALED_JOB, manifest(name, source.port, command, maxReplicaCount=MOST, scalingStrategy=strategy)
    )
    speed = random.Random(str(strategy))
    async with watched(cluster, f"scaledjob.keda.sh/name={name}") as seen:
        left = ITEMS
        while left:
            helping = min(left, speed.randint(1, 4))
            await queue.rpush(name, *range(helping))
            left -= helping
            await asyncio.sleep(speed.uniform(0.0, 0.5))

        async def done() -> bool:
            return int(await queue.get(f"{name}:done") or 0) == ITEMS

        await eventually(done, LONG)
    assert 0 < max(seen) <= MOST
    if not strategy:
        assert await queue.get(f"{name}:idle") is None, "a Job was made for which there was no work"
        explained = explain(running, name)
        assert "Decisions:" in explained
        assert "Jobs not finished" in explained
        assert "then: Create" in explained
    await remove(cluster, Ref(SCALED_JOB, "default", name))


def explain(running: House, name: str) -> str:
    """What ``penstock explain`` prints."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    broker = {"PENSTOCK_BROKER": (running.home / "broker.url").read_text().strip()}
    command = [sys.executable, "-m", "deploy.cli.main", "explain", f"scaledjob/{name}", "--last", "20"]
    command += ["--kubeconfig", str(running.kubeconfig)]
    return subprocess.run(command, env={**kept, **broker}, check=True, capture_output=True, text=True).stdout


async def test_several_scaled_jobs_keep_a_limit_together(
    cluster: Cluster, queue: redis.Redis, source: ValkeyServer
) -> None:
    names = [f"flow-{next(_numbers)}" for _ in range(3)]
    team = {"team": names[0]}
    policy = Ref(SCALE_POLICY, "", names[0])
    await cluster.create(
        SCALE_POLICY,
        {
            "apiVersion": SCALE_POLICY.api_version,
            "kind": SCALE_POLICY.kind,
            "metadata": {"name": names[0]},
            "spec": {"maxJobs": MOST, "selector": {"matchLabels": team}},
        },
    )
    for name in names:
        command = [sys.executable, "-S", "-E", "-c", WORK, str(source.port), name]
        await cluster.create(SCALED_JOB, manifest(name, source.port, command, labels=team))
    async with watched(cluster, f"team={names[0]}") as seen:
        await asyncio.gather(*(queue.rpush(name, *range(6)) for name in names))

        async def held_back() -> bool:
            bodies = [await cluster.get(Ref(SCALED_JOB, "default", name)) for name in names]
            return any(conditions.holds(body, "Capped") for body in bodies)

        await eventually(held_back, LONG)

        async def done() -> bool:
            return [int(await queue.get(f"{name}:done") or 0) for name in names] == [6, 6, 6]

        await eventually(done, LONG)
    assert 0 < max(seen) <= MOST
    for name in names:
        await remove(cluster, Ref(SCALED_JOB, "default", name))
    await cluster.delete(policy)
