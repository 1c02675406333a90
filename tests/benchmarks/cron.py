"""Many CronJobs due on the same minute: how late their Jobs are.

Next to a bare client that begins to post the same Jobs to the same API server, as many in flight, when the minute
begins. It writes half as much: a CronJob's status is written after its Job was.

BENCH_CRONJOBS ("100" or "100,500") shortens a run: the whole house must store all CronJobs before their minute.
"""

import asyncio
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

import redis.asyncio as redis

from deploy.demo.report import percentile
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.benchmarks.harness import Figure, broker
from tests.benchmarks.stack import REAL, Stack, apiserver, servers, stack
from tests.benchmarks.worker import Worker, client_of, worker
from tests.support.routed import RoutedCluster
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, POD, Kind, Object, ref_of
from workers.client.rest import Cluster

COUNTS = tuple(int(count) for count in os.environ.get("BENCH_CRONJOBS", "1000,10000").split(","))
IN_FLIGHT = 16
#: Bells a worker process answers side by side, as by default.
NOTIFICATIONS = 16
#: Counted minutes of a worker alone; one before them opens the connections and warms the server.
ROUNDS = 3
#: Before the minute: seconds until a fresh broker hands out keys, and CronJobs stored and booked a second anywhere.
MARGIN, PACE = 20, 200
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Minute:
    """How late each Job of one minute was there, in seconds; ours, and the bare client's."""

    ours: Sequence[float]
    bare: Sequence[float]

    def figures(self, group: str, subject: str) -> list[Figure]:
        """The last Job, and the usual and the unlucky one."""
        return [
            self._figure(group, f"{subject}, last Job", 1.0),
            self._figure(group, f"{subject}, p50", 0.5),
            self._figure(group, f"{subject}, p99", 0.99),
        ]

    def _figure(self, group: str, subject: str, share: float) -> Figure:
        ours, bare = (percentile(delays, share) for delays in (self.ours, self.bare))
        against = f"bare client, {bare:,.2f} s"
        return Figure(group, subject, ours, "s after the minute", against=against, ratio=bare / ours)


async def figures() -> list[Figure]:
    found: list[Figure] = []
    for count in COUNTS:
        for which in servers():
            minutes = await _worker(which, count)
            last = statistics.median_low([max(minute.ours) for minute in minutes])
            (middle,) = (minute for minute in minutes if max(minute.ours) == last)
            found += middle.figures(f"{count:,} CronJobs due at once, {which}, worker alone", "CronJobs")
        house = await _house(count)
        found += house.figures(f"{count:,} CronJobs due at once, embedded", "CronJobs, all processes")
    return found


def _cron_job(number: int, schedule: str, created: datetime) -> Object:
    container = {"name": "work", "image": "python", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": CRON_JOB.api_version,
        "kind": CRON_JOB.kind,
        "metadata": {
            "name": f"nightly-{number}",
            "namespace": "default",
            "creationTimestamp": times.render(created),
        },
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}},
    }


