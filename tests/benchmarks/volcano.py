"""Volcano's kinds: many Jobs through one queue, and flows of many entries.

Next to a bare client that makes as many writes of each sort to the same API server, as many in flight, and decides
nothing. Pods end as soon as they may start, and the Jobs of flows as soon as they are there.

Of a chain, in which every entry waits for the one before, several lengths show how the cost of an entry grows.

An admission round of many gangs that wait is decided alone: what it reads and writes is not in its figures.

BENCH_VCJOBS, BENCH_CHAINS, BENCH_ENTRIES and BENCH_GANGS shorten a run, BENCH_PROFILE=1 prints where the time of the
worker's process goes.
"""

import asyncio
import gc
import os
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter, process_time

import orjson

from tests.benchmarks.harness import IN_FLIGHT, Figure, compared, side_by_side
from tests.benchmarks.manifests import TEMPLATE, body, succeeded
from tests.benchmarks.site import Site, ending, site, until
from tests.benchmarks.stack import servers
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.podgroup import gangs
from workers.api import times
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, POD, POD_GROUP, VC_JOB, Kind, Object, Ref, ref_of
from workers.controllers.volcano.podgroup import admission_round

JOBS = int(os.environ.get("BENCH_VCJOBS", "1000"))
CHAINS = tuple(int(length) for length in os.environ.get("BENCH_CHAINS", "100,400,1000").split(",") if length)
ENTRIES = int(os.environ.get("BENCH_ENTRIES", "1000"))
GANGS = int(os.environ.get("BENCH_GANGS", "10000"))
PODS = 3

_CONTAINER = {**TEMPLATE["spec"]["containers"][0], "resources": {"requests": {"cpu": "100m"}}}
_POD = {"spec": {**TEMPLATE["spec"], "containers": [_CONTAINER]}}


async def figures() -> list[Figure]:
    found = _rounds()
    for which in servers():
        found += await _jobs(which)
        for length in CHAINS:
            found += await _flow(which, "a chain", [_chain(number) for number in range(length)])
        found += await _flow(which, "a fan", [_fan(number) for number in range(ENTRIES)])
    return found


# --- many waiting gangs


def _rounds() -> list[Figure]:
    """The decisions of rounds on gangs that wait for a full node, each as the broker's text is decoded for it."""
    holder = gangs.group("holder", least=8, phase="Running")
    pods = [gangs.pod(f"holder-{number}", "holder", node="one", phase="Running") for number in range(8)]
    waiting = [gangs.group(f"waits-{number}", created=-60 - number / 1000) for number in range(GANGS)]
    written = orjson.dumps([*waiting, holder])
    times_: list[float] = []
    for _ in range(6):
        snapshot = gangs.everything(groups=orjson.loads(written), pods=pods, nodes=[gangs.node()])
        gc.collect()
        started = process_time()
        admission_round.admit(snapshot, NOW)
        times_.append(1000 * (process_time() - started))
    group = f"an admission round of {GANGS:,} gangs that wait, the decision alone"
    return [
        Figure(group, "CPU of the first of a process", times_[0], "ms"),
        Figure(group, "CPU of those after it, median", statistics.median(times_[1:]), "ms"),
    ]


# --- many Jobs


async def _jobs(which: str) -> list[Figure]:
    async with site(which) as running:
        done, phases = asyncio.Event(), dict[str, str]()

        def written(kind: Kind, made: Object) -> None:
            if kind == VC_JOB:
                phases[made["metadata"]["name"]] = ((made.get("status") or {}).get("state") or {}).get("phase") or ""
                if len(phases) == JOBS and set(phases.values()) == {"Completed"}:
                    done.set()

        running.cluster.written = written
        used, started = process_time(), perf_counter()
        async with ending(running.tell, running.server, running.cluster.free, succeeded):
            adding = asyncio.create_task(side_by_side(lambda number: running.add(VC_JOB, _job(number)), JOBS))
            await until(running, done)
            await adding
        seconds, used = perf_counter() - started, process_time() - used
        last = await running.server.get(Ref(VC_JOB, "default", "work-0"))
        bare = await _bare_jobs(running, last["status"])
    return _job_figures(which, running, seconds, used, bare)


_STATUS = {"subresource": "status"}


def _job(number: int, name: str = "work") -> Object:
    tasks = [{"name": "main", "replicas": PODS, "template": _POD}]
    return body(VC_JOB, f"{name}-{number}", spec={"queue": "default", "tasks": tasks})


async def _bare_jobs(running: Site, status: Object) -> float:
    """As many writes of each sort for as many Jobs; seconds."""
    server, each = running.server, running.cluster.each

    async def write(number: int) -> None:
        job = ref_of(VC_JOB, await server.create(VC_JOB, _job(number, "bare")))
        group = ref_of(POD_GROUP, await server.create(POD_GROUP, body(POD_GROUP, job.name, spec={"minMember": PODS})))
        for _ in range(each("patch", POD_GROUP, JOBS)):
            await server.patch(group, {"status": {"phase": "Inqueue"}})
        for index in range(PODS):
            pod = ref_of(POD, await server.create(POD, body(POD, f"{job.name}-{index}", spec=_POD["spec"])))
            for _ in range(each("patch", POD, JOBS * PODS)):
                await server.patch(pod, {"metadata": {"annotations": {"seen": "true"}}})
            await server.patch(pod, succeeded(), **_STATUS)
        for _ in range(each("patch", VC_JOB, JOBS)):
            await server.patch(job, {"status": status}, **_STATUS)
        await server.delete(group)

    return await side_by_side(write, JOBS)


