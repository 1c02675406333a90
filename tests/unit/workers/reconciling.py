"""A reconcile worker for tests: around one decision, with everything else in memory."""

from datetime import UTC, datetime

from tests.unit.workers.acting import KEYS, ActorRig
from tests.unit.workers.objects import refers_to
from workers.api.kinds import JOB, POD, SCALED_JOB, Ref
from workers.cache.store import ObjectVersion
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING
from workers.handoff.readings import Readings
from workers.reconcile.decision_log import DecisionLog
from workers.reconcile.observe import Observer
from workers.reconcile.reconciler import Reconciler
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class WorkerRig(ActorRig):
    """A reconcile worker around one stub decision. workloads: what it reads of what objects scale."""

    def __init__(self, client, decide, *, reservations=None, workloads=None, **sees):
        super().__init__(client, adopted={POD.id}, references={JOB.id: refers_to})
        self.readings = Readings(client, KEYS)
        self.decisions = DecisionLog(client, KEYS)
        self.snapshots = []
        self.kinds = (SCALED_JOB, JOB, POD)

        def recorded(snapshot, now):
            self.snapshots.append(snapshot)
            return decide(snapshot, now)

        controller = Controller(
            SCALED_JOB,
            recorded,
            children=(JOB,),
            grandchildren=lambda body: (POD,) if body["spec"].get("pods") else (),
            relatives=lambda body: tuple(Ref(JOB, "default", name) for name in body["spec"].get("relatives", ())),
            polled=True,
            **sees,
        )
        self.controllers = {SCALED_JOB.id: controller}
        self.observer = Observer(
            controllers=self.controllers,
            store=self.store,
            readings=self.readings,
            stale=10.0,
            scales=workloads,
            orders=self.actor.orders,
        )
        self.reconciler = Reconciler(
            controllers=self.controllers,
            observer=self.observer,
            actor=self.actor,
            decisions=self.decisions,
            reservations=reservations,
            clock=lambda: NOON,
            deadline=30.0,
            slow=lambda namespace: False,
        )

    async def follow(self):
        """Informers that are up to date."""
        await self.bring(*self.kinds)

    async def bring(self, *kinds):
        """What the cluster holds of these kinds is in the store now."""
        for kind in kinds:
            listing = await self.store.begin(kind, 1)
            bodies = [body for ref, body in self.cluster.objects.items() if ref.kind is kind]
            await self.store.apply(kind, [ObjectVersion(body) for body in bodies], listing=listing)
            await self.store.finish(listing, {"": "999"})
            now = await self.store.touch(kind, 1, None)
            await self.store.touch(kind, 1, now)

    async def consume(self):
        keeper = LeaseKeeper(self.lane, self.notify, lease=15.0)
        worked = await Consumer(keeper, self.reconciler.handle, self.notify, batch=16, work=60.0).consume()
        await keeper.close()
        return worked


class Counted:
    """An asynchronous function, and how often it was called."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    async def __call__(self, *args, **options):
        self.calls += 1
        return await self.function(*args, **options)


def nothing(snapshot, now):
    return NOTHING
