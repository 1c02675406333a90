"""One Job with many completions whose pods end as soon as they are there: pods a second, and what a sync costs.

Next to a bare client that makes the same writes to the same API server, as many in flight: it creates a pod with a
finalizer, ends it as the kubelet does, and takes the finalizer off; but counts nothing. Where KUBE_CONTROLLER_MANAGER
names the binary of kube-controller-manager, its Jobs do the same on a real server (before 1.23 without finalizers).

BENCH_COMPLETIONS shortens a run.
"""

import asyncio
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import REGISTRY

from tests.benchmarks import peers
from tests.benchmarks.cpu import CpuUse
from tests.benchmarks.harness import IN_FLIGHT, Figure, side_by_side
from tests.benchmarks.manifests import TEMPLATE, body, succeeded
from tests.benchmarks.site import Watched, ending, repeating
from tests.benchmarks.stack import REAL, clients, server, servers, stack, version_of
from tests.benchmarks.worker import Worker, worker
from workers.api import conditions
from workers.api.kinds import JOB, POD, Kind, Object, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.client.rest import STRATEGIC_MERGE_PATCH, Cluster

COMPLETIONS = int(os.environ.get("BENCH_COMPLETIONS", "1000"))
PARALLELISM = 50
#: Counted Jobs; one before them opens the connections and warms the server.
ROUNDS = 3
FINALIZER = "batch.kubernetes.io/job-tracking"
GROUP = f"a Job with {COMPLETIONS:,} completions, {PARALLELISM} at once"


@dataclass(frozen=True)
class Cost:
    """The cost of this process's reconciles of Jobs so far. seconds: from decision to the last write."""

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
        cpu, rounds = await _processes(which)
        found += [*_rates(f"{GROUP}, {which}", "Job, all processes", rounds), *cpu.figures(f"{GROUP}, {which}", "pod")]
        for peer in peers.controller_manager() if which == REAL else ():
            cpu, rounds = await _peer(peer)
            found += [*_rates(f"{GROUP}, {which}", peer.name, rounds), *cpu.figures(f"{GROUP}, {which}", "pod")]
    return found


def _rates(group: str, subject: str, rounds: Sequence[Round]) -> list[Figure]:
    ours = statistics.median(each.ours for each in rounds)
    bare = statistics.median(each.bare for each in rounds)
    ratio = statistics.median(each.ours / each.bare for each in rounds)
    return [
        Figure(group, f"bare client, {IN_FLIGHT} in flight", bare, "pods/s"),
        Figure(group, subject, ours, "pods/s", against=f"bare client, {bare:,.0f} pods/s", ratio=ratio),
    ]


def _job(name: str) -> Object:
    return body(JOB, name, spec={"completions": COMPLETIONS, "parallelism": PARALLELISM, "template": TEMPLATE})


async def _end(cluster: Cluster, ref: Ref) -> Object:
    return await cluster.patch(ref, succeeded(), subresource="status")


async def _bare(cluster: Cluster, name: str) -> float:
    """The same writes for as many pods, by nothing but a loop; pods a second."""

    async def write(number: int) -> None:
        metadata = {"finalizers": [FINALIZER]}
        created = await cluster.create(POD, body(POD, f"{name}-{number}", metadata, spec=TEMPLATE["spec"]))
        await _end(cluster, ref_of(POD, created))
        leaving = {"uid": created["metadata"]["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
        await cluster.patch(ref_of(POD, created), {"metadata": leaving}, type=STRATEGIC_MERGE_PATCH)

    return COMPLETIONS / await side_by_side(write, COMPLETIONS)


# --- a worker alone


async def _worker(which: str) -> list[Round]:
    """A reconcile worker in this process, and a kubelet and an informer that cost next to nothing."""
    rounds = []
    async with clients(which) as (server, client):
        cluster = Watched(server)
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


async def _alone(running: Worker, cluster: Watched, name: str) -> float:
    """From the Job to its completion; pods a second."""
    complete = asyncio.Event()

    def written(kind: Kind, made: Object) -> None:
        if kind == JOB and conditions.finished(made):
            complete.set()

    cluster.written = written
    started = perf_counter()
    made = await cluster.create(JOB, _job(name))
    await running.store.apply(JOB, [ObjectVersion(made)])

    async def tell(kind: Kind, bodies: Sequence[Object]) -> None:
        await running.store.apply(kind, [ObjectVersion(body) for body in bodies])

    async with ending(tell, cluster.server, cluster.free, succeeded):
        while not complete.is_set():
            await running.settle()
            await asyncio.sleep(0)
    return COMPLETIONS / (perf_counter() - started)


# --- all processes


async def _processes(which: str) -> tuple[CpuUse, list[Round]]:
    """All processes, and a kubelet in this one that watches pods and ends them."""
    async with stack(which, jobs="all") as running:
        cpu = await CpuUse.of_stack(running)
        return cpu, await _whole_rounds(running.cluster, cpu)


async def _peer(peer: peers.Peer) -> tuple[CpuUse, list[Round]]:
    """kube-controller-manager in the place of all processes."""
    async with server(REAL) as found, peers.running_controllers(peer, "job", found) as cpu:
        return cpu, await _whole_rounds(found.cluster, cpu)


async def _whole_rounds(cluster: Cluster, cpu: CpuUse) -> list[Round]:
    rounds = []
    kubelet = asyncio.create_task(_end_all(cluster))
    try:
        for number in range(1 + ROUNDS):
            async with cpu.of(COMPLETIONS):
                ours = await _whole(cluster, f"work-{number}", kubelet)
            if not number:
                cpu.forget()
            rounds.append(Round(ours, await _bare(cluster, f"bare-{number}")))
    finally:
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
    return rounds[1:]


async def _end_all(cluster: Cluster) -> None:
    """End each pod of a Job as soon as the watch shows it."""
    version = await version_of(cluster, POD)
    waiting: asyncio.Queue[Ref] = asyncio.Queue()

    async def end() -> None:
        await _end(cluster, await waiting.get())

    async with repeating(end, IN_FLIGHT):
        async for event in cluster.watch(POD, "default", resource_version=version, timeout=3600):
            if event.type == "ADDED" and event.object["metadata"].get("ownerReferences"):
                waiting.put_nowait(ref_of(POD, event.object))


async def _whole(cluster: Cluster, name: str, kubelet: asyncio.Task[None]) -> float:
    """From the Job to its completion as the watch shows it; pods a second."""
    version = await version_of(cluster, JOB)
    started = perf_counter()
    await cluster.create(JOB, _job(name))
    async for event in cluster.watch(JOB, "default", resource_version=version, timeout=600):
        if kubelet.done():
            kubelet.result()
        if event.object["metadata"].get("name") == name and conditions.finished(event.object):
            return COMPLETIONS / (perf_counter() - started)
    raise RuntimeError(f"{name} did not end")
