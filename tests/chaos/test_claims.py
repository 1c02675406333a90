"""Strategy claim under kill -9 of every part: each item has exactly one completed Job, and was worked on once."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis.asyncio as redis

from deploy.local import up
from tests.chaos.parts import PARTS, kill_each, run_installation
from tests.chaos.patience import beside, everything, until
from tests.support.tables import for_each
from tests.support.valkeys import ValkeyServer
from workers.api import conditions, job_annotations
from workers.api.kinds import JOB, SCALED_JOB, Object
from workers.client.rest import Cluster
from workers.controllers.claims import binding

pytestmark = pytest.mark.timeout(420)

#: Kills things.
Disturb = Callable[[], Coroutine[Any, Any, None]]
ITEMS = 60

#: Counts its item on the measured server when its work is done.
SCRIPT = """
sleep 0.$((RANDOM % 9))
exec 3<>/dev/tcp/127.0.0.1/{port} || exit 1
printf 'HINCRBY done %s 1\\r\\n' "$PENSTOCK_ITEM" >&3 && read -r -u 3
"""


def scaled_job(port: int, trigger: Object) -> Object:
    container = {"name": "main", "image": "none", "command": ["/bin/bash", "-c", SCRIPT.replace("{port}", str(port))]}
    return {
        "apiVersion": SCALED_JOB.api_version,
        "kind": "ScaledJob",
        "metadata": {"name": trigger["type"], "namespace": "default"},
        "spec": {
            "pollingInterval": 2,
            "maxReplicaCount": 6,
            "successfulJobsHistoryLimit": 1000,
            "scalingStrategy": {"strategy": "claim", "claim": {"retries": 100}},
            "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
            "triggers": [trigger],
        },
    }


async def happen(cluster: Cluster, queue: redis.Redis, trigger: Object, seen: list[Object], disturb: Disturb) -> None:
    async def over() -> bool:
        seen[:] = await everything(cluster, JOB)
        complete = {item_of(job) for job in seen if conditions.finished(job) == "Complete"}
        return len(complete) == ITEMS and not any(binding.is_bound(job) for job in seen)

    async with beside(disturb()) as [disturbing]:
        for number in range(ITEMS):
            if trigger["type"] == "redis":
                await queue.rpush("work", f"item-{number}")
            else:
                await queue.xadd("events", {"n": number})
            await asyncio.sleep(0.2)
        await disturbing
        await until(over)


def item_of(job: Object) -> str:
    return str(job["metadata"]["annotations"][job_annotations.ITEM])


@for_each("redis", "redis-streams")
def test_every_item_has_one_completed_job_whatever_dies(type_: str, tmp_path: Path):
    random.seed(9)
    seen: list[Object] = []
    left: list[object] = []
    done: dict[bytes, bytes] = {}

    async def observed(cluster: Cluster, _running: up.RunningPart) -> None:
        async with redis.Redis(port=server.port) as queue:
            metadata = {"address": f"127.0.0.1:{server.port}", "listName": "work", "stream": "events"}
            metadata.pop("stream" if type_ == "redis" else "listName")
            trigger = {"type": type_, "metadata": metadata}
            await cluster.create(SCALED_JOB, scaled_job(server.port, trigger))
            await happen(cluster, queue, trigger, seen, lambda: kill_each(PARTS, 2, 2.0, spared))
            done.update(await queue.hgetall("done"))
            left.extend(await queue.lrange("work", 0, -1))
            left.extend([key async for key in queue.scan_iter(match="*:parked")])

    with ValkeyServer(config={"notify-keyspace-events": "Klt", "save": ""}) as server:
        # The measured server is no part of the installation.
        spared = psutil.Process().children()
        run_installation(tmp_path / "home", observed)
    completed = Counter(item_of(job) for job in seen if conditions.finished(job) == "Complete")
    assert len(completed) == ITEMS
    assert set(completed.values()) == {1}
    assert left == []
    # A process may have died with the kubelet after its work and before its end was known: then its Job did it again.
    failed = sum((job.get("status") or {}).get("failed", 0) for job in seen)
    repeated = sum(int(times) - 1 for times in done.values())
    assert len(done) == ITEMS
    assert repeated <= failed, (repeated, failed)
