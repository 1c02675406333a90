"""The cost of one reconcile in a cluster with few Jobs and in one with many: it reads only its own children."""

import gc
import statistics
from time import perf_counter

import redis.asyncio as redis

from tests.benchmarks.harness import Figure, broker
from tests.benchmarks.manifests import body, scaled_job
from tests.benchmarks.worker import worker
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import JOB, POD, SCALED_JOB, Object, Ref

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


async def _cost(client: redis.Redis, size: int) -> float:
    """Milliseconds from a mark to its lease given back, median; the object's state does not change."""
    cluster = MemoryCluster()
    async with worker(client, cluster) as running:
        wanted = scaled_job("work", "127.0.0.1:1", most=100, polling=30)
        wanted["metadata"]["finalizers"] = ["finalizer.keda.sh"]
        owner = cluster.add(SCALED_JOB, wanted)
        await running.fill(SCALED_JOB, [owner])
        await running.fill(JOB, [_job(number, owner if number < CHILDREN else None) for number in range(size)])
        await running.fill(POD, [])
        await running.read(owner, CHILDREN)
        await running.settle()
        # What was built to fill the mirror is not what a worker's process holds.
        gc.collect()
        times = []
        for _ in range(RECONCILES):
            started = perf_counter()
            await running.lanes["reconcile"].mark([OWNER.key])
            await running.consumer.consume()
            times.append(perf_counter() - started)
    return statistics.median(times) * 1000


def _job(number: int, owner: Object | None) -> Object:
    """A Job of a size that is usual, running."""
    uid = owner["metadata"]["uid"] if owner else f"other-{number % 1000}"
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
    metadata = {
        **{"uid": f"job-uid-{number}", "resourceVersion": str(1000 + number), "generation": 1},
        "labels": labels,
        "annotations": {"scaledjob.keda.sh/generation": "1"},
        "ownerReferences": [reference],
    }
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    status = {"active": 1, "startTime": "2026-03-01T12:00:00Z"}
    return body(JOB, f"job-{number}", metadata, spec=spec, status=status)
