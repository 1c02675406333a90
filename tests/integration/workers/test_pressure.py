"""A reconcile worker before API servers that take less than it would send, and beside a namespace that is broken."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio as redis
from aiohttp import web
from prometheus_client import REGISTRY

from scheduler.queue import Lane
from tests.benchmarks.manifests import scaled_job
from tests.benchmarks.worker import Worker, worker
from tests.support import kube
from tests.support.conditions import eventually
from tests.support.fault_proxy import (
    FaultProxy,
    Forward,
    creations,
    fault_proxy,
    loses_the_answer,
    refuses,
    seats,
    times_out,
)
from tests.support.routed import RoutedCluster
from tests.support.tables import cases
from workers.api.kinds import JOB, NAMESPACE, POD, SCALED_JOB, Kind, Object, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.client import request_limiter
from workers.client.request_limiter import CROWDED
from workers.client.rest import Cluster
from workers.reconcile.namespace_bulkhead import MOST_SLOW

#: Seconds that a test waits for all Jobs.
LONG = 120.0


class Rig:
    """A worker, ScaledJobs in memory, and their Jobs on the server. answers: by status, 0 without one."""

    def __init__(self, running: Worker, cluster: Cluster, routed: RoutedCluster) -> None:
        self.running, self.cluster, self.routed = running, cluster, routed
        self.answers: Counter[int] = Counter()
        cluster.answered = lambda _method, status, _seconds: self.answers.update((status,))

    async def want(self, jobs: int, namespace: str = "default", name: str = "work") -> Object:
        """Adds a ScaledJob with a reading of so many items."""
        body = scaled_job(name, "127.0.0.1:1", most=jobs, polling=3600)
        body["metadata"]["namespace"] = namespace
        owner = self.routed.memory.add(SCALED_JOB, body)
        await self.running.store.apply(SCALED_JOB, [ObjectVersion(owner)])
        await self.running.read(owner, jobs)
        await self.running.lanes["reconcile"].mark([ref_of(SCALED_JOB, owner).key])
        return owner

    async def jobs(self, namespace: str = "default") -> list[str]:
        found, _ = await self.cluster.list(JOB, namespace)
        return [job["metadata"]["name"] for job in found]

    async def reconcile_until(self, jobs: int, namespace: str = "default") -> None:
        """Consumes and sweeps until so many Jobs are there, and nothing of the lane is ready or leased."""
        lane, end = self.running.lanes["reconcile"], time.monotonic() + LONG
        known = 0
        while time.monotonic() < end:
            await lane.sweep()
            await self.running.consumer.consume()
            if self.answers[201] != known:
                known = self.answers[201]
                if known >= jobs and len(await self.jobs(namespace)) >= jobs:
                    return
            await asyncio.sleep(0.02)
        raise TimeoutError(f"{len(await self.jobs(namespace))} of {jobs} Jobs after {LONG:g} s: {self.answers}")


@asynccontextmanager
async def rig(
    client: redis.Redis, kubeconfig: Path, *, as_a_process: bool = False, **options: float
) -> AsyncIterator[Rig]:
    """A worker whose API server is that of this kubeconfig. as_a_process: it claims as one does."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(await Cluster.connect(kubeconfig=kubeconfig, **options))  # type: ignore[arg-type]
        routed = RoutedCluster(cluster)
        limiter = cluster.limiter if as_a_process else None
        running = await stack.enter_async_context(worker(client, routed, limiter=limiter))
        for kind in (SCALED_JOB, JOB, POD):
            await running.fill(kind, [])
        yield Rig(running, cluster, routed)


