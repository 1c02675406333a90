"""Producers and consumers at random speed, with real processes on the embedded cluster: each strategy gets everything
done within its bounds, limits that objects share hold, and what was decided can be explained."""

import asyncio
import os
import random
import subprocess
import sys
from typing import Any

import pytest
import redis.asyncio as redis

from tests.integration.controllers.keda_objects import LONG, KedaObject, job_template, manifest, unfinished_jobs
from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.tables import cases
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import SCALE_POLICY, SCALED_JOB, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "1", "policies": "true"}

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


def flow(cluster: Cluster, port: int) -> KedaObject:
    return KedaObject(cluster, port, SCALED_JOB, "flow")


async def apply(work: KedaObject, *, labels: dict[str, str] | None = None, **spec: Any) -> None:
    """Creates a ScaledJob whose Jobs work on its list."""
    given = {
        "pollingIntervalMilliseconds": 500,
        "jobTargetRef": job_template(sys.executable, "-S", "-E", "-c", WORK, str(work.port), work.name),
        "triggers": [work.trigger()],
    }
    await work.create({**given, **spec}, labels=labels or {})


@cases(
    ("default", {}),
    ("accurate", {"strategy": "accurate"}),
    ("eager", {"strategy": "eager"}),
    ("custom", {"strategy": "custom", "customScalingRunningJobPercentage": "1"}),
)
async def test_everything_gets_done_within_the_maximum(
    strategy: dict[str, str], cluster: Cluster, queue: redis.Redis, source: ValkeyServer, running: House
) -> None:
    work = flow(cluster, source.port)
    name = work.name
    await apply(work, maxReplicaCount=MOST, scalingStrategy=strategy)
    speed = random.Random(str(strategy))
    async with unfinished_jobs(cluster, f"scaledjob.keda.sh/name={name}") as seen:
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
    await work.remove()


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
    members = [flow(cluster, source.port) for _ in range(3)]
    names = [work.name for work in members]
    team = {"team": names[0]}
    policy = Ref(SCALE_POLICY, "", names[0])
    await cluster.create(SCALE_POLICY, manifest(policy, {"maxJobs": MOST, "selector": {"matchLabels": team}}))
    for work in members:
        await apply(work, labels=team)
    async with unfinished_jobs(cluster, f"team={names[0]}") as seen:
        await asyncio.gather(*(queue.rpush(name, *range(6)) for name in names))

        async def held_back() -> bool:
            return any([conditions.holds(await work.body(), "Capped") for work in members])

        await eventually(held_back, LONG)

        async def done() -> bool:
            return [int(await queue.get(f"{name}:done") or 0) for name in names] == [6, 6, 6]

        await eventually(done, LONG)
    assert 0 < max(seen) <= MOST
    for work in members:
        await work.remove()
    await cluster.delete(policy)
