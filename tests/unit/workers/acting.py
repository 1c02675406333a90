"""An actor with everything it acts on, in memory."""

from datetime import UTC, datetime

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import JOB, SCALED_JOB, Ref, ref_of
from workers.cache.store import ObjectVersion, Store
from workers.decision.plan import Create, Plan, RecordEvent, Unfinalize
from workers.decision.snapshot import Snapshot
from workers.handoff.claim_orders import ClaimOrders
from workers.reconcile.act import Actor
from workers.reconcile.job_tracing import JobTracing
from workers.runtime.leases import LeaseLost

KEYS = Keys("test")
OWNER = Ref(SCALED_JOB, "default", "work")
TAKEN = RecordEvent("Warning", "NameTaken", "Job a is somebody else's")
HELD = "batch.kubernetes.io/job-tracking"


class MemoryRecorder:
    def __init__(self):
        self.records = []
        self.regarding = []

    def record(self, kind, regarding, record):
        self.regarding.append((kind, regarding))
        self.records.append((record.reason, record.message))


class ActorRig:
    """An actor with everything it acts on.

    cluster: a `MemoryCluster` by default. store: further arguments of the `Store`.
    """

    def __init__(self, client, *, cluster=None, in_flight=4, **store):
        self.lanes = {name: Lane(client, name, KEYS) for name in ("reconcile", "poll")}
        self.lane = self.lanes["reconcile"]
        self.cluster = cluster or MemoryCluster()
        lanes_of = {SCALED_JOB.id: tuple(self.lanes.values()), JOB.id: (self.lane,)}
        self.store = Store(client, KEYS, lanes_of, **store)
        self.recorder = MemoryRecorder()
        self.notified = {}
        self.actor = Actor(
            cluster=self.cluster,
            store=self.store,
            recorder=self.recorder,
            orders=ClaimOrders(client, KEYS),
            reconcile=self.lane,
            poll=self.lanes["poll"],
            notify=self.notify,
            in_flight=in_flight,
            tracing=JobTracing(self.cluster, lambda: datetime.now(UTC)),
        )
        self.checks = 0
        self.lost_after = None
        self.owner = None

    def own(self, **more):
        """Adds the ScaledJob that is reconciled."""
        self.owner = self.cluster.add(SCALED_JOB, {"metadata": {"name": "work", "namespace": "default"}, **more})

    async def notify(self, notifications):
        for lane, count in notifications.items():
            self.notified[lane] = self.notified.get(lane, 0) + count

    def check(self):
        self.checks += 1
        if self.lost_after is not None and self.checks > self.lost_after:
            raise LeaseLost("it ran out")

    async def act(self, *steps, ref=OWNER, body=None, at=0):
        """Carries out a plan for the ScaledJob, or for the object `body` at `ref`, observed `at` this moment."""
        return await self.actor.act(Snapshot(ref, body or self.owner, at=at), Plan(steps), self.check)

    def job(self, name, **status):
        """Returns a Job of the ScaledJob's."""
        return {"apiVersion": "batch/v1", "kind": "Job", **owned(name, self.owner), "status": status}

    def jobs(self, number):
        """Returns the steps that create so many Jobs, j0, j1, and so on."""
        return tuple(Create(JOB, self.job(f"j{each}")) for each in range(number))

    def stranger(self, name="a", kind=JOB, **metadata):
        """Adds an object without an owner."""
        return self.cluster.add(kind, {"metadata": {"name": name, "namespace": "default", **metadata}})

    async def children(self):
        entries = await self.store.children(JOB, self.owner["metadata"]["uid"])
        return {entry.ref.name: entry.gone for entry in entries}

    async def claimed(self, lane="reconcile"):
        """Claims the ready keys of a lane."""
        return [lease.key for lease in (await self.lanes[lane].claim(10)).leases]

    async def held(self, name="a", finalizers=(HELD,), **metadata):
        """Adds a child with finalizers to cluster and store. Returns it and the step that removes the finalizer."""
        body = self.job(name)
        body["metadata"] |= {"finalizers": list(finalizers), **metadata}
        body = self.cluster.add(JOB, body)
        await self.store.apply(JOB, [ObjectVersion(body)])
        return body, Unfinalize(ref_of(JOB, body), body["metadata"]["uid"], HELD)


def owned(name, owner, kind=JOB):
    """Returns metadata of an object whose controller is this ScaledJob (of a Job), or this Job (of anything else)."""
    api_version, owner_kind = ("keda.sh/v1alpha1", "ScaledJob") if kind is JOB else ("batch/v1", "Job")
    reference = {"apiVersion": api_version, "kind": owner_kind, "name": owner["metadata"]["name"], "controller": True}
    references = [{**reference, "uid": owner["metadata"]["uid"]}]
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": references}}
