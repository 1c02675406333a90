"""Events from ``penstock push`` and XADD to the Jobs that they become, with every process of ours."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio as redis

from tests.support.conditions import eventually
from tests.support.house import House
from workers.api.kinds import JOB, SCALED_JOB, Object
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = {"polling": "2"}

#: Seconds that eight processes on a busy machine may take for anything.
LONG = 60.0
#: Longer than any test: what happens did not wait for a poll.
NEVER = 3600
EVENT = {"specversion": "1.0", "source": "/shop", "type": "placed"}


@pytest.fixture
async def broker(running: House) -> AsyncIterator[redis.Redis]:
    """Penstock's own broker."""
    async with redis.Redis.from_url((running.home / "broker.url").read_text()) as client:
        yield client


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


async def apply(cluster: Cluster, name: str, script: str, strategy: str = "default", **metadata: str) -> None:
    """A ScaledJob whose Jobs run this script."""
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    spec = {
        "pollingInterval": NEVER,
        "scalingStrategy": {"strategy": strategy},
        "rollout": {"strategy": "gradual"},
        "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        "triggers": [{"type": "push", "metadata": metadata}],
    }
    body = {"apiVersion": SCALED_JOB.api_version, "kind": "ScaledJob", "spec": spec}
    await cluster.create(SCALED_JOB, {**body, "metadata": {"namespace": "default", "name": name}})


async def push(running: House, *words: str, lines: str = "") -> tuple[int, str, str]:
    """The command as a process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "deploy.cli.main", "push", *words, "--kubeconfig", str(running.kubeconfig)],
        *["--home", str(running.home)],
        env={**kept, "PENSTOCK_HOME": str(running.home)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(lines.encode())
    return process.returncode or 0, out.decode(), err.decode()


async def jobs(cluster: Cluster, name: str) -> list[Object]:
    return (await cluster.list(JOB, "default", label_selector=f"scaledjob.keda.sh/name={name}"))[0]


async def test_every_event_is_one_job(running: House, cluster: Cluster, broker: redis.Redis, tmp_path: Path) -> None:
    truth = tmp_path / "truth"
    await apply(cluster, "orders", f'echo "$PENSTOCK_ITEM" >> "{truth}"', "claim")
    stream = "{penstock}:events:default/orders"
    lines = "\n".join(json.dumps({"id": str(number), "data": {"n": number}}) for number in range(5))
    assert await push(running, "orders", "--lines", "--source", "/shop", lines=lines) == (0, "0\n1\n2\n3\n4\n", "")
    for id_ in ("4", "5", "5", "6"):
        await broker.xadd(stream, {**EVENT, "id": id_})
    await broker.xadd(stream, {"id": "7"})
    assert (await push(running, "orders", "--source", "/shop", "--id", "6"))[0] == 0

    def ran() -> list[str]:
        lines = truth.read_text().splitlines() if truth.exists() else []
        return sorted(json.loads(line)["id"] for line in lines)

    await eventually(lambda: len(ran()) >= 7, LONG)

    async def done() -> bool:
        pending = await broker.xpending(f"{stream}:accepted", "penstock")
        return not pending["pending"]

    await eventually(done, LONG)
    assert ran() == ["0", "1", "2", "3", "4", "5", "6"]

    async def counted() -> bool:
        # What was pushed last makes no Job: all of them may be done before it is looked at.
        counts = await broker.hgetall(f"{stream}:counts")
        return bool(counts == {b"accepted": b"7", b"duplicates": b"3", b"parked": b"1"})

    await eventually(counted, LONG)
    assert len(ran()) == 7


async def test_jobs_take_events_themselves(running: House, cluster: Cluster, broker: redis.Redis) -> None:
    await apply(cluster, "taken", "sleep 600", stream="taken", maxEvents="3")
    for id_ in range(2):
        await broker.xadd("taken", {**EVENT, "id": str(id_)})

    async def made() -> bool:
        return len(await jobs(cluster, "taken")) >= 2

    await eventually(made, LONG)
    ((_, entries),) = await broker.xreadgroup("penstock", "job", {"{taken}:accepted": ">"}, count=2)
    assert [event[b"id"] for _, event in entries] == [b"0", b"1"]
    code, out, err = await push(running, "taken", "--lines", lines="{}\n{}")
    assert (code, len(out.splitlines())) == (1, 1)
    assert "3 events are waiting or being worked on" in err

    async def one_more() -> bool:
        return len(await jobs(cluster, "taken")) >= 3

    await eventually(one_more, LONG)
    assert len(await jobs(cluster, "taken")) == 3, "none for what is in hand"
