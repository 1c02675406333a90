"""The keyed queue: keys a second through mark, claim and finish, and through Celery with an empty reconcile each."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import psutil
import redis.asyncio as redis
from aiohttp import web
from celery import Celery

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.benchmarks.harness import Figure, broker, compared, median
from tests.benchmarks.manifests import TEMPLATE
from tests.support.servers import answering
from workers.api.kinds import JOB, POD, parse_key
from workers.app import configuration
from workers.cache.store import ObjectVersion, Store
from workers.lanes import LANES
from workers.runtime.notifier import Notifier
from workers.settings import Settings

KEYS = 10_000
BATCH = 100
TASKS = 4_000
RECONCILES = 50_000
RUNS = 3
#: Worker processes on one broker.
WORKERS = (1, 2, 4)

#: A worker whose one task does nothing: what Celery costs by itself, with the same safe settings.
PLAIN = """
import celery
from workers.app import configuration
from workers.settings import Settings
app = celery.Celery("plain", set_as_current=False)
app.config_from_object({**configuration(Settings()), "imports": ()})
@app.task(name="empty")
def empty(key):
    return None
"""

#: An API server that refuses everything.
REFUSING = """
apiVersion: v1
kind: Config
current-context: refusing
contexts: [{{name: refusing, context: {{cluster: refusing, user: nobody}}}}]
clusters: [{{name: refusing, cluster: {{server: "{url}"}}}}]
users: [{{name: nobody, user: {{token: none}}}}]
"""


async def figures() -> list[Figure]:
    with broker() as url:
        client = redis.Redis.from_url(url)
        async with client:
            pings = await median(lambda: _pings(client), RUNS)
            rates = {
                "PING": ("calls/s", pings, ""),
                "mark + claim + finish, singly": ("keys/s", await _rate(client, 1, 1_000), ""),
                f"mark + claim + finish, batches of {BATCH}": ("keys/s", await _rate(client, BATCH, KEYS), ""),
                "claim + finish, singly": ("keys/s", await _rate(client, 1, 1_000, marked=True), "> 5,700"),
                "claim + finish, batches of 16": ("keys/s", await _rate(client, 16, KEYS, marked=True), "> 11,000"),
                f"claim + finish, batches of {BATCH}": ("keys/s", await _rate(client, BATCH, KEYS, marked=True), ""),
            }
        celery = await _celery(url)
        found = {number: await _ours(url, number) for number in WORKERS}
    ours = found[1].rate
    return [
        *(
            Figure("keyed queue, one client", subject, value, unit, goal=goal)
            for subject, (unit, value, goal) in rates.items()
        ),
        Figure("through Celery, one worker process", "one empty task per key", celery, "tasks/s"),
        replace(
            compared("through Celery, one worker process", "empty reconciles", ours, celery, "keys/s", "Celery alone"),
            goal="5",
        ),
        *(figure for number in WORKERS for figure in _grown(number, found[number], ours)),
    ]


@dataclass(frozen=True)
class _Reconciled:
    """rate: keys a second. workers, broker: seconds of CPU for each key."""

    rate: float
    workers: float
    broker: float


def _grown(number: int, found: _Reconciled, alone: float) -> Iterator[Figure]:
    """Figures of so many worker processes; a broker that uses a core for as many keys as it can bounds them all."""
    group, name = "empty reconciles, worker processes on one broker", f"{number} of them"
    against = f"{number} times one, {number * alone:,.0f} keys/s"
    yield Figure(group, name, found.rate, "keys/s", against, found.rate / (number * alone))
    yield Figure(group, f"{name}: CPU of the workers", found.workers * 1e6, "us for each key")
    limit = f"a core for {1 / found.broker:,.0f} keys/s"
    yield Figure(group, f"{name}: CPU of the broker", found.broker * 1e6, "us for each key", limit)


def _names(count: int) -> list[str]:
    return [f"jobs.batch/team-{number % 20}/job-{number}" for number in range(count)]


async def _lane(client: redis.Redis) -> Lane:
    await client.flushall()
    lane = Lane(client, "reconcile", Keys("bench"))
    await lane.open()
    return lane


async def _rate(client: redis.Redis, batch: int, count: int, *, marked: bool = False) -> float:
    """Keys a second that are marked, claimed and finished. marked: all are marked before the measurement."""
    names = _names(count)

    async def run() -> float:
        lane = await _lane(client)
        if marked:
            await lane.mark(names)
        started = perf_counter()
        for first in range(0, count, batch):
            if not marked:
                await lane.mark(names[first : first + batch])
            claim = await lane.claim(batch)
            await lane.finish([(lease, Done()) for lease in claim.leases])
        return count / (perf_counter() - started)

    return await median(run, RUNS)


async def _pings(client: redis.Redis) -> float:
    started = perf_counter()
    for _ in range(2_000):
        await client.ping()
    return 2_000 / (perf_counter() - started)


@contextlib.asynccontextmanager
async def worker(
    module: str, url: str, queue: str, more: Mapping[str, str] | None = None
) -> AsyncIterator[psutil.Process]:
    """A Celery worker process that runs this module's tasks. more: of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bench_worker.py").write_text(module)
        environment = {
            **os.environ,
            **(more or {}),
            "PENSTOCK_BROKER": url,
            "PYTHONPATH": os.pathsep.join([folder, *sys.path]),
        }
        quiet = ["--without-mingle", "--without-gossip", "--without-heartbeat", "--loglevel", "WARNING"]
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "bench_worker", "worker", "-P", "threads", "-Q", queue, *quiet],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


