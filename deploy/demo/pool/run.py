"""The pool's run: pushes the tasks and samples the workers until all tasks are done and the pool is at zero."""

import asyncio
import time
from collections.abc import Callable, Sequence

import redis.asyncio as redis

from deploy.demo.pool.manifest import NAME, NAMESPACE
from deploy.demo.pool.report import PoolRun, PoolSample
from deploy.demo.pool.work import BEGUN, ENDED, RESULTS
from deploy.demo.stage import PATIENCE, DemoStuck, texts
from workers.api.kinds import DEPLOYMENT, POD, Ref
from workers.client.rest import Cluster
from workers.errors import Unavailable

#: Seconds between two samples.
INTERVAL = 0.1


async def run(
    cluster: Cluster,
    store: redis.Redis,
    push: Callable[[int], None],
    numbers: Sequence[int],
    *,
    least: int,
    most: int,
    show: Callable[[PoolSample], None],
) -> PoolRun:
    """Pushes the tasks and samples the pool until every task is done and no worker is left.

    push: sends the task with a number. least, most: required and allowed number of concurrent workers. Raises
    DemoStuck after a minute without progress.
    """
    seen = PoolRun(pushed=tuple(numbers), least=least, most=most)
    begun = time.monotonic()

    def push_all() -> None:
        for number in numbers:
            push(number)

    # Celery's client blocks.
    await asyncio.to_thread(push_all)
    moved = begun
    while True:
        try:
            wanted, ready, pods = await _workers(cluster)
        except Unavailable:
            await asyncio.sleep(INTERVAL)
            continue
        await _collect(store, seen)
        now = time.monotonic()
        sample = PoolSample(now - begun, wanted, ready, len(seen.results))
        before = seen.samples[-1] if seen.samples else None
        if before is None or (before.wanted, before.ready, before.done) != (wanted, ready, sample.done):
            moved = now
        seen.samples.append(sample)
        show(sample)
        if seen.done and (wanted, pods) == (0, 0):
            # A last worker may have stored results after the first read; now no worker is left.
            await _collect(store, seen)
            return seen
        if now - moved > PATIENCE:
            raise DemoStuck(
                f"nothing moved for {PATIENCE:.0f} s: {sample.done} of {len(numbers)} tasks done, "
                f"{wanted} workers wanted, {ready} ready, {pods} there"
            )
        await asyncio.sleep(INTERVAL)


async def _workers(cluster: Cluster) -> tuple[int, int, int]:
    """Returns the numbers of workers wanted, ready, and existing, including those that are terminating."""
    deployment = await cluster.get(Ref(DEPLOYMENT, NAMESPACE, NAME))
    pods, _ = await cluster.list(POD, NAMESPACE, label_selector=f"app={NAME}")
    status = deployment.get("status") or {}
    return int(deployment["spec"]["replicas"]), int(status.get("readyReplicas") or 0), len(pods)


async def _collect(store: redis.Redis, seen: PoolRun) -> None:
    results, begun, ended = await asyncio.gather(*(store.hgetall(key) for key in (RESULTS, BEGUN, ENDED)))
    seen.results = {int(number): text for number, text in texts(results).items()}
    seen.begun = {int(number): int(times) for number, times in texts(begun).items()}
    seen.ended = {int(number): int(times) for number, times in texts(ended).items()}
