"""What one reconcile costs in a cluster with few Jobs and in one with many: it reads only its own children."""

import asyncio
import statistics
from datetime import UTC, datetime
from time import perf_counter

import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.benchmarks.harness import Figure, broker
from tests.unit.workers.clusters import MemoryCluster
from workers.act import Actor
from workers.api.kinds import JOB, POD, SCALED_JOB, Kind, Object, Ref
from workers.base import lanes_of
from workers.controllers import registry
from workers.drain import Drain
from workers.holding import Hands
from workers.mirror import Change, Mirror
from workers.readings import Readings
from workers.reconcile import Reconciler
from workers.snapshot import Reading, Sample

SIZES = (100, 10_000, 100_000)
CHILDREN = 10
RECONCILES = 300
OWNER = Ref(SCALED_JOB, "default", "work")


async def figures() -> list[Figure]:
    found: list[Figure] = []
    with broker() as url:
        async with redis.Redis.from_url(url) as client:
            for size in SIZES:
                value = await _cost(client, size)
                first = found[0].value if found else value
                found.append(
                    Figure(
                        "one reconcile of a ScaledJob with 10 Jobs",
                        f"{size:,} Jobs in the cluster",
                        value,
                        "ms",
                        against=f"{SIZES[0]} Jobs, {first:.2f} ms",
                        ratio=first / value,
                        goal="1",
                    )
                )
    return found


class _Silent:
    def record(self, *_: object) -> None:
        """Nobody listens."""


async def _ring(_bells: object) -> None:
    """Nobody listens."""


async def _cost(client: redis.Redis, size: int) -> float:
    """Milliseconds from a mark to its lease given back, median; the object's state does not change."""
    await client.flushall()
    keys = Keys("bench")
    lanes = {name: Lane(client, name, keys) for name in ("reconcile", "poll")}
    controllers = registry.controllers("managed")
    mirror, readings = Mirror(client, keys, lanes_of(controllers, lanes)), Readings(client, keys)
    cluster = MemoryCluster()
    await lanes["reconcile"].open()
    owner = cluster.add(SCALED_JOB, _scaled_job())
    await _fill(mirror, SCALED_JOB, [owner])
    await _fill(mirror, JOB, [_job(number, owner if number < CHILDREN else None) for number in range(size)])
    await _fill(mirror, POD, [])
    sample = Sample(name="s0-redis-work", type="redis", value=float(CHILDREN), target=1.0, active=True)
    reading = Reading(id=1, started=1, generation=1, samples=(sample,), uid=owner["metadata"]["uid"])
    await readings.put_many({OWNER.key: reading}, lanes["reconcile"])
    reconciler = Reconciler(
        controllers=controllers,
        mirror=mirror,
        readings=readings,
        actor=Actor(cluster=cluster, mirror=mirror, recorder=_Silent(), poll=lanes["poll"], ring=_ring, in_flight=16),  # type: ignore[arg-type]
        clock=lambda: datetime.now(UTC),
        deadline=60.0,
        stale=3600.0,
    )
    hands = Hands(lanes["reconcile"], _ring, lease=15.0)
    drain = Drain(hands, reconciler.handle, _ring, batch=64, work=60.0)
    while await drain.bell():
        await asyncio.sleep(0)
    times = []
    for _ in range(RECONCILES):
        started = perf_counter()
        await lanes["reconcile"].mark([OWNER.key])
        await drain.bell()
        times.append(perf_counter() - started)
    await hands.close()
    return statistics.median(times) * 1000


async def _fill(mirror: Mirror, kind: Kind, bodies: list[Object]) -> None:
    listing = await mirror.begin(kind, 1)
    await mirror.apply(kind, [Change(body) for body in bodies], listing=listing)
    await mirror.finish(listing, {"": "999999999"})
    now = await mirror.touch(kind, 1, None)
    await mirror.touch(kind, 1, now)


def _scaled_job() -> Object:
    trigger = {"type": "redis", "metadata": {"address": "127.0.0.1:1", "listName": "work", "listLength": "1"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "python"}]}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "metadata": {"name": "work", "namespace": "default", "finalizers": ["finalizer.keda.sh"]},
        "spec": {"jobTargetRef": {"template": template}, "triggers": [trigger]},
    }


def _job(number: int, owner: Object | None) -> Object:
    """A Job of a size that is usual, running."""
    uid = owner["metadata"]["uid"] if owner else f"somebody-{number % 1000}"
    reference = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledJob",
        "name": "work" if owner else f"other-{number % 1000}",
        "uid": uid,
        "controller": True,
    }
    env = [{"name": f"VARIABLE_{index}", "value": "x" * 20} for index in range(15)]
    container = {"name": "work", "image": "python", "command": ["python3", "work.py"], "env": env}
    labels = {"scaledjob.keda.sh/name": reference["name"], "app.kubernetes.io/managed-by": "keda-operator"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"job-{number}",
            "namespace": "default",
            "uid": f"job-uid-{number}",
            "resourceVersion": str(1000 + number),
            "generation": 1,
            "labels": labels,
            "annotations": {"scaledjob.keda.sh/generation": "1"},
            "ownerReferences": [reference],
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        "status": {"active": 1, "startTime": "2026-03-01T12:00:00Z"},
    }
