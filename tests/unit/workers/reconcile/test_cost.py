"""What a Job of a queue and a run of a schedule cost, counted: decisions, writes, round trips, bytes, decodes, calls.

Counts do not depend on the machine. docs/performance.md has what they stand for in CPU.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

import pytest
import redis.asyncio as redis_async

from tests.benchmarks.manifests import TEMPLATE, body, scaled_job
from tests.benchmarks.worker import Worker, worker
from tests.support.tables import cases
from tests.unit.workers.clusters import MemoryCluster
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, POD, SCALED_JOB, Kind, Object, Ref, ref_of
from workers.cache import codec
from workers.cache.store import ObjectVersion, Store
from workers.reconcile.reconciler import Reconciler

#: Packages whose calls are counted: those of libraries differ from version to version.
OURS = ("workers.", "scheduler.")
JOBS, CRON_JOBS = 200, 100
NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


class TurningCluster(MemoryCluster):  # type: ignore[misc]
    """Answers in a later turn of the loop, as a server does: requests of other plans are sent meanwhile."""

    async def create(self, kind: Kind, body: Object) -> Any:
        await asyncio.sleep(0)
        return await super().create(kind, {**body, "metadata": {**body["metadata"], "creationTimestamp": _NOW}})

    async def patch(self, *args: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        return await super().patch(*args, **options)


_NOW = times.render(NOW)


class QuickWatch(TurningCluster):
    """Its watch shows each write before the writer has its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store | None = None

    async def create(self, kind: Kind, body: Object) -> Any:
        return await self._shown(kind, await super().create(kind, body))

    async def patch(self, ref: Ref, *args: Any, **options: Any) -> Any:
        return await self._shown(ref.kind, await super().patch(ref, *args, **options))

    async def _shown(self, kind: Kind, body: Object) -> Object:
        if self.store is not None:
            await self.store.apply(kind, [ObjectVersion(body)], epoch=1)
        return body


@dataclass
class Cost:
    """Counts while open.

    decisions: plans, also those without steps. round_trips, sent: to the broker, and the bytes of its commands.
    decoded: stored objects whose JSON was decoded. calls: of our own functions.
    """

    decisions: int = 0
    round_trips: int = 0
    sent: int = 0
    decoded: int = 0
    calls: int = 0

    @contextmanager
    def counted(self, client: redis_async.Redis, patch: pytest.MonkeyPatch) -> Iterator[None]:
        execute, entry, decide = client.execute_command, codec.entry, Reconciler._decide

        async def counting(*args: Any, **options: Any) -> Any:
            self.round_trips += 1
            self.sent += sum(len(arg if isinstance(arg, bytes) else str(arg)) for arg in args)
            return await execute(*args, **options)

        def decoding(*args: Any) -> Any:
            self.decoded += 1
            return entry(*args)

        def deciding(*args: Any) -> Any:
            self.decisions += 1
            return decide(*args)

        def called(frame: FrameType, event: str, _: Any) -> None:
            self.calls += event == "call" and frame.f_globals.get("__name__", "").startswith(OURS)

        with patch.context() as patched:
            patched.setattr(client, "execute_command", counting)
            patched.setattr(codec, "entry", decoding)
            patched.setattr(Reconciler, "_decide", deciding)
            sys.setprofile(called)
            try:
                yield
            finally:
                sys.setprofile(None)


async def _filled(running: Worker, kinds: dict[Kind, list[Object]]) -> None:
    for kind, bodies in kinds.items():
        await running.fill(kind, bodies)


