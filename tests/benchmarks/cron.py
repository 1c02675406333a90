"""Many CronJobs due on the same minute: how late their Jobs are.

Next to a bare client that begins to make the same writes to the same API server, as many in flight, when the minute
begins: each Job, then the status of its CronJob. A worker alone keeps the CronJobs of a real server in its memory, and
the client beside it posts Jobs alone. Where KUBE_CONTROLLER_MANAGER names the binary of kube-controller-manager, its
CronJobs do the same on a real server, next to the same client.

BENCH_CRONJOBS ("100" or "100,500") shortens a run: all processes must store all CronJobs before their minute.
"""

import asyncio
import os
import statistics
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import perf_counter

import redis.asyncio as redis

from deploy.demo.report import percentile
from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.benchmarks import peers
from tests.benchmarks.cpu import CpuUse
from tests.benchmarks.harness import IN_FLIGHT, Figure, side_by_side
from tests.benchmarks.manifests import TEMPLATE, body
from tests.benchmarks.stack import REAL, Timed, clients, server, servers, stack, version_of
from tests.benchmarks.worker import Worker, worker
from tests.support import kube
from tests.support.bookings import book
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, POD, SCHEDULED_JOB, Kind, Object, Ref, ref_of
from workers.client.rest import Cluster

COUNTS = tuple(int(count) for count in os.environ.get("BENCH_CRONJOBS", "1000,10000").split(","))
#: Notifications that a worker process handles side by side, by default.
NOTIFICATIONS = 16
#: Counted minutes of a worker alone; one before them opens the connections and warms the server.
ROUNDS = 3
#: Milliseconds for each run.
CPU_GOAL = "below 1.4"
#: Before the minute: seconds until a fresh broker hands out keys, and CronJobs stored and booked a second anywhere.
MARGIN, PACE = 20, 200
MINUTE = timedelta(minutes=1)
#: Seconds in which all Jobs of a minute are there.
PATIENCE = 600
#: The names of the CronJobs that we, or a peer, run begin with this.
OURS = "nightly"
#: CronJobs that kube-controller-manager by default runs within `PATIENCE`.
MOST_BY_DEFAULT = 2000
#: The CronJobs of a server before 1.21, which we do not read.
BETA_CRON_JOB = Kind("batch", "v1beta1", "CronJob", "cronjobs")


