"""Scale: what the broker holds and does for each object, as their number grows (docs/capacity.md).

The broker's costs are its own CPU time (INFO) for each call or key, and its memory; both are those of one thread,
whatever else the machine does. Sizes are small unless environment variables say otherwise:

    BENCH_OBJECTS     objects of the largest kind, and keys of a lane; each figure is taken at a tenth of them, too
    BENCH_NAMESPACES  namespaces over which they are spread
    BENCH_POLLED      ScaledJobs that are polled, and series of each metric of a scaler's page
    BENCH_MIRRORED    Jobs that are stored in one broker
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter, process_time

import orjson
import redis.asyncio as redis
from prometheus_client import REGISTRY, generate_latest

from deploy.demo.report import percentile
from scalers.metrics import export_sample
from scheduler.keys import Keys
from scheduler.queue import Done, Lane, RequeueAt
from tests.benchmarks.harness import Figure, broker
from tests.benchmarks.manifests import TEMPLATE, body, scaled_job
from tests.support.bookings import book
from tests.support.stored_readings import store_readings
from workers.api.kinds import CRON_JOB, JOB, POD, SCALED_JOB, Kind, Object, Ref
from workers.cache.observations import ObserveRequest
from workers.cache.store import BATCH, ObjectVersion, Store
from workers.decision.snapshot import Reading, TriggerSample
from workers.handoff.readings import Readings
from workers.settings import Settings
from workers.wiring import broker_client

OBJECTS = int(os.environ.get("BENCH_OBJECTS", "10000"))
NAMESPACES = int(os.environ.get("BENCH_NAMESPACES", "1000"))
MIRRORED = int(os.environ.get("BENCH_MIRRORED", str(OBJECTS)))
POLLED = int(os.environ.get("BENCH_POLLED", "2000"))
#: Keys of one claim, as workers take them.
CLAIM = Settings().batch
#: Objects of a page of a list, as a reflector asks for them.
PAGE = 500
KEYS = Keys("scale")


@dataclass
class Bench:
    """A broker with the lanes and the store of a worker."""

    client: redis.Redis
    lanes: Mapping[str, Lane] = field(init=False)
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = {name: Lane(self.client, name, KEYS, lease=3600.0) for name in ("reconcile", "poll")}
        own, polled = self.lanes["reconcile"], self.lanes["poll"]
        watched = {JOB.id: (own,), CRON_JOB.id: (own,), SCALED_JOB.id: (own, polled)}
        self.store = Store(self.client, KEYS, watched)

    async def memory(self) -> int:
        """Bytes that the broker uses."""
        return int((await self.client.info("memory"))["used_memory"])

    async def cpu(self) -> float:
        """Seconds of CPU that the broker has used."""
        used = await self.client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    async def cost(self, work: Awaitable[object], number: int) -> float:
        """Microseconds of the broker's CPU for each of so many pieces of work."""
        before = await self.cpu()
        await work
        return (await self.cpu() - before) / number * 1e6


@asynccontextmanager
async def _bench() -> AsyncIterator[Bench]:
    with broker() as url:
        async with _connected(url) as bench:
            for lane in bench.lanes.values():
                await lane.open()
            yield bench


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Bench]:
    client = broker_client(Settings(broker=url), patience=600.0)
    try:
        yield Bench(client)
    finally:
        await client.aclose()


async def figures() -> list[Figure]:
    found = [*await _memory(), *await _growth(), *await _mirrored(), *await _relist()]
    return [*found, *_page()]


# Objects, as an API server answers them.


