"""Jobs created a second for one ScaledJob, next to a bare client that posts the same Jobs to the same API server."""

import asyncio
import copy
import json
import statistics
from dataclasses import dataclass, field
from time import perf_counter

from tests.benchmarks.cpu import CpuUse
from tests.benchmarks.harness import IN_FLIGHT, Figure, side_by_side
from tests.benchmarks.manifests import scaled_job
from tests.benchmarks.stack import Stack, Timed, clients, servers, stack
from tests.benchmarks.worker import Worker, worker
from workers.api.kinds import JOB, POD, SCALED_JOB, Object, ref_of
from workers.cache.store import ObjectVersion
from workers.client.rest import Cluster

ITEMS = 1_000
#: Counted ones; one before them opens the connections and warms the server.
ROUNDS = 5
#: Ratios to the bare client that all processes in one box, and a worker alone, should reach; milliseconds for each Job.
GOAL, ALONE, CPU_GOAL = "0.75", "0.9", "below 0.8"


@dataclass(frozen=True)
class Rates:
    """Jobs a second, round by round; in turn, so that both meet the same machine and a server that is equally full."""

    rounds: list[tuple[float, float]] = field(default_factory=list)
    cpu: CpuUse | None = None

    def add(self, ours: float, bare: float) -> None:
        """One more round."""
        self.rounds.append((ours, bare))

    def figures(self, group: str, subject: str) -> list[Figure]:
        """The medians, and the median of the ratios; without the first round."""
        ours, bare = (statistics.median(rates) for rates in zip(*self.rounds[1:], strict=True))
        ratio = statistics.median(one / other for one, other in self.rounds[1:])
        against = f"bare client, {bare:,.0f} Jobs/s"
        return [
            Figure(group, f"bare client, {IN_FLIGHT} in flight", bare, "Jobs/s"),
            Figure(group, subject, ours, "Jobs/s", against=against, ratio=ratio, goal=GOAL if self.cpu else ALONE),
            *(self.cpu.figures(group, "Job", CPU_GOAL) if self.cpu else ()),
        ]


async def figures() -> list[Figure]:
    group = f"Jobs for one ScaledJob, {ITEMS} items, embedded"
    found = (await _whole("default")).figures(group, "ScaledJob, all processes")
    found += (await _whole("claim")).figures(f"{group}, each claimed", "ScaledJob, all processes")
    for which in servers():
        group = f"Jobs for one ScaledJob, {ITEMS} items, {which}, worker alone"
        found += (await _worker(which)).figures(group, "ScaledJob")
    return found


async def _whole(strategy: str) -> Rates:
    """All parts as separate processes: poll, decision, creation and the watch compete for the machine."""
    async with stack() as running:
        rates = Rates(cpu=await CpuUse.of_stack(running))
        assert rates.cpu is not None
        for number in range(1 + ROUNDS):
            async with rates.cpu.of(ITEMS if number else 0):
                rate, sample = await _ours(running, f"work-{number}", strategy)
            if not number:
                # What starting, connecting and compiling cost is no Job's.
                rates.cpu.used.clear()
            rates.add(rate, await _bare(running.cluster, sample, f"bare-{number}"))
    return rates


async def _worker(which: str) -> Rates:
    """A reconcile worker in this process, as the bare client is: ScaledJobs in memory, Jobs on the server."""
    rates = Rates()
    async with clients(which) as (server, client):
        cluster = Timed(server)
        async with worker(client, cluster, in_flight=IN_FLIGHT) as running:
            for kind in (SCALED_JOB, JOB, POD):
                await running.fill(kind, [])
            for number in range(1 + ROUNDS):
                body = scaled_job(f"work-{number}", "127.0.0.1:1", most=ITEMS, polling=3600)
                rate, sample = await _alone(running, cluster, cluster.memory.add(SCALED_JOB, body))
                rates.add(rate, await _bare(server, sample, f"bare-{number}"))
    return rates


async def _alone(running: Worker, cluster: Timed, owner: Object) -> tuple[float, Object]:
    """From the first of our Jobs to the last, and one of them."""
    cluster.created.clear()
    await running.store.apply(SCALED_JOB, [ObjectVersion(owner)])
    await running.settle()
    await running.read(owner, ITEMS)
    await running.lanes["reconcile"].mark([ref_of(SCALED_JOB, owner).key])
    await running.settle()
    moments = cluster.moments(ITEMS)
    return (ITEMS - 1) / (moments[-1] - moments[0]), cluster.created[0][1]


async def _ours(running: Stack, name: str, strategy: str) -> tuple[float, Object]:
    """From the first of our Jobs to the last, and one of them."""
    await running.work.rpush(name, *(str(number) for number in range(ITEMS)))
    _, version = await running.cluster.list(JOB, "default", limit=1)
    times: list[float] = []

    async def watch() -> Object:
        events = running.cluster.watch(JOB, "default", resource_version=version, timeout=120)
        async for event in events:
            if event.type == "ADDED" and event.object["metadata"]["labels"].get("scaledjob.keda.sh/name") == name:
                times.append(perf_counter())
                if len(times) == ITEMS:
                    return event.object
        raise RuntimeError(f"only {len(times)} of {ITEMS} Jobs were created")

    watching = asyncio.create_task(watch())
    body = scaled_job(name, running.address, most=ITEMS, polling=3600, strategy=strategy)
    await running.cluster.create(SCALED_JOB, body)
    sample = await watching
    return (ITEMS - 1) / (times[-1] - times[0]), sample


async def _bare(cluster: Cluster, sample: Object, name: str) -> float:
    """The same Jobs, posted by nothing but a loop."""
    body = copy.deepcopy({key: sample[key] for key in ("apiVersion", "kind", "spec")})
    body["spec"].pop("selector", None)
    labels = body["spec"]["template"]["metadata"]["labels"]
    for label in [label for label in labels if "controller-uid" in label or "job-name" in label]:
        del labels[label]
    # As large, but without an owner, whose reconciles would slow down the bare client.
    owners = {"bench/owners": json.dumps(sample["metadata"]["ownerReferences"])}
    kept = {"labels": {"bench": name}, "annotations": {**sample["metadata"]["annotations"], **owners}}

    async def post(number: int) -> None:
        metadata = {**kept, "name": f"{name}-{number}", "namespace": "default"}
        await cluster.create(JOB, {**body, "metadata": metadata})

    return ITEMS / await side_by_side(post, ITEMS)
