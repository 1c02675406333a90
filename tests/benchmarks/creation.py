"""Jobs created a second for one ScaledJob, next to a bare client that posts the same Jobs to the same API server.

Where KEDA names the binary of its operator, that does the same on a server of the same sort, next to the same client.
"""

import asyncio
import copy
import json
import statistics
from dataclasses import dataclass, field
from time import perf_counter

import redis.asyncio as redis

from tests.benchmarks import peers
from tests.benchmarks.cpu import CpuUse
from tests.benchmarks.harness import IN_FLIGHT, Figure, broker, side_by_side
from tests.benchmarks.manifests import scaled_job
from tests.benchmarks.stack import REAL, Timed, clients, server, servers, stack, version_of
from tests.benchmarks.worker import Worker, worker
from tests.support import kube
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

    def figures(self, group: str, subject: str, *, aimed: bool = True) -> list[Figure]:
        """The medians, and the median of the ratios; without the first round. aimed: the rates are ours."""
        ours, bare = (statistics.median(rates) for rates in zip(*self.rounds[1:], strict=True))
        ratio = statistics.median(one / other for one, other in self.rounds[1:])
        against = f"bare client, {bare:,.0f} Jobs/s"
        goal = (GOAL if self.cpu else ALONE) if aimed else ""
        return [
            Figure(group, f"bare client, {IN_FLIGHT} in flight", bare, "Jobs/s"),
            Figure(group, subject, ours, "Jobs/s", against=against, ratio=ratio, goal=goal),
            *(self.cpu.figures(group, "Job", CPU_GOAL if aimed else "") if self.cpu else ()),
        ]


async def figures() -> list[Figure]:
    found: list[Figure] = []
    for which in servers():
        group = f"Jobs for one ScaledJob, {ITEMS} items, {which}"
        found += (await _whole(which, "default")).figures(group, "ScaledJob, all processes")
        # KEDA follows autoscaling/v2, which kube-apiserver has since 1.23.
        for peer in peers.keda() if which != REAL or kube.version(kube.assets()) >= (1, 23) else ():
            found += (await _peer(which, peer)).figures(group, peer.name, aimed=False)
        claimed = await _whole(which, "claim")
        found += claimed.figures(f"{group}, each claimed", "ScaledJob, all processes")
        found += (await _worker(which)).figures(f"{group}, worker alone", "ScaledJob")
    return found


async def _whole(which: str, strategy: str) -> Rates:
    """All parts as separate processes: poll, decision, creation and the watch compete for the machine."""
    async with stack(which) as running:
        cpu = await CpuUse.of_stack(running)
        return await _rounds(running.cluster, running.work, running.address, cpu, strategy, ROUNDS)


async def _peer(which: str, peer: peers.Peer) -> Rates:
    """KEDA's operator in the place of all parts."""
    with broker() as url:
        async with (
            server(which) as found,
            redis.Redis.from_url(url) as work,
            peers.running_keda(peer, found) as cpu,
        ):
            address = url.removeprefix("redis://").partition("/")[0]
            # Twenty Jobs a second: the rate is the limit, whatever the round.
            return await _rounds(found.cluster, work, address, cpu, "default", 1 if peer.limited else ROUNDS)


async def _rounds(cluster: Cluster, work: redis.Redis, address: str, cpu: CpuUse, strategy: str, rounds: int) -> Rates:
    """One ScaledJob after the other, each followed by the bare client. address: HOST:PORT of `work`."""
    rates = Rates(cpu=cpu)
    for number in range(1 + rounds):
        async with cpu.of(ITEMS if number else 0):
            body = scaled_job(f"work-{number}", address, most=ITEMS, polling=3600, strategy=strategy)
            rate, sample = await _ours(cluster, work, body)
        if not number:
            # What starting, connecting and compiling cost is no Job's.
            cpu.used.clear()
        rates.add(rate, await _bare(cluster, sample, f"bare-{number}"))
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


async def _ours(cluster: Cluster, work: redis.Redis, scaled: Object) -> tuple[float, Object]:
    """From the first Job of a ScaledJob to the last, and one of them."""
    name = scaled["metadata"]["name"]
    await work.rpush(name, *(str(number) for number in range(ITEMS)))
    version = await version_of(cluster, JOB)
    times: list[float] = []

    async def watch() -> Object:
        events = cluster.watch(JOB, "default", resource_version=version, timeout=300)
        async for event in events:
            if event.type == "ADDED" and event.object["metadata"]["labels"].get("scaledjob.keda.sh/name") == name:
                times.append(perf_counter())
                if len(times) == ITEMS:
                    return event.object
        raise RuntimeError(f"only {len(times)} of {ITEMS} Jobs were created")

    watching = asyncio.create_task(watch())
    await cluster.create(SCALED_JOB, scaled)
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
