"""The demo's run: pushes the files, watches the Jobs and collects the pods' results."""

import asyncio
import json
import time
from collections.abc import Callable

import redis.asyncio as redis

from deploy.demo.manifest import NAME, NAMESPACE, PREFIX
from deploy.demo.report import DemoJob, DemoRun
from deploy.demo.stage import PATIENCE, DemoStuck, texts
from workers.api.kinds import JOB, Object, controller_of
from workers.cancellation import cancelled
from workers.client.rest import Cluster
from workers.errors import Gone, Unavailable

#: Seconds without a further Job after the last result that end the run; longer than one pollingInterval.
QUIET = 6.0


async def run(cluster: Cluster, queue: redis.Redis, paths: list[str], show: Callable[[DemoRun], None]) -> DemoRun:
    """Pushes all paths and observes the run until every Job has ended and no further one is created.

    Raises DemoStuck after a minute without progress.
    """
    seen = DemoRun()
    listed, version = await cluster.list(JOB, NAMESPACE)
    for body in listed:
        _note(seen, body)
    watching = asyncio.create_task(_watch(cluster, version, seen))
    try:
        await _push(queue, paths, seen)
        await _follow(queue, seen, watching, show)
    finally:
        await cancelled(watching)
    return seen


async def _push(queue: redis.Redis, paths: list[str], seen: DemoRun) -> None:
    pushed: dict[str, float] = {}
    for path in paths:
        pushed[path] = time.time()
        await queue.rpush(f"{PREFIX}:files", path)
    seen.pushed = pushed


async def _follow(
    queue: redis.Redis, seen: DemoRun, watching: asyncio.Task[None], show: Callable[[DemoRun], None]
) -> None:
    moved, before = time.monotonic(), (-1, -1, -1)
    while True:
        await _collect(queue, seen)
        show(seen)
        now = (len(seen.results), len(seen.jobs), seen.count(None))
        if now != before:
            moved, before = time.monotonic(), now
        still = time.monotonic() - moved
        if len(seen.results) >= len(seen.pushed) and not seen.count(None) and still > QUIET:
            return
        if still > PATIENCE:
            raise DemoStuck(
                f"nothing moved for {PATIENCE:.0f} s: {now[0]} results, {now[1]} Jobs, {now[2]} of them at work"
            )
        if watching.done():
            watching.result()
        await asyncio.sleep(0.1)


async def _collect(queue: redis.Redis, seen: DemoRun) -> None:
    results, times, idle = await asyncio.gather(
        queue.hgetall(f"{PREFIX}:results"), queue.hgetall(f"{PREFIX}:times"), queue.get(f"{PREFIX}:idle")
    )
    seen.results = {path: json.loads(text) for path, text in texts(results).items()}
    seen.times = {path: int(count) for path, count in texts(times).items()}
    seen.idle = int(idle or 0)


async def _watch(cluster: Cluster, version: str, seen: DemoRun) -> None:
    while True:
        try:
            async for event in cluster.watch(JOB, NAMESPACE, resource_version=version, timeout=60):
                version = event.object["metadata"]["resourceVersion"]
                _note(seen, event.object)
        except Gone:
            # The missed events' times are lost, so the figures would be wrong.
            raise
        except Unavailable:
            await asyncio.sleep(0.2)


def _note(seen: DemoRun, body: Object) -> None:
    owner = controller_of(body) if body.get("metadata", {}).get("uid") else None
    if owner is None or owner["name"] != NAME:
        return
    job = seen.jobs.setdefault(body["metadata"]["uid"], DemoJob(created=time.time()))
    for condition in body.get("status", {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            job.outcome = condition["type"]