def _job_figures(which: str, running: Site, seconds: float, used: float, bare: float) -> list[Figure]:
    group = f"{JOBS:,} Volcano Jobs of {PODS} pods through one queue, {which}, worker alone"
    pods, costs = JOBS * PODS, running.costs
    writes = sum(running.cluster.writes.values())
    syncs = sum(map(len, costs.spent.values()))
    return [
        Figure(group, f"bare client, {IN_FLIGHT} in flight", pods / bare, "pods/s"),
        compared(group, "Jobs", pods / seconds, pods / bare, "pods/s"),
        Figure(group, "until all are Completed", seconds, "s"),
        Figure(group, "writes for each Job, without its own", writes / JOBS, "writes"),
        Figure(group, "decisions on each Job", len(costs.spent[VC_JOB.id]) / JOBS, "decisions"),
        Figure(group, "one of them", costs.mean(VC_JOB.id), "ms"),
        Figure(group, "decisions on each PodGroup", len(costs.spent[POD_GROUP.id]) / JOBS, "decisions"),
        Figure(group, "one of them", costs.mean(POD_GROUP.id), "ms"),
        Figure(group, "admission rounds", len(costs.spent["round"]), "rounds"),
        Figure(group, "one of them", costs.mean("round"), "ms"),
        Figure(group, "the longest", 1000 * max(costs.spent["round"]), "ms"),
        Figure(group, "CPU of the worker for each decision of any kind", 1000 * used / syncs, "ms"),
    ]


# --- flows


def _chain(number: int) -> tuple[int, ...]:
    return (number - 1,) if number else ()


def _fan(number: int) -> tuple[int, ...]:
    """One before all, and one after all."""
    if number == ENTRIES - 1:
        return tuple(range(1, ENTRIES - 1))
    return (0,) if number else ()


async def _flow(which: str, shape: str, targets: Sequence[tuple[int, ...]]) -> list[Figure]:
    """targets: of each entry, the numbers of those it waits for."""
    async with site(which, VC_JOB) as running:
        done, waiting = asyncio.Event(), asyncio.Queue[Ref]()
        last: Object = {}

        def written(kind: Kind, made: Object) -> None:
            if kind == VC_JOB:
                waiting.put_nowait(ref_of(VC_JOB, made))
            elif kind == JOB_FLOW:
                last.update(made)
                if made["status"]["state"]["phase"] == "Succeed":
                    done.set()

        running.cluster.written = written
        await running.add(JOB_TEMPLATE, body(JOB_TEMPLATE, "step", spec=_job(0)["spec"]))
        entries = [_entry(number, waits) for number, waits in enumerate(targets)]
        used, started = process_time(), perf_counter()
        async with ending(running.tell, running.server, waiting, _completed):
            await running.add(JOB_FLOW, body(JOB_FLOW, "flow", spec={"flows": entries}))
            await until(running, done)
        seconds, used = perf_counter() - started, process_time() - used
        bare = await _bare_flow(running, len(entries), 1 if shape == "a chain" else IN_FLIGHT)
    group = f"a flow of {len(entries):,} entries, {shape}, {which}, worker alone"
    return _flow_figures(group, running, len(entries), seconds, used, bare)


def _entry(number: int, targets: tuple[int, ...]) -> Object:
    waits = {"dependsOn": {"targets": [f"e{target}" for target in targets]}} if targets else {}
    return {"name": f"e{number}", "template": "step", **waits}


def _completed() -> Object:
    moment = times.render(datetime.now(UTC))
    return {"status": {"state": {"phase": "Completed", "lastTransitionTime": moment}, "minAvailable": PODS}}


async def _bare_flow(running: Site, entries: int, in_flight: int) -> float:
    """The Jobs and their ends; seconds. A chain has one after the other."""
    server = running.server

    async def write(number: int) -> None:
        job = ref_of(VC_JOB, await server.create(VC_JOB, _job(number, "bare")))
        await server.patch(job, _completed(), **_STATUS)

    return await side_by_side(write, entries, in_flight)


def _flow_figures(group: str, running: Site, entries: int, seconds: float, used: float, bare: float) -> list[Figure]:
    costs = running.costs
    of_flow = costs.spent[JOB_FLOW.id]
    return [
        Figure(group, "bare client, Jobs only", entries / bare, "entries/s"),
        compared(group, "flow", entries / seconds, entries / bare, "entries/s"),
        Figure(group, "until it succeeded", seconds, "s"),
        Figure(group, "decisions on the flow", len(of_flow), "decisions"),
        Figure(group, "one of them", costs.mean(JOB_FLOW.id), "ms"),
        Figure(group, "the longest", 1000 * max(of_flow), "ms"),
        Figure(group, "CPU of the worker for each entry", 1000 * used / entries, "ms"),
    ]
