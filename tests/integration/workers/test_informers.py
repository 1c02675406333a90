"""Informers against API servers that mean it: the whole way into the mirror, and from one leader to the next."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support import broker_clock
from tests.support.conditions import eventually
from workers.api.kinds import CONFIG_MAP, LEASE, Object, Ref
from workers.cache import informers
from workers.cache.informers import lease_name, run_informers
from workers.cache.reflector import Pace
from workers.cache.store import Store
from workers.client.rest import Cluster
from workers.runtime.health import Health
from workers.settings import Settings


def config_map(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}


class World:
    """One cluster, one broker, and processes that inform."""

    def __init__(self, kubeconfig: Path, client: redis_async.Redis, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.lane = Lane(client, "reconcile", Keys("test"))
        self.store = Store(client, Keys("test"), {CONFIG_MAP.id: (self.lane,)})
        self.settings = Settings(prefix="test", namespaces=(namespace,), own_namespace=namespace, stale=2, leadership=2)

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Nobody listens."""

    @asynccontextmanager
    async def process(self) -> AsyncIterator["asyncio.Task[None]"]:
        async with await Cluster.connect(kubeconfig=self.kubeconfig) as cluster:
            informing = run_informers(self.settings, cluster, self.store, {CONFIG_MAP: ""}, self.notify, Health())
            task = asyncio.create_task(informing)
            try:
                yield task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def names(self) -> set[str]:
        # A real cluster puts a certificate of its own into every namespace.
        return {entry.ref.name async for entry in self.store.scan(CONFIG_MAP)} - {"kube-root-ca.crt"}

    async def fresh(self) -> bool:
        age = (await self.store.freshness([CONFIG_MAP]))[CONFIG_MAP.id]
        return age is not None and age < 2

    def shows(self, *names: str) -> Callable[[], Awaitable[bool]]:
        async def holds() -> bool:
            return await self.names() == set(names) and await self.fresh()

        return holds


async def test_the_mirror_follows_the_cluster(
    cluster_config: Path, cluster: Cluster, namespace: str, real_redis: redis_async.Redis
) -> None:
    world = World(cluster_config, real_redis, namespace)
    for number in range(5):
        await cluster.create(CONFIG_MAP, config_map(namespace, f"c{number}"))
    async with world.process():
        await eventually(world.shows("c0", "c1", "c2", "c3", "c4"))
        await cluster.delete(Ref(CONFIG_MAP, namespace, "c1"))
        await cluster.create(CONFIG_MAP, config_map(namespace, "new"))
        await eventually(world.shows("c0", "c2", "c3", "c4", "new"))


async def test_freshness_is_proved_for_a_worker_that_asks(
    cluster_config: Path,
    cluster: Cluster,
    namespace: str,
    real_redis: redis_async.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # By itself the informer proves nothing while this test lasts.
    monkeypatch.setattr(informers, "pace", lambda _: Pace(beat=60, probe=3600))
    world = World(cluster_config, real_redis, namespace)
    async with world.process():
        await eventually(world.shows())
        # Also after its connection broke.
        for name, names in (("a", ("a",)), ("b", ("a", "b"))):
            await real_redis.client_kill_filter(_type="pubsub")
            await cluster.create(CONFIG_MAP, config_map(namespace, name))

            async def proved(since: int = await broker_clock.now(real_redis)) -> bool:
                await world.store.ask_for_proof([CONFIG_MAP])
                age = (await world.store.freshness([CONFIG_MAP]))[CONFIG_MAP.id]
                return age is not None and await broker_clock.now(real_redis) - age * 1e6 > since

            await eventually(proved)
            assert await world.names() == set(names)


async def test_when_the_leader_goes_the_other_takes_over_and_nothing_is_missed(
    cluster_config: Path, cluster: Cluster, namespace: str, real_redis: redis_async.Redis
) -> None:
    world = World(cluster_config, real_redis, namespace)
    lease = Ref(LEASE, namespace, lease_name("test", CONFIG_MAP))
    async with world.process():
        await eventually(world.fresh)
        first = (await cluster.get(lease))["spec"]
    await cluster.create(CONFIG_MAP, config_map(namespace, "a"))
    async with world.process(), world.process():
        await eventually(world.shows("a"))
        second = (await cluster.get(lease))["spec"]
        assert second["holderIdentity"] != first["holderIdentity"]
        assert second["leaseTransitions"] > first["leaseTransitions"]

        async def follows() -> bool:
            # A busy machine may change leaders at any moment.
            spec = (await cluster.get(lease))["spec"]
            return bool(await world.store.epoch(CONFIG_MAP) == spec["leaseTransitions"])

        await eventually(follows)


async def test_a_deleted_lease_does_not_send_the_epochs_back(
    cluster_config: Path, cluster: Cluster, namespace: str, real_redis: redis_async.Redis
) -> None:
    world = World(cluster_config, real_redis, namespace)
    async with world.process():
        await eventually(world.fresh)
        before = await world.store.epoch(CONFIG_MAP)
        await cluster.delete(Ref(LEASE, namespace, lease_name("test", CONFIG_MAP)))

        async def later() -> bool:
            return await world.store.epoch(CONFIG_MAP) > before and await world.fresh()

        await eventually(later)