async def _bare(cluster: Cluster, count: int, name: str) -> list[float]:
    """Jobs like those of the CronJobs, posted by nothing but a loop; how long after its beginning each was there."""
    spec = _cron_job(0, "", datetime.now(UTC))["spec"]["jobTemplate"]["spec"]
    delays: list[float] = []
    numbers = iter(range(count))
    started = perf_counter()

    async def post() -> None:
        for number in numbers:
            metadata = {"name": f"{name}-{number}", "namespace": "default", "annotations": {"bench": name}}
            body = {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": metadata, "spec": spec}
            await cluster.create(JOB, body)
            delays.append(perf_counter() - started)

    await asyncio.gather(*(post() for _ in range(IN_FLIGHT)))
    return delays


# --- a worker alone


class _Timed(RoutedCluster):
    """Notes when each Job was there."""

    def __init__(self, server: Cluster, unknown: Sequence[Kind]) -> None:
        super().__init__(server, unknown)
        self.created: list[float] = []

    async def create(self, kind: Kind, body: Object) -> Object:
        created = await super().create(kind, body)
        if kind == JOB:
            self.created.append(perf_counter())
        return created


class _Clock:
    """A clock whose next minute begins when it is told to."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def begin_a_minute(self) -> None:
        """Go ahead to the beginning of the next one."""
        now = self()
        self._ahead += now.replace(second=0, microsecond=0) + MINUTE - now


async def _worker(which: str, count: int) -> list[Minute]:
    """A reconcile worker in this process, as the bare client is, several minutes of the same CronJobs."""
    clock = _Clock()
    # The real server that tests can count on, kube-apiserver 1.20, has no batch/v1 CronJobs. The embedded one keeps
    # them itself: its garbage collection would take Jobs whose owner it does not know.
    unknown = (CRON_JOB,) if which == REAL else ()
    minutes = []
    with tempfile.TemporaryDirectory() as folder, apiserver(which, Path(folder)) as kubeconfig, broker() as url:
        connected = await Cluster.connect(kubeconfig=kubeconfig, context=None, timeout=60.0, in_flight=IN_FLIGHT)
        async with connected as server, client_of(url) as client:
            cluster = _Timed(server, unknown)
            async with worker(client, cluster, in_flight=IN_FLIGHT, clock=clock) as running:
                for kind in (JOB, POD):
                    await running.fill(kind, [])
                bodies = await _stored(cluster, count, clock())
                await running.fill(CRON_JOB, bodies)
                await running.settle(NOTIFICATIONS)
                keys = [ref_of(CRON_JOB, body).key for body in bodies]
                for number in range(1 + ROUNDS):
                    ours = await _due(running, cluster, keys, clock)
                    minutes.append(Minute(ours, await _bare(server, count, f"bare-{number}")))
    return minutes[1:]


async def _stored(cluster: _Timed, count: int, created: datetime) -> list[Object]:
    """The CronJobs, due each minute, as the cluster has them."""
    numbers = iter(range(count))

    async def store() -> list[Object]:
        return [await cluster.create(CRON_JOB, _cron_job(number, "* * * * *", created)) for number in numbers]

    return [body for bodies in await asyncio.gather(*(store() for _ in range(IN_FLIGHT))) for body in bodies]


async def _due(running: Worker, cluster: _Timed, keys: Sequence[str], clock: _Clock) -> list[float]:
    """The next minute, from the table of due times to the last status."""
    lane = running.lanes["reconcile"]
    cluster.created.clear()
    # They are booked for the minute; by the broker's clock, which cannot be set, it is now.
    await lane.book(dict.fromkeys(keys, datetime.now(UTC).timestamp()))
    clock.begin_a_minute()
    began = perf_counter()
    while (await lane.sweep()).moved:
        pass
    await running.settle(NOTIFICATIONS)
    if len(cluster.created) != len(keys):
        raise RuntimeError(f"{len(cluster.created)} instead of {len(keys)} Jobs were created")
    return [moment - began for moment in cluster.created]


# --- the whole house


async def _house(count: int) -> Minute:
    """All processes: the beat wakes, the worker creates, the watch tells; one minute on the wall."""
    async with stack(cronjobs=True) as running, redis.Redis.from_url(running.broker) as client:
        minute = _next_minute(datetime.now(UTC) + timedelta(seconds=MARGIN + count / PACE))
        await _stock(running, count, f"{minute.minute} {minute.hour} * * *")
        await _booked(client, count, minute)
        ours = await _watched(running, count, minute)
        return Minute(ours, await _bare(running.cluster, count, "bare"))


def _next_minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0) + MINUTE


async def _stock(running: Stack, count: int, schedule: str) -> None:
    numbers = iter(range(count))
    created = datetime.now(UTC)

    async def store() -> None:
        for number in numbers:
            await running.cluster.create(CRON_JOB, _cron_job(number, schedule, created))

    await asyncio.gather(*(store() for _ in range(IN_FLIGHT)))


async def _booked(client: redis.Redis, count: int, minute: datetime) -> None:
    """Wait until every CronJob waits for its minute."""
    lane = Lane(client, "reconcile", Keys("penstock"))
    while (await lane.stats()).later < count:
        if datetime.now(UTC) >= minute:
            raise RuntimeError(f"{count} CronJobs were not stored and booked before their minute")
        await asyncio.sleep(0.1)


async def _watched(running: Stack, count: int, minute: datetime) -> list[float]:
    """How long after the minute the watch showed each Job."""
    _, version = await running.cluster.list(JOB, "default", limit=1)
    delays: list[float] = []
    async for event in running.cluster.watch(JOB, "default", resource_version=version, timeout=600):
        if event.type == "ADDED":
            delays.append((datetime.now(UTC) - minute).total_seconds())
            if len(delays) == count:
                return delays
    raise RuntimeError(f"only {len(delays)} of {count} Jobs were created")