@pytest.fixture
async def proxy(embedded_config: Path, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    """A proxy before the embedded API server."""
    async with fault_proxy(embedded_config, tmp_path) as proxy:
        yield proxy


async def make_namespace(kubeconfig: Path, name: str) -> str:
    async with await Cluster.connect(kubeconfig=kubeconfig) as admin:
        await admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


async def test_a_server_with_two_seats_gets_every_job_once_and_refuses_few(
    real_redis: redis.Redis, proxy: FaultProxy, embedded_config: Path
) -> None:
    namespace = await make_namespace(embedded_config, "two-seats")
    proxy.rule(lambda request: request.method != "GET", seats(2, seconds=0.005))
    async with rig(real_redis, proxy.kubeconfig) as here:
        owner = await here.want(300, namespace)
        await here.reconcile_until(300, namespace)
        names = await here.jobs(namespace)
        assert len(names) == len(set(names)) == 300
        assert here.answers[201] == 300
        # Those of the first flights, before the limit was found, are most of them.
        assert here.answers[429] < 0.25 * sum(here.answers.values())
        assert here.cluster.limiter.allowed <= 4
        assert here.routed.memory.objects[ref_of(SCALED_JOB, owner)]["status"]


async def test_a_server_that_refuses_everything_is_asked_a_few_times_and_used_when_it_is_back(
    real_redis: redis.Redis, proxy: FaultProxy, embedded_config: Path
) -> None:
    namespace = await make_namespace(embedded_config, "refused")
    outage = proxy.rule(lambda _: True, refuses(429, retry_after=1))
    async with rig(real_redis, proxy.kubeconfig) as here:
        for number in range(20):
            await here.want(10, namespace, f"work-{number}")
        began = time.monotonic()
        lane = here.running.lanes["reconcile"]
        while time.monotonic() < began + 2.5:
            await lane.sweep()
            await here.running.consumer.consume()
            await asyncio.sleep(0.01)
        # One flight, and one more request each second: 200 creations wanted to be sent, again and again.
        assert proxy.answers[429] <= 32 + 16 + 3
        assert (await lane.stats()).leased == 0, "what waits for the server waits without a lease"
        proxy.rules.remove(outage)
        await here.reconcile_until(200, namespace)


async def test_creations_whose_answers_get_lost_are_made_once(
    real_redis: redis.Redis, proxy: FaultProxy, embedded_config: Path
) -> None:
    namespace = await make_namespace(embedded_config, "lost")
    numbers = iter(range(1000))
    matches = creations("jobs", namespace)
    proxy.rule(lambda request: matches(request) and next(numbers) % 5 == 0, loses_the_answer)
    async with rig(real_redis, proxy.kubeconfig) as here:
        await here.want(40, namespace)
        while len(await here.jobs(namespace)) < 40:
            await here.running.lanes["reconcile"].sweep()
            await here.running.consumer.consume()
        names = await here.jobs(namespace)
        assert len(names) == len(set(names)) == 40


async def test_a_namespace_whose_webhook_hangs_takes_nothing_from_another(
    real_redis: redis.Redis, proxy: FaultProxy, embedded_config: Path
) -> None:
    bad, good = await make_namespace(embedded_config, "bad"), await make_namespace(embedded_config, "good")
    over = asyncio.Event()
    proxy.rule(creations("jobs", bad), times_out(over.wait, "slow.example.com"))
    async with rig(real_redis, proxy.kubeconfig) as here:
        for number in range(40):
            await here.want(10, bad, f"work-{number}")
        consuming = asyncio.create_task(here.running.consumer.consume())
        while here.cluster.limiter.in_flight < 16:
            await asyncio.sleep(0.01)
        await asyncio.gather(*(here.cluster.create(JOB, simple_job(good, f"a-{number}")) for number in range(40)))
        assert here.cluster.limiter.in_flight >= 16, "they went past those that hang"
        assert len(await here.jobs(good)) == 40
        over.set()
        await consuming
        assert await here.jobs(bad) == []
        # Others were answered meanwhile: it is not the server that is slow.
        assert here.cluster.limiter.allowed >= 16
        assert proxy.answers[500] < 100, "400 creations were wanted"


async def test_keys_of_others_are_claimed_while_a_namespace_hangs(
    real_redis: redis.Redis, proxy: FaultProxy, embedded_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limiter, "HANGS", 0.3)
    bad, good = await make_namespace(embedded_config, "hangs"), await make_namespace(embedded_config, "works")
    over = asyncio.Event()
    proxy.rule(creations("jobs", bad), times_out(over.wait, "slow.example.com"))
    async with rig(real_redis, proxy.kubeconfig, as_a_process=True) as here:
        limiter, consumer = here.cluster.limiter, here.running.consumer
        for number in range(MOST_SLOW):
            await here.want(16, bad, f"work-{number}")
        await consumer.consume()
        # No namespace could begin anything now.
        await eventually(lambda: sum(limiter.waiting.values()) > CROWDED)
        for number in range(40):
            await here.want(1, bad, f"later-{number}")
        await here.want(5, good)
        before = _refused()
        await asyncio.wait_for(consumer.consume(), LONG)
        await eventually(lambda: _are(here, good, 5))
        assert _refused() - before == 40, "each of them went back once, undecided"
        over.set()


def _refused() -> float:
    labels = {"kind": SCALED_JOB.id, "outcome": "namespace is full"}
    return REGISTRY.get_sample_value("penstock_reconcile_total", labels) or 0.0


async def _are(here: Rig, namespace: str, number: int) -> bool:
    return len(await here.jobs(namespace)) == number


async def test_objects_that_are_refused_for_ever_delay_no_other_namespace(
    real_redis: redis.Redis, proxy: FaultProxy, embedded_config: Path
) -> None:
    bad, good = await make_namespace(embedded_config, "denied"), await make_namespace(embedded_config, "allowed")
    proxy.rule(creations("jobs", bad), refuses(403, "a policy denies this"))
    refused: list[int] = []

    async def note(_: web.BaseRequest, forward: Forward) -> web.StreamResponse:
        refused.append(proxy.answers[403])
        return await forward()

    proxy.rule(creations("jobs", good), note)
    async with rig(real_redis, proxy.kubeconfig) as here:
        lane = here.running.lanes["reconcile"]
        for number in range(400):
            await here.want(1, bad, f"work-{number}")
        for number in range(3):
            before = proxy.answers[403]
            await here.want(1, good, f"work-{number}")
            await here.running.consumer.consume()
            assert len(refused) == number + 1
            # At most the others of the claim that has it.
            assert refused[-1] - before < 64
            assert proxy.answers[403] == 400 * (number + 1)
            await eventually(lambda: _all_are_back(lane, 400))
        assert len(await here.jobs(good)) == 3
        assert await here.jobs(bad) == []


async def _all_are_back(lane: Lane, number: int) -> bool:
    """Returns whether so many keys are ready again after their backoff."""
    await lane.sweep()
    return (await lane.stats()).ready == number


def simple_job(namespace: str, name: str, kind: Kind = JOB) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


FEW = ("--max-requests-inflight=2", "--max-mutating-requests-inflight=1")
#: For APF the two numbers add up, and each of its levels has at least one seat. Newer servers know neither its feature
#: gate nor the beta version of its API; all know this flag.
APF_ON = (*FEW, "--enable-priority-and-fairness=true")
APF_OFF = (*FEW, "--enable-priority-and-fairness=false")


@pytest.mark.real_apiserver
@pytest.mark.timeout(300)
@cases(("APF", APF_ON, 1000), ("fixed limits", APF_OFF, 300))
async def test_a_real_server_with_three_seats_gets_every_job_once_and_refuses_few(
    flags: tuple[str, ...], jobs: int, real_redis: redis.Redis, tmp_path: Path
) -> None:
    with kube.control_plane(kube.assets(), tmp_path, flags=flags) as plane:
        await _allow_everything(plane)
        # Members of system:masters are exempt from both kinds of limits.
        async with rig(real_redis, plane.ordinary) as here:
            owner = await here.want(jobs)
            began = time.monotonic()
            await here.reconcile_until(jobs)
            took = time.monotonic() - began
            print(f"{jobs} Jobs in {took:.1f} s, limit {here.cluster.limiter.allowed}, answers {dict(here.answers)}")
            names = await here.jobs()
            assert len(names) == len(set(names)) == jobs
            assert here.answers[201] == jobs
            assert here.answers[429] < 0.25 * sum(here.answers.values())
            assert here.routed.memory.objects[ref_of(SCALED_JOB, owner)]["status"]


async def _allow_everything(plane: kube.ControlPlane) -> None:
    kind = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False)
    async with await Cluster.connect(kubeconfig=plane.kubeconfig) as admin:
        await admin.create(
            kind,
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": kube.ORDINARY},
                "roleRef": {"apiGroup": kind.group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": kind.group, "kind": "User", "name": kube.ORDINARY}],
            },
        )
        async with await Cluster.connect(kubeconfig=plane.ordinary) as ordinary:
            # The server's authorizer learns of the binding a moment later.
            async with asyncio.timeout(LONG):
                while not await _may_list(ordinary):
                    await asyncio.sleep(0.05)


async def _may_list(cluster: Cluster) -> bool:
    try:
        await cluster.get(Ref(NAMESPACE, "", "default"))
    except Exception:
        return False
    return True
