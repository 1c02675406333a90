"""One Job with many completions whose pods end as soon as they are there: pods a second, and what a sync costs.

Next to a bare client that makes the same writes to the same API server, as many in flight: it creates a pod with a
finalizer, ends it as the kubelet does, and takes the finalizer off; but counts nothing.

BENCH_COMPLETIONS shortens a run.
"""

import asyncio
import os
import statistics
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from prometheus_client import REGISTRY

from tests.benchmarks.harness import Figure, broker
from tests.benchmarks.pods import succeeded
from tests.benchmarks.stack import Stack, apiserver, servers, stack
from tests.benchmarks.worker import Worker, client_of, worker
from workers.api import conditions
from workers.api.kinds import JOB, POD, Kind, Object, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.client.rest import STRATEGIC_MERGE_PATCH, Cluster

COMPLETIONS = int(os.environ.get("BENCH_COMPLETIONS", "1000"))
PARALLELISM = 50
IN_FLIGHT = 16
#: Counted Jobs; one before them opens the connections and warms the server.
ROUNDS = 3
FINALIZER = "batch.kubernetes.io/job-tracking"
GROUP = f"a Job with {COMPLETIONS:,} completions, {PARALLELISM} at once"


@dataclass(frozen=True)
class Cost:
    """What this process's reconciles of Jobs cost so far. seconds: from decision to the last write."""

    syncs: float
    seconds: float

    @classmethod
    def so_far(cls) -> "Cost":
        """As the metrics tell."""
        labels = {"kind": JOB.id}
        count = REGISTRY.get_sample_value("penstock_reconcile_time_seconds_count", labels)
        total = REGISTRY.get_sample_value("penstock_reconcile_time_seconds_sum", labels)
        return cls(count or 0.0, total or 0.0)


@dataclass(frozen=True)
class Round:
    """One Job: its pods a second and the bare client's, the syncs it took, and the mean length of one."""

    ours: float
    bare: float
    syncs: float = 0.0
    sync: float = 0.0


async def figures() -> list[Figure]:
    found: list[Figure] = []
    for which in servers():
        rounds = await _worker(which)
        group = f"{GROUP}, {which}, worker alone"
        found += [
            *_rates(group, "Job", rounds),
            Figure(group, "syncs that had something to do", statistics.median(each.syncs for each in rounds), "syncs"),
            Figure(group, "one of them, with its writes", statistics.median(each.sync for each in rounds) * 1000, "ms"),
        ]
    return [*found, *_rates(f"{GROUP}, embedded", "Job, all processes", await _house())]


def _rates(group: str, subject: str, rounds: Sequence[Round]) -> list[Figure]:
    ours = statistics.median(each.ours for each in rounds)
    bare = statistics.median(each.bare for each in rounds)
    ratio = statistics.median(each.ours / each.bare for each in rounds)
    return [
        Figure(group, f"bare client, {IN_FLIGHT} in flight", bare, "pods/s"),
        Figure(group, subject, ours, "pods/s", against=f"bare client, {bare:,.0f} pods/s", ratio=ratio),
    ]


def _job(name: str) -> Object:
    container = {"name": "work", "image": "python", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"completions": COMPLETIONS, "parallelism": PARALLELISM, "template": template},
    }


async def _end(cluster: Cluster, ref: Ref) -> Object:
    """End a pod."""
    return await cluster.patch(ref, succeeded(), subresource="status")


