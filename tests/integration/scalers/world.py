"""Everything a poll needs, on one broker: lanes, mirror, readings, and a poller that can be asked to poll."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from penstock.connections import Connections
from scalers.auth.lookups import Lookups
from scalers.deliveries.deliveries import Deliveries
from scalers.polling.batched import BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.polling.poller import Poller
from scalers.scaler_registry import REGISTRY, ScalerRegistry
from scalers.triggers.parse import Triggers
from scalers.wakeups.wakeups import Wakeups
from scheduler.keys import Keys
from scheduler.queue import ClaimedKeys, Done, Lane
from workers.api.kinds import EVENT_JOB, SCALED_JOB, Object, Ref
from workers.cache.store import ObjectVersion, Store
from workers.decision.snapshot import Reading
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.runtime.leases import LeaseKeeper
from workers.settings import Settings

KEYS = Keys("test")


def ref(name: str) -> Ref:
    return Ref(SCALED_JOB, "team", name)


def key(name: str) -> str:
    return ref(name).key


def scaled_job(name: str, *triggers: Object, version: int = 1, uid: str = "", **changes: Any) -> Object:
    """A ScaledJob as the API server would give it."""
    annotations = changes.pop("annotations", {})
    deletion = {"deletionTimestamp": changes.pop("deleted")} if "deleted" in changes else {}
    generation = changes.pop("generation", 1)
    env = changes.pop("env", [])
    return {
        "apiVersion": SCALED_JOB.api_version,
        "kind": SCALED_JOB.kind,
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": uid or f"uid-{name}",
            "generation": generation,
            "resourceVersion": str(version),
            "annotations": annotations,
            **deletion,
        },
        "spec": {
            "jobTargetRef": {"template": {"spec": {"containers": [{"name": "main", "env": env}]}}},
            "triggers": list(triggers),
            **changes,
        },
    }


def redis_trigger(port: int, name: str, **metadata: Any) -> Object:
    return {"type": "redis", "metadata": {"address": f"127.0.0.1:{port}", "listName": name, **metadata}}


def from_config_map(name: str) -> Object:
    """A ScaledJob whose server's port is the entry `port` of the ConfigMap of its name."""
    env = [{"name": "PORT", "valueFrom": {"configMapKeyRef": {"name": name, "key": "port"}}}]
    metadata = {"host": "127.0.0.1", "portFromEnv": "PORT", "listName": "queue"}
    return scaled_job(name, {"type": "redis", "metadata": metadata}, env=env, pollingInterval=1)


@dataclass
class World:
    """The parts, and what was rung."""

    client: Redis
    poll: Lane
    reconcile: Lane
    store: Store
    readings: Readings
    orders: ClaimOrders
    triggers: Triggers
    notified: dict[str, int] = field(default_factory=dict)
    claims: list[ClaimedKeys] = field(default_factory=list)

    async def notify(self, notifications: Mapping[str, int]) -> None:
        for lane, count in notifications.items():
            self.notified[lane] = self.notified.get(lane, 0) + count

    async def apply(self, *bodies: Object) -> None:
        await self.store.apply(SCALED_JOB, [ObjectVersion(body) for body in bodies])

    async def delete(self, body: Object) -> None:
        await self.store.apply(SCALED_JOB, [ObjectVersion.gone(ref(body["metadata"]["name"]), body["metadata"]["uid"])])

    async def reading(self, name: str) -> Reading:
        [found] = await self.readings.get_many([key(name)])
        assert found is not None, f"there is no reading of {name}"
        return found

    async def has_reading(self, name: str) -> bool:
        return await self.readings.get_many([key(name)]) != [None]

    async def deciding(self) -> set[str]:
        """Names of the objects that somebody has to decide on now; they count as decided after this."""
        claim = await self.reconcile.claim(2000, notified=True)
        await self.reconcile.finish((lease, Done()) for lease in claim.leases)
        return {lease.key.rpartition("/")[2] for lease in claim.leases}

    async def poll_once(self, poller: Poller, keeper: LeaseKeeper) -> ClaimedKeys:
        """Claim what is ready in the poll lane and work it off."""
        claim = await self.poll.claim(2000, notified=True)
        keeper.take(claim.leases)
        await poller.handle(claim, keeper)
        self.claims.append(claim)
        return claim

    def poller(self, *, timeout: float = 3.0, wakeups: Wakeups | None = None, **policy: Any) -> Poller:
        return Poller(
            store=self.store,
            readings=self.readings,
            orders=self.orders,
            reconcile=self.reconcile,
            notify=self.notify,
            settings=Settings(),
            triggers=self.triggers,
            deliveries=Deliveries(self.client, KEYS),
            wakeups=wakeups,
            sources=BatchedReader(
                Connections(), CircuitBreakers(BreakerPolicy(**{"base": 3600.0, **policy})), timeout=timeout
            ),
        )

    @asynccontextmanager
    async def polling(self, **options: Any) -> AsyncIterator["Polling"]:
        poller, keeper = self.poller(**options), LeaseKeeper(self.poll, self.notify, lease=self.poll.lease)
        try:
            yield Polling(self, poller, keeper)
        finally:
            await keeper.close()
            await poller.close()


@dataclass
class Polling:
    """A poller with its hands."""

    world: World
    poller: Poller
    keeper: LeaseKeeper

    async def once(self) -> ClaimedKeys:
        return await self.world.poll_once(self.poller, self.keeper)

    async def again(self, *names: str) -> ClaimedKeys:
        """Poll these objects once more."""
        await self.world.poll.mark(key(name) for name in names)
        return await self.once()


async def build(
    client: Redis, *, lookups: Lookups | None = None, registry: ScalerRegistry = REGISTRY, lease: float = 15.0
) -> World:
    """A world on this broker. lease: seconds of a poll's lease, which must outlast a slow machine's polls."""
    poll, reconcile = Lane(client, "poll", KEYS, lease=lease), Lane(client, "reconcile", KEYS)
    await poll.open()
    await reconcile.open()
    return World(
        client=client,
        poll=poll,
        reconcile=reconcile,
        store=Store(client, KEYS, {kind.id: (reconcile, poll) for kind in (SCALED_JOB, EVENT_JOB)}),
        readings=Readings(client, KEYS),
        orders=ClaimOrders(client, KEYS),
        triggers=Triggers(registry, lookups),
    )