async def _speed(left: Callable[[], Awaitable[int]], total: int) -> float:
    """Items a second that a worker process takes from a full queue; the start-up does not count."""

    async def until(most: float) -> float:
        while await left() > most:
            await asyncio.sleep(0.005)
        return perf_counter()

    started, before = await until(total * 0.9), await left()
    return before / (await until(0) - started)


async def _celery(url: str) -> float:
    """Tasks a second that one worker process takes from a full queue; the start-up does not count."""
    app = Celery("plain", set_as_current=False)
    app.config_from_object({**configuration(Settings(broker=url)), "imports": ()})
    client = redis.Redis.from_url(url)
    async with client:
        await client.flushall()
        for number in range(TASKS):
            app.send_task("empty", args=(str(number),), queue="plain", ignore_result=True)

        async def left() -> int:
            return int(await client.llen("{penstock}:celery:plain"))

        async with worker(PLAIN, url, "plain"):
            speed = await _speed(left, TASKS)
    app.close()
    return speed


async def _ours(url: str, processes: int) -> _Reconciled:
    """What so many worker processes of ours reconcile from a full lane; the start-up does not count for the rate.

    Each is a mirrored Job that is not ours: it is claimed, read with its children, looked at and given back.
    """
    settings = Settings(broker=url)
    client = redis.Redis.from_url(url)
    notifier = Notifier(client, settings.prefix)
    async with client:
        await client.flushall()
        lane = Lane(client, "reconcile", Keys(settings.prefix))
        await lane.open()
        await _store(Store(client, Keys(settings.prefix), {}))

        async def left() -> int:
            stats = await lane.stats()
            return stats.ready + stats.leased

        # A worker that reaches no API server at all would leave the keys to others.
        async with answering(_refuse) as api_server:
            with tempfile.TemporaryDirectory() as folder:
                kubeconfig = Path(folder, "kubeconfig")
                kubeconfig.write_text(REFUSING.format(url=api_server))
                # No informer feeds the cache here: it must count as fresh for as long as the run takes.
                environment = {"PENSTOCK_KUBECONFIG": str(kubeconfig), "PENSTOCK_STALE": "3600"}
                async with AsyncExitStack() as stack:
                    made = [
                        await stack.enter_async_context(
                            worker("from workers.app import app", url, LANES["reconcile"][1], environment)
                        )
                        for _ in range(processes)
                    ]
                    await _all_wait(client, processes)
                    marked = await lane.mark(_names(RECONCILES))
                    await notifier.notify({"reconcile": marked.notifications})
                    measured = (psutil.Process((await client.info("server"))["process_id"]), *made)
                    before: list[float] = []

                    async def begun() -> int:
                        now = await left()
                        if not before and now <= RECONCILES * 0.9:
                            before.extend([now, *map(_cpu, measured)])
                        return now

                    speed = await _speed(begun, RECONCILES)
                    spent = [_cpu(each) - then for each, then in zip(measured, before[1:], strict=True)]
        if (stats := await lane.stats()).failing:
            raise RuntimeError(f"{stats.failing} keys failed: the figure does not hold")
    return _Reconciled(speed, sum(spent[1:]) / before[0], spent[0] / before[0])


async def _all_wait(client: redis.Redis, processes: int) -> None:
    """Returns once so many Celery workers wait for messages."""
    while sum(each["cmd"] == "brpop" for each in await client.client_list()) < processes:
        await asyncio.sleep(0.05)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _refuse(_: web.BaseRequest) -> web.Response:
    return web.Response(status=403)


async def _store(store: Store) -> None:
    """All Jobs that are to be reconciled, as an informer would have brought them."""
    bodies = []
    for number, name in enumerate(_names(RECONCILES)):
        ref = parse_key(name)
        metadata = {"name": ref.name, "namespace": ref.namespace, "uid": f"uid-{number}", "resourceVersion": "1"}
        bodies.append({"metadata": metadata, "spec": {"template": TEMPLATE}})
    for kind, objects in ((JOB, bodies), (POD, [])):
        listing = await store.begin(kind, 1)
        await store.apply(kind, [ObjectVersion(body) for body in objects], listing=listing)
        await store.finish(listing, {"": "2"})
        await store.touch(kind, 1, await store.touch(kind, 1, None))
