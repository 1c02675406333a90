"""An actor with everything it acts on, in memory."""

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import JOB, SCALED_JOB, Ref, ref_of
from workers.cache.store import ObjectVersion, Store
from workers.decision.plan import Plan, RecordEvent, Unfinalize
from workers.decision.snapshot import Snapshot
from workers.handoff.claim_orders import ClaimOrders
from workers.reconcile.act import Actor
from workers.runtime.leases import LeaseLost

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
    """An actor with everything it acts on."""

    def __init__(self, client, *, in_flight=4):
        keys = Keys("test")
        self.lanes = {name: Lane(client, name, keys) for name in ("reconcile", "poll")}
        self.cluster = MemoryCluster()
        self.store = Store(
            client,
            keys,
            {
                SCALED_JOB.id: (self.lanes["reconcile"], self.lanes["poll"]),
                JOB.id: (self.lanes["reconcile"],),
            },
        )
        self.recorder = MemoryRecorder()
        self.notified = {}
        self.actor = Actor(
            cluster=self.cluster,
            store=self.store,
            recorder=self.recorder,
            orders=ClaimOrders(client, keys),
            reconcile=self.lanes["reconcile"],
            poll=self.lanes["poll"],
            notify=self.notify,
            in_flight=in_flight,
        )
        self.owner = self.cluster.add(SCALED_JOB, {"metadata": {"name": "work", "namespace": "default"}, "status": {}})
        self.checks = 0
        self.lost_after = None

    async def notify(self, notifications):
        for lane, count in notifications.items():
            self.notified[lane] = self.notified.get(lane, 0) + count

    def check(self):
        self.checks += 1
        if self.lost_after is not None and self.checks > self.lost_after:
            raise LeaseLost("it ran out")

    async def act(self, *steps):
        return await self.actor.act(Snapshot(OWNER, self.owner), Plan(steps), self.check)

    def job(self, name, **status):
        reference = {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledJob",
            "name": "work",
            "uid": self.owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": name, "namespace": "default", "ownerReferences": [reference]}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": status}

    async def children(self):
        entries = await self.store.children(JOB, self.owner["metadata"]["uid"])
        return {entry.ref.name: entry.gone for entry in entries}


async def held(rig, name="a", finalizers=(HELD,), **metadata):
    """A child with finalizers, in the cluster and in the store; and the step that takes one off."""
    body = rig.job(name)
    body["metadata"] |= {"finalizers": list(finalizers), **metadata}
    body = rig.cluster.add(JOB, body)
    await rig.store.apply(JOB, [ObjectVersion(body)])
    return body, Unfinalize(ref_of(JOB, body), body["metadata"]["uid"], HELD)