async def _bare(cluster: Cluster, name: str) -> float:
    """The same writes for as many pods, by nothing but a loop; pods a second."""
    template = _job(name)["spec"]["template"]
    numbers = iter(range(COMPLETIONS))

    async def write() -> None:
        for number in numbers:
            metadata = {"name": f"{name}-{number}", "namespace": "default", "finalizers": [FINALIZER]}
            body = {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": template["spec"]}
            created = await cluster.create(POD, body)
            await _end(cluster, ref_of(POD, created))
            leaving = {"uid": created["metadata"]["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
            await cluster.patch(ref_of(POD, created), {"metadata": leaving}, type=STRATEGIC_MERGE_PATCH)

    started = perf_counter()
    await asyncio.gather(*(write() for _ in range(IN_FLIGHT)))
    return COMPLETIONS / (perf_counter() - started)


# --- a worker alone


class _Watched:
    """A cluster that tells which pods were made, and when the Job is complete."""

    def __init__(self, server: Cluster) -> None:
        self._server = server
        self.made: asyncio.Queue[Ref] = asyncio.Queue()
        self.complete = False

    async def create(self, kind: Kind, body: Object) -> Object:
        created = await self._server.create(kind, body)
        if kind == POD:
            self.made.put_nowait(ref_of(POD, created))
        return created

    async def patch(self, ref: Ref, body: Any, **options: Any) -> Object:
        patched = await self._server.patch(ref, body, **options)
        if ref.kind == JOB and conditions.finished(patched):
            self.complete = True
        return patched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


async def _worker(which: str) -> list[Round]:
    """A reconcile worker in this process, and a kubelet and an informer that cost next to nothing."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder, apiserver(which, Path(folder)) as kubeconfig, broker() as url:
        connected = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=60.0, in_flight=IN_FLIGHT)
        async with connected as server, client_of(url) as client:
            cluster = _Watched(server)
            async with worker(client, cluster, in_flight=IN_FLIGHT, jobs="all") as running:
                for kind in (JOB, POD):
                    await running.fill(kind, [])
                for number in range(1 + ROUNDS):
                    before = Cost.so_far()
                    ours = await _alone(running, cluster, f"work-{number}")
                    after = Cost.so_far()
                    syncs = after.syncs - before.syncs
                    bare = await _bare(server, f"bare-{number}")
                    rounds.append(Round(ours, bare, syncs, (after.seconds - before.seconds) / syncs))
    return rounds[1:]


async def _alone(running: Worker, cluster: _Watched, name: str) -> float:
    """From the Job to its completion; pods a second."""
    cluster.complete = False
    started = perf_counter()
    body = await cluster.create(JOB, _job(name))
    await running.store.apply(JOB, [ObjectVersion(body)])
    async with _kubelet(running, cluster):
        while not cluster.complete:
            await running.settle()
            await asyncio.sleep(0)
    return COMPLETIONS / (perf_counter() - started)


@asynccontextmanager
async def _kubelet(running: Worker, cluster: _Watched) -> AsyncIterator[None]:
    """Ends every pod that is made, and tells the mirror of all that ended meanwhile at once, as an informer does."""
    ended: asyncio.Queue[Object] = asyncio.Queue()

    async def end() -> None:
        while True:
            ended.put_nowait(await _end(cluster, await cluster.made.get()))

    async def tell() -> None:
        while True:
            bodies = [await ended.get()]
            while not ended.empty():
                bodies.append(ended.get_nowait())
            await running.store.apply(POD, [ObjectVersion(body) for body in bodies])

    tasks = [asyncio.create_task(tell()), *(asyncio.create_task(end()) for _ in range(IN_FLIGHT))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- the whole house


async def _house() -> list[Round]:
    """All processes, and a kubelet in this one that watches pods and ends them."""
    rounds = []
    async with stack(jobs="all") as running:
        ending = asyncio.create_task(_end_all(running))
        try:
            for number in range(1 + ROUNDS):
                ours = await _whole(running, f"work-{number}", ending)
                rounds.append(Round(ours, await _bare(running.cluster, f"bare-{number}")))
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
    return rounds[1:]


async def _end_all(running: Stack) -> None:
    """End each pod of a Job as soon as the watch shows it."""
    _, version = await running.cluster.list(POD, "default", limit=1)
    waiting: asyncio.Queue[Ref] = asyncio.Queue()

    async def end() -> None:
        while True:
            await _end(running.cluster, await waiting.get())

    hands = [asyncio.create_task(end()) for _ in range(IN_FLIGHT)]
    try:
        async for event in running.cluster.watch(POD, "default", resource_version=version, timeout=3600):
            if event.type == "ADDED" and event.object["metadata"].get("ownerReferences"):
                waiting.put_nowait(ref_of(POD, event.object))
    finally:
        for hand in hands:
            hand.cancel()
        await asyncio.gather(*hands, return_exceptions=True)


async def _whole(running: Stack, name: str, ending: asyncio.Task[None]) -> float:
    """From the Job to its completion as the watch shows it; pods a second."""
    _, version = await running.cluster.list(JOB, "default", limit=1)
    started = perf_counter()
    await running.cluster.create(JOB, _job(name))
    async for event in running.cluster.watch(JOB, "default", resource_version=version, timeout=600):
        if ending.done():
            ending.result()
        if event.object["metadata"].get("name") == name and conditions.finished(event.object):
            return COMPLETIONS / (perf_counter() - started)
    raise RuntimeError(f"{name} did not end")