async def test_a_job_for_an_item_costs_few_round_trips_bytes_and_calls(
    fake_redis: redis_async.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, cost = TurningCluster(), Cost()
    async with worker(fake_redis, cluster) as running:
        await _filled(running, {SCALED_JOB: [], JOB: [], POD: []})
        owner = cluster.add(SCALED_JOB, scaled_job("work", "127.0.0.1:1", most=JOBS, polling=3600))
        await running.store.apply(SCALED_JOB, [ObjectVersion(owner)])
        await running.settle()
        await running.read(owner, JOBS)
        await running.lanes["reconcile"].mark([ref_of(SCALED_JOB, owner).key])
        with cost.counted(fake_redis, monkeypatch):
            await running.settle()
        assert sum(ref.kind == JOB for ref in cluster.objects) == JOBS
    _within(cost, JOBS, round_trips=0.1, sent=1200, decoded=0.05, calls=100)


@cases(
    ("a watch that is late", TurningCluster, {"round_trips": 0.3, "sent": 2100, "decoded": 1.1, "calls": 605}),
    ("a watch that is first", QuickWatch, {}),
)
async def test_a_run_of_a_schedule_costs_few_round_trips_bytes_and_calls(
    kind: type[TurningCluster], most: dict[str, float], fake_redis: redis_async.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, cost, moment = kind(), Cost(), NOW
    async with worker(fake_redis, cluster, clock=lambda: moment) as running:
        bodies = [cluster.add(CRON_JOB, _cron_job(number)) for number in range(CRON_JOBS)]
        await _filled(running, {JOB: [], POD: [], CRON_JOB: bodies})
        await running.settle(4)
        moment += timedelta(minutes=1)
        await running.lanes["reconcile"].mark([ref_of(CRON_JOB, each).key for each in bodies])
        cluster.log.clear()
        if isinstance(cluster, QuickWatch):
            cluster.store = running.store
        with cost.counted(fake_redis, monkeypatch):
            await running.settle(4)
        assert Counter(verb for verb, _ in cluster.log) == {"create": CRON_JOBS, "patch status": CRON_JOBS}
    _within(cost, CRON_JOBS, decisions=1, **most)


async def test_runs_that_end_when_the_next_ones_start_cost_one_decision_and_two_writes(
    fake_redis: redis_async.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, cost, moment = TurningCluster(), Cost(), NOW
    async with worker(fake_redis, cluster, clock=lambda: moment) as running:
        bodies = [cluster.add(CRON_JOB, _cron_job(number)) for number in range(CRON_JOBS)]
        keys = [ref_of(CRON_JOB, each).key for each in bodies]
        await _filled(running, {JOB: [], POD: [], CRON_JOB: bodies})
        await running.settle(4)
        moment += timedelta(minutes=1)
        await running.lanes["reconcile"].mark(keys)
        await running.settle(4)
        moment += timedelta(minutes=1)
        ended = [_completed(cluster, ref, moment) for ref in list(cluster.objects) if ref.kind == JOB]
        await running.store.apply(JOB, [ObjectVersion(job) for job in ended])
        await running.lanes["reconcile"].mark(keys)
        cluster.log.clear()
        with cost.counted(fake_redis, monkeypatch):
            await running.settle(4)
        assert Counter(verb for verb, _ in cluster.log) == {"create": CRON_JOBS, "patch status": CRON_JOBS}
        for body in (body for ref, body in cluster.objects.items() if ref.kind == CRON_JOB):
            assert body["status"]["lastSuccessfulTime"] == times.render(moment)
            assert len(body["status"]["active"]) == 1, "the run that ended is listed no more"
    _within(cost, CRON_JOBS, decisions=1, round_trips=0.3, decoded=2.1)


def _completed(cluster: TurningCluster, ref: Ref, at: datetime) -> Object:
    job: Object = cluster.objects[ref]
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": times.render(at)}
    status = {"conditions": [condition], "completionTime": times.render(at)}
    return cluster.add(JOB, {**job, "status": status})  # type: ignore[no-any-return]


def _cron_job(number: int) -> Object:
    created = times.render(NOW - timedelta(seconds=20))
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    return body(CRON_JOB, f"nightly-{number}", {"creationTimestamp": created}, spec=spec)


def _within(cost: Cost, pieces: int, **most: float) -> None:
    found = {name: getattr(cost, name) / pieces for name in most}
    assert all(found[name] <= bound for name, bound in most.items()), found
