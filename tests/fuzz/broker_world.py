"""Everything that reads the broker, on one prefix under which every kind of key has content."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from penstock.client import beside
from scalers.deliveries.deliveries import Deliveries
from scheduler.format_check import check_format
from scheduler.keys import Keys
from scheduler.last_runs import LastRuns, RunLease
from scheduler.queue import Failed
from tests.integration.scalers import world as polls
from tests.integration.scalers.test_event_jobs import INTAKE, REF, event_job
from tests.support.bookings import book
from tests.support.event_jobs import event_of
from tests.support.stored_readings import store_readings
from tests.unit.workers.acting import OWNER, owned
from tests.unit.workers.objects import ref
from tests.unit.workers.reconcile.test_reservations import cap
from tests.unit.workers.reconciling import WorkerRig
from workers.api.kinds import EVENT_JOB, JOB
from workers.cache.store import ObjectVersion, StoreLost
from workers.decision.claims import DELIVERIES, ClaimOrder, ClaimSettlement
from workers.decision.limits import LimitReservation
from workers.decision.plan import Plan, PollNow
from workers.decision.snapshot import Reading, Snapshot
from workers.errors import Stale, UserError
from workers.reconcile.reservations import Reservations

KEYS = Keys("test")
UID = "u1"
#: Rounds after which everything must have recovered.
ROUNDS = 6


class BrokerWorld:
    """A worker, a poller and everything beside them that reads the broker.

    worker: decides on one ScaledJob. told: errors that loops take, and people who asked are told.
    """

    def __init__(self, client: Redis, polling: polls.Polling) -> None:
        self.client = client
        self.worker: Any = WorkerRig(client, lambda snapshot, now: Plan((), f"{snapshot.ref}: nothing"))
        self.worker.own(spec={})
        self.worker.cluster.add(JOB, owned("child", self.worker.owner))
        self.polling = polling
        self.deliveries = Deliveries(client, KEYS)
        self.runs = LastRuns(client, KEYS)
        self.told: list[str] = []
        store, lane = self.worker.store, self.worker.lane
        self.reservations = Reservations(client, KEYS, store, lane, self.worker.notify, stale=3600)

    async def fill(self) -> None:
        """Gives every key content."""
        await self.round()
        lanes, client = self.worker.lanes, self.client
        for number in range(4):
            await client.xadd(INTAKE, dict(event_of(str(number), partitionkey="k")))  # type: ignore[arg-type]
        await client.xadd(INTAKE, {"no": "event"})
        first = ClaimOrder(1, DELIVERIES, 3)
        await self._event_round(first)
        [reading] = await self.worker.readings.get_many([REF.key])
        one, two, three = reading.ledger.claims
        ends = (ClaimSettlement(one.id, "done"), ClaimSettlement(two.id, "parked", "broken"))
        retried = ClaimSettlement(three.id, "retried", "again", attempt=1, delay=3_600_000)
        await self._event_round(ClaimOrder(2, DELIVERIES, 0, settlements=(*ends, retried)))
        await client.xadd(INTAKE, dict(event_of("5", data="x")))  # type: ignore[arg-type]
        await self._event_round(ClaimOrder(3, DELIVERIES, 1))
        for _ in range(2):
            assert await self.round() == []
        await self.worker.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "other"), "uid-other")])
        for lane in lanes.values():
            names = [f"scaledjobs.keda.sh/default/{name}" for name in "abcd"]
            await lane.mark(names)
            leases = (await lane.claim(4)).leases
            await lane.finish([(leases[0], Failed("broken"))])
            await lane.mark(names)
            await book(client, lane.keys, {lease.key: 4e9 for lease in leases[1:]})
            await lane.mark(["scaledjobs.keda.sh/default/e"])
        await client.xadd(INTAKE, dict(event_of("6")))  # type: ignore[arg-type]
        await client.set(KEYS.present("x"), 1)

    async def round(self) -> list[str]:
        """Lets every part work once. Returns what raised that its loop does not take, as text."""
        faults: list[str] = []
        for name, part in self._parts():
            try:
                await part
            except (RedisError, Stale, StoreLost, UserError) as error:
                # Loops take these: the process goes on, tells them, and tries again.
                self.told.append(f"{name}: {error}")
            except Exception as error:
                faults.append(f"{name}: {type(error).__name__}: {error}")
        return faults

    async def recovered(self) -> bool:
        """Returns whether the ScaledJob has been decided on, with its child and its reading, since the last look."""
        seen, self.worker.snapshots[:] = list(self.worker.snapshots), []
        whole = [one for one in seen if one.ref == OWNER and one.reading]
        return any([child.ref.name for child in one.children[JOB.id]] == ["child"] for one in whole)

    def _parts(self) -> "Iterator[tuple[str, Any]]":
        worker = self.worker
        for name, lane in worker.lanes.items():
            yield f"{name}: open", lane.open()
            yield f"{name}: sweep", lane.sweep()
            yield f"{name}: stats", lane.stats()
        yield "informers", worker.follow()
        yield "epoch", worker.store.epoch(JOB)
        yield "reading", self._reading()
        yield "worker", self._worked()
        yield "event job", self._event_round(None)
        yield "reservations", self._reserved()
        yield "decisions", worker.decisions.of(OWNER)
        yield "deliveries", self._read_deliveries()
        yield "replay", self.deliveries.replay(UID, ["1-1"])
        yield "last runs", self._ran()
        yield "format", check_format(self.client, KEYS)
        yield "presence", self.client.mget([KEYS.present("x")])

    async def _reading(self) -> None:
        now = await self.worker.store.touch(JOB, 1, None)
        await store_readings(self.worker.readings, {OWNER.key: Reading(now, now, 1)}, self.worker.lane)
        await self.worker.act(PollNow(ClaimOrder(id=now, of="ledger", limit=3)))
        await self.worker.actor.orders.get_many([OWNER.key])

    async def _worked(self) -> None:
        await self.worker.lane.mark([OWNER.key], forgive=True)
        while await self.worker.consume():
            pass

    async def _event_round(self, order: ClaimOrder | None) -> None:
        world = self.polling.world
        await world.store.apply(EVENT_JOB, [ObjectVersion(event_job(uid=UID))])
        if order:
            await world.orders.put(REF.key, order, world.poll)
        await world.poll.mark([REF.key])
        await self.polling.once()

    async def _reserved(self) -> None:
        snapshot = Snapshot(OWNER, self.worker.owner)
        await self.reservations.ask(snapshot, LimitReservation((cap(1),), 1, 2))

    async def _read_deliveries(self) -> None:
        page = await self.deliveries.page(UID)
        for each in page.deliveries:
            await self.deliveries.get(UID, each.entry)
        await self.deliveries.of_event(UID, "1")
        await self.deliveries.counts(UID)
        async for _ in self.deliveries.export(UID):
            pass

    async def _ran(self) -> None:
        await self.runs.load({"entry": 5})
        lease = await self.runs.acquire("entry", 5)
        if isinstance(lease, RunLease):
            await self.runs.release(lease, 5)


@asynccontextmanager
async def broker_world(client: Redis, url: str) -> AsyncIterator[BrokerWorld]:
    """Everything, on an open connection. url: of the same server."""
    world = await polls.build(client)
    world.triggers.broker, world.triggers.prefix = url, KEYS.prefix
    async with world.polling() as polling:
        yield BrokerWorld(client, polling)


def channel_keys() -> list[str]:
    """Returns the keys of the EventJob's channel that polls use."""
    return [INTAKE, *(beside(INTAKE, part) for part in ("accepted", "seen", "counts", "unfinished", "parked"))]
