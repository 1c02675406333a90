"""Finalizers, adoption, taken names and namespaces that go: on API servers that mean it, and in the mirror."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from tests.support.conditions import eventually
from tests.support.tables import cases
from tests.unit.workers.acting import ActorRig
from workers.api.kinds import CONFIG_MAP, JOB, NAMESPACE, POD, Object, Ref, ref_of
from workers.cache.informers import run_informers
from workers.cache.observations import ObserveRequest
from workers.client.rest import Cluster
from workers.decision.controller import Controller
from workers.decision.plan import Create, Delete, Patch, Plan, RecordEvent, Step, Together, Unfinalize
from workers.decision.snapshot import Snapshot
from workers.errors import Forbidden, Invalid, NotFound
from workers.handoff.readings import Readings
from workers.reconcile.decision_log import DecisionLog
from workers.reconcile.observe import Observer
from workers.reconcile.reconciler import Reconciler
from workers.runtime.consumer import Consumer
from workers.runtime.health import Health
from workers.runtime.leases import LeaseKeeper
from workers.settings import Settings

TRACKING = "batch.kubernetes.io/job-tracking"
TAKEN = RecordEvent("Warning", "NameTaken", "somebody else has it")


class JobRig(ActorRig):
    """A Job in a namespace of its own, an actor that reconciles it, and informers when a test starts them."""

    def __init__(self, cluster: Cluster, client: redis_async.Redis, namespace: str, job: Object) -> None:
        super().__init__(client, cluster=cluster, in_flight=8, adopted={POD.id})
        self.client, self.namespace, self.owner = client, namespace, job

    async def carry_out(self, *steps: Step) -> None:
        await self.act(*steps, ref=ref_of(JOB, self.owner))

    def told(self) -> list[str]:
        return [reason for reason, _ in self.recorder.records]

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Informers of Jobs and pods, from the moment when they know everything."""
        settings = Settings(
            prefix="test", namespaces=(self.namespace,), own_namespace=self.namespace, stale=2, leadership=2
        )
        informers = run_informers(settings, self.cluster, self.store, {JOB: "", POD: ""}, self.notify, Health())
        task = asyncio.create_task(informers)
        try:

            async def known() -> bool:
                return None not in (await self.store.freshness([JOB, POD])).values()

            await eventually(known)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def pod(self, name: str, *, owned: bool = True, finalizers: tuple[str, ...] = (TRACKING,)) -> Object:
        metadata: Object = {"namespace": self.namespace, "name": name, "finalizers": list(finalizers)}
        if owned:
            metadata["ownerReferences"] = [self.reference()]
        spec = {"containers": [{"name": "main", "image": "none", "command": ["true"]}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def reference(self) -> Object:
        metadata = self.owner["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        return {**owner, "controller": True}

    async def there(self, ref: Ref) -> bool:
        try:
            await self.cluster.get(ref)
        except NotFound:
            return False
        return True

    async def places(self, name: str) -> tuple[str, ...]:
        """Where the mirror has this pod: among the Job's children (maybe as a tombstone), or as nobody's."""
        requests = [ObserveRequest(ref_of(JOB, self.owner), unowned=(POD,))]
        [observation] = (await self.store.observe(requests)).observations
        children = await self.store.children(POD, self.owner["metadata"]["uid"])
        found = ["gone child" if child.gone else "child" for child in children if child.ref.name == name]
        return (*found, *("loose" for entry in observation.unowned[POD.id] if entry.ref.name == name))

    def has(self, name: str, *places: str) -> Callable[[], Awaitable[bool]]:
        async def holds() -> bool:
            return await self.places(name) == places

        return holds


def off(pod: Object) -> Unfinalize:
    return Unfinalize(ref_of(POD, pod), pod["metadata"]["uid"], TRACKING)


@pytest.fixture
async def rig(cluster: Cluster, namespace: str, real_redis: redis_async.Redis) -> JobRig:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": "crunch"},
        "spec": {"template": template},
    }
    return JobRig(cluster, real_redis, namespace, await cluster.create(JOB, body))


async def bind(rig: JobRig, pod: Object) -> None:
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-of-{rig.namespace}"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await rig.cluster.request("POST", POD.path(rig.namespace, name, "binding"), body=body)

    async def cached() -> bool:
        # Deleting goes by the cache first. As long as that has no node for the pod, a real API server may decide that
        # nobody has to stop it, and keeps to that when it looks again (Kubernetes 1.20).
        seen = await rig.cluster.request("GET", POD.path(rig.namespace, name), query={"resourceVersion": "0"})
        return "nodeName" in seen["spec"]

    await eventually(cached)


async def test_a_finalizer_comes_off_a_pod_that_was_written_to_meanwhile(rig: JobRig) -> None:
    pod = await rig.cluster.create(POD, rig.pod("p", finalizers=(TRACKING, "test.dev/other")))
    ref = ref_of(POD, pod)
    await rig.cluster.patch(ref, {"metadata": {"labels": {"newer": "yes"}}})
    await rig.carry_out(off(pod))
    stored = await rig.cluster.get(ref)
    assert stored["metadata"]["finalizers"] == ["test.dev/other"]
    assert stored["metadata"]["labels"]["newer"] == "yes"
    entry = await rig.store.get(ref)
    assert entry is not None
    assert entry.body is not None
    assert entry.body["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    await rig.carry_out(off(pod))
    assert (await rig.cluster.get(ref))["metadata"]["finalizers"] == ["test.dev/other"]


@cases(
    ("nobody deletes it", (TRACKING,), False, False, False),
    ("its last while being deleted", (TRACKING,), False, True, True),
    ("another one holds it", (TRACKING, "test.dev/other"), False, True, False),
    ("its kubelet has not stopped it yet", (TRACKING,), True, True, False),
)
async def test_right_after_a_finalizer_came_off_the_mirror_knows_what_became_of_the_pod(
    finalizers: tuple[str, ...], bound: bool, deleted: bool, gone: bool, rig: JobRig
) -> None:
    pod = await rig.cluster.create(POD, rig.pod("p", finalizers=finalizers))
    if bound:
        await bind(rig, pod)
    if deleted:
        await rig.cluster.delete(ref_of(POD, pod))
    await rig.carry_out(off(pod))
    assert await rig.there(ref_of(POD, pod)) is not gone
    # Nobody watches here: this is all the write-through's.
    assert await rig.places("p") == (("gone child",) if gone else ("child",))


@cases(
    ("it ran nowhere", (), False, True),
    ("a finalizer holds it", (TRACKING,), False, False),
    ("its kubelet has to stop it", (), True, False),
)
async def test_right_after_a_deletion_the_mirror_knows_what_became_of_the_pod(
    finalizers: tuple[str, ...], bound: bool, gone: bool, rig: JobRig
) -> None:
    pod = await rig.cluster.create(POD, rig.pod("p", finalizers=finalizers))
    if bound:
        await bind(rig, pod)
    await rig.carry_out(Delete(ref_of(POD, pod), pod["metadata"]["uid"]))
    assert await rig.there(ref_of(POD, pod)) is not gone
    assert await rig.places("p") == (("gone child",) if gone else ("child",))


async def test_what_is_gone_or_another_one_by_now_counts_as_done(rig: JobRig) -> None:
    gone = await rig.cluster.create(POD, rig.pod("gone", finalizers=()))
    await rig.cluster.delete(ref_of(POD, gone))
    first = await rig.cluster.create(POD, rig.pod("again", finalizers=()))
    await rig.cluster.delete(ref_of(POD, first))
    second = await rig.cluster.create(POD, rig.pod("again"))
    with pytest.raises(Invalid, match="immutable"):
        await rig.cluster.patch(ref_of(POD, second), {"metadata": {"uid": first["metadata"]["uid"]}})
    await rig.carry_out(Together((off(gone), off(first)), then=RecordEvent("Normal", "Let", "{done}")))
    assert rig.told() == ["Let"]
    assert (await rig.cluster.get(ref_of(POD, second)))["metadata"]["finalizers"] == [TRACKING]


async def test_many_pods_go_with_their_finalizers_and_no_late_event_brings_one_back(rig: JobRig) -> None:
    async with rig.followed():
        pods = [await rig.cluster.create(POD, rig.pod(f"p{number}")) for number in range(20)]
        for pod in pods[::2]:
            await rig.cluster.delete(ref_of(POD, pod))
        await rig.carry_out(Together(tuple(off(pod) for pod in pods)))
        left = {f"p{number}" for number in range(1, 20, 2)}
        children = await rig.store.children(POD, rig.owner["metadata"]["uid"])
        assert {child.ref.name for child in children if not child.gone} == left
        # What the watch brings after all that comes after its events about all that.
        await rig.cluster.create(POD, rig.pod("last"))
        await eventually(rig.has("last", "child"))
        children = await rig.store.children(POD, rig.owner["metadata"]["uid"])
        assert {child.ref.name for child in children if not child.gone} == {*left, "last"}
        assert not any(
            child.body["metadata"].get("finalizers") for child in children if child.body and child.ref.name in left
        )


async def test_the_watch_moves_a_pod_between_the_jobs_children_and_nobodys(rig: JobRig) -> None:
    ref = Ref(POD, rig.namespace, "p")
    await rig.cluster.create(POD, rig.pod("p", owned=False, finalizers=()))
    async with rig.followed():
        await eventually(rig.has("p", "loose"))
        await rig.cluster.patch(ref, {"metadata": {"ownerReferences": [rig.reference()]}})
        await eventually(rig.has("p", "child"))
        await rig.cluster.patch(ref, {"metadata": {"ownerReferences": None}})
        await eventually(rig.has("p", "loose"))
        await rig.cluster.delete(ref, grace=0)
        await eventually(rig.has("p"))


async def test_an_adoption_and_a_release_are_seen_at_once_and_the_watch_agrees(rig: JobRig) -> None:
    pod = await rig.cluster.create(POD, rig.pod("p", owned=False, finalizers=()))
    ref = ref_of(POD, pod)
    async with rig.followed():
        adopted = {"metadata": {"ownerReferences": [rig.reference()], "finalizers": [TRACKING]}}
        await rig.carry_out(Patch(ref, adopted, pod["metadata"]["resourceVersion"]))
        assert await rig.places("p") == ("child",)
        stored = await rig.cluster.get(ref)
        released = {"metadata": {"ownerReferences": None, "finalizers": None}}
        await rig.carry_out(Patch(ref, released, stored["metadata"]["resourceVersion"]))
        assert await rig.places("p") == ("loose",)
        await rig.cluster.create(POD, rig.pod("last"))
        await eventually(rig.has("last", "child"))
        assert await rig.places("p") == ("loose",)


async def test_a_name_that_is_taken_is_told_of_and_the_plan_goes_on(rig: JobRig) -> None:
    await rig.cluster.create(POD, rig.pod("a", owned=False))
    await rig.carry_out(Together(tuple(Create(POD, rig.pod(name), taken=TAKEN) for name in "ab")))
    assert rig.told() == ["NameTaken"]
    assert await rig.places("b") == ("child",)
    assert "ownerReferences" not in (await rig.cluster.get(Ref(POD, rig.namespace, "a")))["metadata"]


async def test_nothing_is_told_of_a_namespace_that_is_going(rig: JobRig) -> None:
    metadata = {"namespace": rig.namespace, "name": "held", "finalizers": ["test.dev/held"]}
    await rig.cluster.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await rig.cluster.delete(Ref(NAMESPACE, "", rig.namespace))
    failed = RecordEvent("Warning", "FailedCreate", "Error creating: {error}")
    with pytest.raises(Forbidden) as raised:
        await rig.carry_out(Together((Create(POD, rig.pod("p")),), otherwise=failed))
    assert raised.value.namespace_terminating
    assert rig.told() == []
    await rig.cluster.patch(Ref(CONFIG_MAP, rig.namespace, "held"), {"metadata": {"finalizers": None}})


async def test_a_job_that_went_first_still_lets_its_pods_go(rig: JobRig) -> None:
    snapshots: list[Snapshot] = []

    def decide(snapshot: Snapshot, _now: datetime) -> Plan:
        snapshots.append(snapshot)
        if snapshot.body is not None:
            return Plan()
        left = [child.body for child in snapshot.children[POD.id] if child.body]
        return Plan((Together(tuple(off(body) for body in left)),))

    lane = rig.lanes["reconcile"]
    controllers = {JOB.id: Controller(JOB, decide, children=(POD,))}
    readings = Readings(rig.client, Keys("test"))
    reconciler = Reconciler(
        controllers=controllers,
        observer=Observer(controllers=controllers, store=rig.store, readings=readings, stale=10.0),
        actor=rig.actor,
        decisions=DecisionLog(rig.client, Keys("test")),
        clock=lambda: datetime.now(UTC),
        deadline=30.0,
        slow=lambda namespace: False,
    )
    await lane.open()
    keeper = LeaseKeeper(lane, rig.notify, lease=15.0)
    consumer = Consumer(keeper, reconciler.handle, rig.notify, batch=16, work=60.0)
    refs = [ref_of(POD, await rig.cluster.create(POD, rig.pod(f"p{number}"))) for number in range(3)]

    async def worked_off() -> bool:
        await lane.sweep()
        await consumer.consume()
        pods = [await rig.cluster.get(ref) for ref in refs if await rig.there(ref)]
        return not any(pod["metadata"].get("finalizers") for pod in pods)

    try:
        async with rig.followed():
            await consumer.consume()
            await rig.cluster.delete(ref_of(JOB, rig.owner), propagation="Background")
            await eventually(worked_off)
    finally:
        await keeper.close()
    assert [snapshot.body is None for snapshot in snapshots][-1]