def _object(kind: Kind, number: int, version: int = 1, owner: str = "") -> Object:
    name = f"{kind.plural}-{number}"
    made = _BODIES[kind](name)
    made["metadata"] |= {
        "namespace": f"team-{number % NAMESPACES}",
        "uid": f"{number:08d}-0000-4000-8000-{kind.plural:0>12}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if owner:
        made["metadata"]["ownerReferences"] = [
            {
                "apiVersion": SCALED_JOB.api_version,
                "kind": SCALED_JOB.kind,
                "name": owner,
                "uid": owner,
                "controller": True,
            }
        ]
    return made


_CONDITION = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z", "reason": "Done"}
_BODIES: Mapping[Kind, Callable[[str], Object]] = {
    JOB: lambda name: body(
        JOB,
        name,
        spec={"backoffLimit": 6, "completions": 1, "parallelism": 1, "template": TEMPLATE},
        status={"succeeded": 1, "conditions": [_CONDITION]},
    ),
    CRON_JOB: lambda name: body(
        CRON_JOB,
        name,
        spec={"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
        status={"lastScheduleTime": "2026-01-01T00:00:00Z"},
    ),
    SCALED_JOB: lambda name: scaled_job(name, "redis.example:6379", most=10, polling=30),
    POD: lambda name: body(POD, name, **TEMPLATE, status={"phase": "Succeeded"}),
}


async def _fill(bench: Bench, kind: Kind, numbers: Sequence[int], owner: str = "") -> None:
    for first in range(0, len(numbers), BATCH):
        changes = [ObjectVersion(_object(kind, number, owner=owner)) for number in numbers[first : first + BATCH]]
        await bench.store.apply(kind, changes)


# What the broker holds.


async def _memory() -> list[Figure]:
    """Bytes of the broker for each object: stored, and waiting in a lane."""
    number, group = OBJECTS, f"broker memory, {OBJECTS:,} of each"
    found = []
    for kind in (JOB, CRON_JOB, SCALED_JOB, POD):
        async with _bench() as bench:
            before = await bench.memory()
            await _fill(bench, kind, range(number))
            stored = (await bench.memory() - before) / number
            text = len(orjson.dumps(_object(kind, 0)))
            against = f"its JSON, {text:,} B"
            found.append(Figure(group, f"{kind.kind}, stored and ready", stored, "B", against, ratio=text / stored))
            if kind == POD:
                continue
            before = await bench.memory()
            lane = bench.lanes["reconcile"]
            while claim := (await lane.claim(1000)).leases:
                await lane.finish((lease, RequeueAt(time.time() + 3600)) for lease in claim)
            change = (await bench.memory() - before) / number
            found.append(Figure(group, f"{kind.kind}, booked instead of ready", stored + change, "B"))
    async with _bench() as bench:
        readings, lane = Readings(bench.client, KEYS), bench.lanes["reconcile"]
        samples = (TriggerSample("s0-redis-work", "redis", 3.0, 1.0, True),)
        before = await bench.memory()
        for first in range(0, number, 500):
            await store_readings(
                readings,
                {
                    Ref(SCALED_JOB, "team", f"work-{each}").key: Reading(
                        time.time_ns() // 1000, time.time_ns() // 1000, 1, samples, uid=f"{each:036d}"
                    )
                    for each in range(first, first + 500)
                },
                lane,
            )
        found.append(Figure(group, "a reading of one trigger", (await bench.memory() - before) / number, "B"))
    return found


# What the broker does for each, at a tenth and at all.


async def _growth() -> list[Figure]:
    small, large = [await _costs(number) for number in (OBJECTS // 10, OBJECTS)]
    group = f"broker CPU for each, with {OBJECTS:,} objects in {NAMESPACES:,} namespaces"
    return [
        Figure(group, what, large[what], "us", f"with a tenth, {small[what]:.1f} us", ratio=small[what] / large[what])
        for what in large
    ]


async def _costs(number: int) -> dict[str, float]:
    """Microseconds of the broker's CPU for each piece of work, with so many objects."""
    async with _bench() as bench:
        lane = bench.lanes["reconcile"]
        found = {"a Job stored": await bench.cost(_fill(bench, JOB, range(number)), number)}
        found["a CronJob stored and marked"] = await bench.cost(_fill(bench, CRON_JOB, range(number)), number)

        async def work_off() -> None:
            while claim := (await lane.claim(CLAIM)).leases:
                await lane.finish((lease, Done()) for lease in claim)

        found["a key claimed and finished"] = await bench.cost(work_off(), 2 * number)
        names = [Ref(CRON_JOB, f"team-{each % NAMESPACES}", f"cronjobs-{each}").key for each in range(number)]
        await book(bench.client, lane.keys, dict.fromkeys(names, time.time() - 1))

        async def sweep() -> None:
            while (await lane.sweep(1000)).moved:
                pass

        found["a due key made ready"] = await bench.cost(sweep(), number)

        async def claim_and_book() -> None:
            later = time.time() + 3600
            while claim := (await lane.claim(CLAIM)).leases:
                await lane.finish((lease, RequeueAt(later)) for lease in claim)

        found["a key claimed and booked"] = await bench.cost(claim_and_book(), number)
        await _fill(bench, POD, range(1000), owner="one-owner")
        owner = ObserveRequest(Ref(CRON_JOB, "team-1", "cronjobs-1"), (JOB,))

        async def observe() -> None:
            for _ in range(200):
                await bench.store.observe([owner] * CLAIM)

        found["an object observed, without children"] = await bench.cost(observe(), 200 * CLAIM)

        async def read_whole() -> None:
            for _ in range(50):
                await Store(bench.client, KEYS, {}).children(POD, "one-owner")

        found["1,000 children of one owner, read whole"] = await bench.cost(read_whole(), 50)
        await bench.store.children(POD, "one-owner")

        async def read_again() -> None:
            for _ in range(500):
                await bench.store.children(POD, "one-owner")

        found["1,000 children of one owner, none of which has changed"] = await bench.cost(read_again(), 500)
        return found


async def _mirrored() -> list[Figure]:
    """What the last Jobs of very many cost, next to the first."""
    tenth, group = MIRRORED // 10, f"{MIRRORED:,} Jobs mirrored"
    async with _bench() as bench:
        before = await bench.memory()
        first = await bench.cost(_fill(bench, JOB, range(tenth)), tenth)
        await _fill(bench, JOB, range(tenth, 9 * tenth))
        last = await bench.cost(_fill(bench, JOB, range(9 * tenth, 10 * tenth)), tenth)
        used = await bench.memory() - before
    return [
        Figure(group, "broker memory", used / 1e6, "MB", f"{used / MIRRORED:,.0f} B each"),
        Figure(group, "broker CPU of one of the last tenth", last, "us", f"of the first, {first:.1f} us", first / last),
    ]


# A relist, while others work.


async def _relist() -> list[Figure]:
    number = OBJECTS
    with broker() as url:
        async with _connected(url) as bench:
            lane = bench.lanes["poll"]
            await lane.open()
            await _fill(bench, JOB, range(number))
            alone = await _latencies(lane, lambda: asyncio.sleep(3.0))
            await bench.client.config_set("slowlog-max-len", 100_000)
            await bench.client.config_set("slowlog-log-slower-than", 0)
            reflector = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.benchmarks.scale", url, stdout=asyncio.subprocess.PIPE
            )
            told: list[bytes] = []
            before = await bench.cpu()

            async def listed() -> None:
                told.append((await reflector.communicate())[0])

            beside = await _latencies(lane, listed)
            spent = await bench.cpu() - before
            entries = await bench.client.slowlog_get(100_000)
    turns: list[float] = orjson.loads(told[0])
    own = [each["duration"] for each in entries if each["command"].startswith(b"EVALSHA")]
    group = f"a relist of {number:,} Jobs by another process, while others claim and finish"
    return [
        Figure(
            group,
            f"a claim and its finish, {name}",
            percentile(beside, part) * 1e3,
            "ms",
            f"alone, {percentile(alone, part) * 1e3:.2f} ms",
            percentile(alone, part) / percentile(beside, part),
            goal="0.5" if part == 0.99 else "",
        )
        for name, part in (("p50", 0.5), ("p99", 0.99))
    ] + [
        Figure(group, "calls of scripts, those of the others too", len(own), ""),
        Figure(group, "a script holds the broker, p50", percentile(own, 0.5) / 1e3, "ms"),
        Figure(group, "the same, p99", percentile(own, 0.99) / 1e3, "ms"),
        Figure(group, "CPU of the broker for each object, the others' work too", spent / number * 1e6, "us"),
        Figure(group, "CPU of a turn of the reflector's event loop, p99", percentile(turns, 0.99) * 1e3, "ms"),
        Figure(group, "the same, longest", max(turns) * 1e3, "ms", f"pages of {PAGE} objects"),
    ]


async def _list(url: str) -> list[float]:
    """Stores a whole list, page by page, as a reflector does. Returns the CPU seconds of each turn of the loop."""
    turns: list[float] = []
    async with _connected(url) as bench:
        texts = [
            orjson.dumps([_object(JOB, each) for each in range(first, min(first + PAGE, OBJECTS))])
            for first in range(0, OBJECTS, PAGE)
        ]
        watching = asyncio.create_task(_turns(turns))
        listing = await bench.store.begin(JOB, 1)
        for text in texts:
            page = orjson.loads(text)
            await bench.store.apply(JOB, [ObjectVersion(each) for each in page], listing=listing)
        await bench.store.finish(listing, {"": "1"})
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return turns


async def _turns(turns: list[float]) -> None:
    while True:
        before = process_time()
        await asyncio.sleep(0.001)
        turns.append(process_time() - before)


async def _latencies(lane: Lane, work: Callable[[], Awaitable[object]]) -> list[float]:
    """Seconds of each claim with its finish, one after the other, while the work runs."""
    seconds: list[float] = []

    async def claim() -> None:
        while True:
            await lane.mark(["jobs.batch/team/one"])
            began = perf_counter()
            leases = (await lane.claim(1)).leases
            await lane.finish((lease, Done()) for lease in leases)
            seconds.append(perf_counter() - began)
            await asyncio.sleep(0.005)

    claiming = asyncio.create_task(claim())
    await work()
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    return seconds


# A scrape of a scaler.


def _page() -> Iterator[Figure]:
    sample = TriggerSample("s0-redis-work", "redis", 3.0, 1.0, True)
    before = process_time()
    for number in range(POLLED):
        export_sample(Ref(SCALED_JOB, f"team-{number % NAMESPACES}", f"work-{number}"), 0, sample, 0.01)
    exported = (process_time() - before) / POLLED * 1e6
    before = process_time()
    text = generate_latest(REGISTRY)
    spent = process_time() - before
    group = f"metrics of {POLLED:,} polled ScaledJobs in one process"
    yield Figure(group, "CPU of an answered poll's metrics", exported, "us")
    yield Figure(group, "CPU of one scrape", spent * 1e3, "ms")
    yield Figure(group, "bytes of one scrape", len(text) / 1e6, "MB")


if __name__ == "__main__":
    print(orjson.dumps(asyncio.run(_list(sys.argv[1]))).decode())