@dataclass(frozen=True)
class Minute:
    """The delay of each Job of one minute, in seconds: ours, and the bare client's."""

    ours: Sequence[float]
    bare: Sequence[float]
    cpu: CpuUse | None = None

    def figures(self, group: str, subject: str, cpu_goal: str = CPU_GOAL) -> list[Figure]:
        """The last Job, and the usual and the unlucky one."""
        return [
            self._figure(group, f"{subject}, last Job", 1.0),
            self._figure(group, f"{subject}, p50", 0.5),
            self._figure(group, f"{subject}, p99", 0.99),
            *(self.cpu.figures(group, "run", cpu_goal) if self.cpu else ()),
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
            kind = SCHEDULED_JOB if which == REAL and _is_old() else CRON_JOB
            whole = await _whole(which, kind, count)
            found += whole.figures(f"{count:,} CronJobs due at once, {which}", f"{kind.kind}s, all processes")
            for peer in peers.controller_manager() if which == REAL else ():
                # By default it creates five Jobs a second.
                if peer.limited and count > MOST_BY_DEFAULT:
                    continue
                minute = await _peer(peer, count)
                found += minute.figures(f"{count:,} CronJobs due at once, {which}", peer.name, cpu_goal="")
    return found


def _is_old() -> bool:
    """Returns true if the real server has no batch/v1 CronJobs."""
    return kube.version(kube.assets()) < (1, 21)


def _cron_job(kind: Kind, name: str, schedule: str, created: datetime) -> Object:
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": TEMPLATE}}}
    return body(kind, name, {"creationTimestamp": times.render(created)}, spec=spec)


async def _bare(cluster: Cluster, count: int, name: str, of: Kind | None, owners: str = OURS) -> list[float]:
    """The writes of the CronJobs by nothing but a loop; how long after its beginning each Job was there.

    of: the kind of the CronJobs, whose statuses are written too; None where the server does not have them. owners: how
    the names of those begin that are written to; each gets the status of ours, about.
    """
    delays: list[float] = []
    status = (await cluster.get(_ref(of, 0)))["status"] if of else {}
    started = perf_counter()

    async def write(number: int) -> None:
        made = body(JOB, f"{name}-{number}", {"annotations": {"bench": name}}, spec={"template": TEMPLATE})
        created = await cluster.create(JOB, made)
        delays.append(perf_counter() - started)
        if of:
            # As large as that of a run, and another.
            active = [{**each, "uid": created["metadata"]["uid"]} for each in status["active"]]
            ref = _ref(of, number, owners)
            await cluster.patch(ref, {"status": {**status, "active": active}}, subresource="status")

    await side_by_side(write, count)
    return delays


def _ref(kind: Kind, number: int, owners: str = OURS) -> Ref:
    return Ref(kind, "default", f"{owners}-{number}")


# --- a worker alone


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
    async with clients(which) as (server, client):
        cluster = Timed(server, unknown)
        async with worker(client, cluster, in_flight=IN_FLIGHT, clock=clock) as running:
            for kind in (JOB, POD):
                await running.fill(kind, [])
            bodies = await _stored(cluster, CRON_JOB, count, "* * * * *", clock())
            await running.fill(CRON_JOB, bodies)
            await running.settle(NOTIFICATIONS)
            # The worker has the statuses of its own in its store: written by another, they would be conflicts.
            of = None if unknown else CRON_JOB
            if of:
                await _stored(cluster, of, count, "* * * * *", clock(), "others")
            keys = [ref_of(CRON_JOB, each).key for each in bodies]
            for number in range(1 + ROUNDS):
                ours = await _due(running, cluster, keys, clock)
                minutes.append(Minute(ours, await _bare(server, count, f"bare-{number}", of, "others")))
    return minutes[1:]


async def _stored(
    cluster: Timed | Cluster, kind: Kind, count: int, schedule: str, created: datetime, owners: str = OURS
) -> list[Object]:
    """The CronJobs, as the cluster has them."""
    stored: list[Object] = []

    async def store(number: int) -> None:
        stored.append(await cluster.create(kind, _cron_job(kind, f"{owners}-{number}", schedule, created)))

    await side_by_side(store, count)
    return stored


async def _due(running: Worker, cluster: Timed, keys: Sequence[str], clock: _Clock) -> list[float]:
    """The next minute, from the table of due times to the last status."""
    lane = running.lanes["reconcile"]
    cluster.created.clear()
    # They are booked for the minute; by the broker's clock, which cannot be set, it is now.
    await book(running.client, lane.keys, dict.fromkeys(keys, datetime.now(UTC).timestamp()))
    clock.begin_a_minute()
    began = perf_counter()
    while (await lane.sweep()).moved:
        pass
    await running.settle(NOTIFICATIONS)
    return [moment - began for moment in cluster.moments(len(keys))]


# --- all processes


async def _whole(which: str, kind: Kind, count: int) -> Minute:
    """All processes: beat queues, the worker creates, a watch shows; one minute of the real clock."""
    async with stack(which, cronjobs=kind == CRON_JOB) as running, redis.Redis.from_url(running.broker) as client:
        minute = await _stored_for_a_minute(running.cluster, kind, count)
        await _booked(client, count, minute)
        return await _watched(running.cluster, kind, count, minute, await CpuUse.of_stack(running))


async def _peer(peer: peers.Peer, count: int) -> Minute:
    """kube-controller-manager in the place of all processes."""
    async with server(REAL) as found, peers.running_controllers(peer, "cronjob", found) as cpu:
        kind = BETA_CRON_JOB if _is_old() else CRON_JOB
        minute = await _stored_for_a_minute(found.cluster, kind, count)
        return await _watched(found.cluster, kind, count, minute, cpu)


async def _stored_for_a_minute(cluster: Cluster, kind: Kind, count: int) -> datetime:
    """Stores the objects. Returns the minute at which they are due."""
    minute = _next_minute(datetime.now(UTC) + timedelta(seconds=MARGIN + count / PACE))
    await _stored(cluster, kind, count, f"{minute.minute} {minute.hour} * * *", datetime.now(UTC))
    return minute


def _next_minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0) + MINUTE


async def _booked(client: redis.Redis, count: int, minute: datetime) -> None:
    """Wait until every CronJob waits for its minute."""
    lane = Lane(client, "reconcile", Keys("penstock"))
    while (await lane.stats()).later < count:
        if datetime.now(UTC) >= minute:
            raise RuntimeError(f"{count} CronJobs were not stored and booked before their minute")
        await asyncio.sleep(0.1)


async def _watched(cluster: Cluster, kind: Kind, count: int, minute: datetime, cpu: CpuUse) -> Minute:
    """Each Job's delay after the minute, as a watch shows it, then the bare client's."""
    # What waiting for the minute costs is no run's.
    await asyncio.sleep((minute - datetime.now(UTC)).total_seconds() - 1)
    version = await version_of(cluster, JOB)
    delays: list[float] = []
    async with cpu.of(count):
        async for _ in _new_jobs(cluster, version):
            delays.append((datetime.now(UTC) - minute).total_seconds())
            if len(delays) == count:
                break
    if len(delays) != count:
        raise RuntimeError(f"only {len(delays)} of {count} Jobs were created")
    # Those that watch would answer each status that the bare client writes.
    with cpu.standing_still():
        return Minute(delays, await _bare(cluster, count, "bare", kind), cpu)


async def _new_jobs(cluster: Cluster, version: str) -> AsyncIterator[Object]:
    """Yields each Job of the default namespace that is new since this resourceVersion, for `PATIENCE` seconds.

    A server ends the watch of a client that reads too slowly, as this one may on a busy machine.
    """
    until = perf_counter() + PATIENCE
    while (left := until - perf_counter()) > 0:
        async for event in cluster.watch(JOB, "default", resource_version=version, timeout=left):
            version = event.object["metadata"]["resourceVersion"]
            if event.type == "ADDED":
                yield event.object
