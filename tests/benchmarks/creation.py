"""Jobs created a second for one ScaledJob, next to a bare client that posts the same Jobs to the same API server."""

import asyncio
import copy
import json
import statistics
from time import perf_counter

from tests.benchmarks.harness import Figure
from tests.benchmarks.stack import Stack, scaled_job, servers, stack
from workers.api.kinds import JOB, SCALED_JOB, Object
from workers.cluster import Cluster

ITEMS = 1_000
IN_FLIGHT = 16
ROUNDS = 3


async def figures() -> list[Figure]:
    found = []
    for which in servers():
        async with stack(which) as running:
            # In turn, so that both meet the same machine and a server that is equally full.
            ours, bare = [], []
            for number in range(ROUNDS):
                rate, sample = await _ours(running, f"work-{number}")
                ours.append(rate)
                bare.append(await _bare(running.cluster, sample, f"bare-{number}"))
        ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
        group = f"Jobs for one ScaledJob, {ITEMS} items, {which}"
        bare_rate = statistics.median(bare)
        found += [
            Figure(group, f"bare client, {IN_FLIGHT} in flight", bare_rate, "Jobs/s"),
            Figure(
                group,
                "ScaledJob",
                statistics.median(ours),
                "Jobs/s",
                against=f"bare client, {bare_rate:,.0f} Jobs/s",
                ratio=ratio,
                goal="0.85",
            ),
        ]
    return found


async def _ours(running: Stack, name: str) -> tuple[float, Object]:
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
    await running.cluster.create(SCALED_JOB, scaled_job(name, running.address, most=ITEMS, polling=3600))
    sample = await watching
    return (ITEMS - 1) / (times[-1] - times[0]), sample


async def _bare(cluster: Cluster, sample: Object, name: str) -> float:
    """The same Jobs, posted by nothing but a loop."""
    body = copy.deepcopy({key: sample[key] for key in ("apiVersion", "kind", "spec")})
    body["spec"].pop("selector", None)
    labels = body["spec"]["template"]["metadata"]["labels"]
    for label in [label for label in labels if "controller-uid" in label or "job-name" in label]:
        del labels[label]
    # As large, but nobody's: what the owner's reconciles cost must not slow down the bare client.
    owners = {"bench/owners": json.dumps(sample["metadata"]["ownerReferences"])}
    kept = {"labels": {"bench": name}, "annotations": {**sample["metadata"]["annotations"], **owners}}
    numbers = iter(range(ITEMS))

    async def post() -> None:
        for number in numbers:
            metadata = {**kept, "name": f"{name}-{number}", "namespace": "default"}
            await cluster.create(JOB, {**body, "metadata": metadata})

    started = perf_counter()
    await asyncio.gather(*(post() for _ in range(IN_FLIGHT)))
    return ITEMS / (perf_counter() - started)
