"""Finalizers, adoption, taken names and namespaces that go: on API servers that mean it, and in the mirror."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.conditions import eventually
from workers.api.kinds import CONFIG_MAP, JOB, NAMESPACE, POD, Kind, Object, Ref, ref_of
from workers.cache.informers import run_informers
from workers.cache.store import ObserveRequest, Store
from workers.client.rest import Cluster
from workers.decision.controller import Controller
from workers.decision.plan import (
    Create,
    Delete,
    Patch,
    Plan,
    RecordEvent,
    Step,
    Together,
    Unfinalize,
)
from workers.decision.snapshot import Snapshot
from workers.errors import Forbidden, Invalid, NotFound
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings
from workers.reconcile.act import Actor
from workers.reconcile.decision_log import DecisionLog
from workers.reconcile.observe import Observer
from workers.reconcile.reconciler import Reconciler
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper
from workers.settings import Settings

TRACKING = "batch.kubernetes.io/job-tracking"
TAKEN = RecordEvent("Warning", "NameTaken", "somebody else has it")


class Told:
    """Collects what is recorded, in place of `workers.client.event_recorder.Recorder`."""

    def __init__(self) -> None:
        self.records: list[str] = []

    def record(self, _kind: Kind, _regarding: Object, record: RecordEvent) -> None:
        self.records.append(record.reason)


class World:
    """A Job in a namespace of its own, an actor that works in its name, and informers when a test asks for them."""

    def __init__(self, cluster: Cluster, client: redis_async.Redis, namespace: str, job: Object) -> None:
        self.cluster, self.client, self.namespace, self.job = cluster, client, namespace, job
        keys = Keys("test")
        self.lanes = {name: Lane(client, name, keys) for name in ("reconcile", "poll")}
        self.store = Store(client, keys, {JOB.id: (self.lanes["reconcile"],)}, adopted={POD.id})
        self.told = Told()
        self.actor = Actor(
            cluster=cluster,
            store=self.store,
            recorder=self.told,  # type: ignore[arg-type]
            orders=ClaimOrders(client, keys),
            reconcile=self.lanes["reconcile"],
            poll=self.lanes["poll"],
            notify=self.notify,
            in_flight=8,
        )

    async def notify(self, notifications: Mapping[str, int]) -> None:
        """Nobody listens."""

    async def act(self, *steps: Step) -> None:
        await self.actor.act(Snapshot(ref_of(JOB, self.job), self.job), Plan(steps), lambda: None)

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Informers of Jobs and pods, from the moment when they know everything."""
        settings = Settings(
            prefix="test", namespaces=(self.namespace,), own_namespace=self.namespace, stale=2, leadership=2
        )
        informers = run_informers(settings, self.cluster, self.store, {JOB: "", POD: ""}, self.notify)
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
        spec = {"containers": [{"name": "main", "image": "none"}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def reference(self) -> Object:
        metadata = self.job["metadata"]
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
        requests = [ObserveRequest(ref_of(JOB, self.job), unowned=(POD,))]
        [observation] = (await self.store.observe(requests)).observations
        children = await self.store.children(POD, self.job["metadata"]["uid"])
        found = ["gone child" if child.gone else "child" for child in children if child.ref.name == name]
        return (*found, *("loose" for entry in observation.unowned[POD.id] if entry.ref.name == name))

    def has(self, name: str, *places: str) -> Callable[[], Awaitable[bool]]:
        async def holds() -> bool:
            return await self.places(name) == places

        return holds


def off(pod: Object) -> Unfinalize:
    return Unfinalize(ref_of(POD, pod), pod["metadata"]["uid"], TRACKING)


@pytest.fixture
async def world(cluster: Cluster, namespace: str, real_redis: redis_async.Redis) -> World:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": "crunch"},
        "spec": {"template": template},
    }
    return World(cluster, real_redis, namespace, await cluster.create(JOB, body))


async def bind(world: World, pod: Object) -> None:
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-of-{world.namespace}"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await world.cluster.request("POST", POD.path(world.namespace, name, "binding"), body=body)

    async def cached() -> bool:
        # Deleting goes by the cache first. As long as that has no node for the pod, a real API server may decide that
        # nobody has to stop it, and keeps to that when it looks again (Kubernetes 1.20).
        seen = await world.cluster.request("GET", POD.path(world.namespace, name), query={"resourceVersion": "0"})
        return "nodeName" in seen["spec"]

    await eventually(cached)


async def test_a_finalizer_comes_off_a_pod_that_was_written_to_meanwhile(world: World) -> None:
    pod = await world.cluster.create(POD, world.pod("p", finalizers=(TRACKING, "test.dev/other")))
    ref = ref_of(POD, pod)
    await world.cluster.patch(ref, {"metadata": {"labels": {"newer": "yes"}}})
    await world.act(off(pod))
    stored = await world.cluster.get(ref)
    assert stored["metadata"]["finalizers"] == ["test.dev/other"]
    assert stored["metadata"]["labels"]["newer"] == "yes"
    entry = await world.store.get(ref)
    assert entry is not None
    assert entry.body is not None
    assert entry.body["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    await world.act(off(pod))
    assert (await world.cluster.get(ref))["metadata"]["finalizers"] == ["test.dev/other"]


@pytest.mark.parametrize(
    ("finalizers", "bound", "deleted", "gone"),
    [
        pytest.param((TRACKING,), False, False, False, id="nobody deletes it"),
        pytest.param((TRACKING,), False, True, True, id="its last while being deleted"),
        pytest.param((TRACKING, "test.dev/other"), False, True, False, id="another one holds it"),
        pytest.param((TRACKING,), True, True, False, id="its kubelet has not stopped it yet"),
    ],
)
async def test_right_after_a_finalizer_came_off_the_mirror_knows_what_became_of_the_pod(
    world: World, finalizers: tuple[str, ...], bound: bool, deleted: bool, gone: bool
) -> None:
    pod = await world.cluster.create(POD, world.pod("p", finalizers=finalizers))
    if bound:
        await bind(world, pod)
    if deleted:
        await world.cluster.delete(ref_of(POD, pod))
    await world.act(off(pod))
    assert await world.there(ref_of(POD, pod)) is not gone
    # Nobody watches here: this is all the write-through's.
    assert await world.places("p") == (("gone child",) if gone else ("child",))


@pytest.mark.parametrize(
    ("finalizers", "bound", "gone"),
    [
        pytest.param((), False, True, id="it ran nowhere"),
        pytest.param((TRACKING,), False, False, id="a finalizer holds it"),
        pytest.param((), True, False, id="its kubelet has to stop it"),
    ],
)
async def test_right_after_a_deletion_the_mirror_knows_what_became_of_the_pod(
    world: World, finalizers: tuple[str, ...], bound: bool, gone: bool
) -> None:
    pod = await world.cluster.create(POD, world.pod("p", finalizers=finalizers))
    if bound:
        await bind(world, pod)
    await world.act(Delete(ref_of(POD, pod), pod["metadata"]["uid"]))
    assert await world.there(ref_of(POD, pod)) is not gone
    assert await world.places("p") == (("gone child",) if gone else ("child",))


async def test_what_is_gone_or_another_one_by_now_counts_as_done(world: World) -> None:
    gone = await world.cluster.create(POD, world.pod("gone", finalizers=()))
    await world.cluster.delete(ref_of(POD, gone))
    first = await world.cluster.create(POD, world.pod("again", finalizers=()))
    await world.cluster.delete(ref_of(POD, first))
    second = await world.cluster.create(POD, world.pod("again"))
    with pytest.raises(Invalid, match="immutable"):
        await world.cluster.patch(ref_of(POD, second), {"metadata": {"uid": first["metadata"]["uid"]}})
    await world.act(Together((off(gone), off(first)), then=RecordEvent("Normal", "Let", "{done}")))
    assert world.told.records == ["Let"]
    assert (await world.cluster.get(ref_of(POD, second)))["metadata"]["finalizers"] == [TRACKING]


async def test_many_pods_go_with_their_finalizers_and_no_late_event_brings_one_back(world: World) -> None:
    async with world.followed():
        pods = [await world.cluster.create(POD, world.pod(f"p{number}")) for number in range(20)]
        for pod in pods[::2]:
            await world.cluster.delete(ref_of(POD, pod))
        await world.act(Together(tuple(off(pod) for pod in pods)))
        left = {f"p{number}" for number in range(1, 20, 2)}
        children = await world.store.children(POD, world.job["metadata"]["uid"])
        assert {child.ref.name for child in children if not child.gone} == left
        # What the watch brings after all that comes after its events about all that.
        await world.cluster.create(POD, world.pod("last"))
        await eventually(world.has("last", "child"))
        children = await world.store.children(POD, world.job["metadata"]["uid"])
        assert {child.ref.name for child in children if not child.gone} == {*left, "last"}
        assert not any(
            child.body["metadata"].get("finalizers") for child in children if child.body and child.ref.name in left
        )


async def test_the_watch_moves_a_pod_between_the_jobs_children_and_nobodys(world: World) -> None:
    ref = Ref(POD, world.namespace, "p")
    await world.cluster.create(POD, world.pod("p", owned=False, finalizers=()))
    async with world.followed():
        await eventually(world.has("p", "loose"))
        await world.cluster.patch(ref, {"metadata": {"ownerReferences": [world.reference()]}})
        await eventually(world.has("p", "child"))
        await world.cluster.patch(ref, {"metadata": {"ownerReferences": None}})
        await eventually(world.has("p", "loose"))
        await world.cluster.delete(ref, grace=0)
        await eventually(world.has("p"))


async def test_an_adoption_and_a_release_are_seen_at_once_and_the_watch_agrees(world: World) -> None:
    pod = await world.cluster.create(POD, world.pod("p", owned=False, finalizers=()))
    ref = ref_of(POD, pod)
    async with world.followed():
        adopted = {"metadata": {"ownerReferences": [world.reference()], "finalizers": [TRACKING]}}
        await world.act(Patch(ref, adopted, pod["metadata"]["resourceVersion"]))
        assert await world.places("p") == ("child",)
        stored = await world.cluster.get(ref)
        released = {"metadata": {"ownerReferences": None, "finalizers": None}}
        await world.act(Patch(ref, released, stored["metadata"]["resourceVersion"]))
        assert await world.places("p") == ("loose",)
        await world.cluster.create(POD, world.pod("last"))
        await eventually(world.has("last", "child"))
        assert await world.places("p") == ("loose",)


async def test_a_name_that_is_taken_is_told_of_and_the_plan_goes_on(world: World) -> None:
    await world.cluster.create(POD, world.pod("a", owned=False))
    await world.act(Together(tuple(Create(POD, world.pod(name), taken=TAKEN) for name in "ab")))
    assert world.told.records == ["NameTaken"]
    assert await world.places("b") == ("child",)
    assert "ownerReferences" not in (await world.cluster.get(Ref(POD, world.namespace, "a")))["metadata"]


async def test_nothing_is_told_of_a_namespace_that_is_going(world: World) -> None:
    metadata = {"namespace": world.namespace, "name": "held", "finalizers": ["test.dev/held"]}
    await world.cluster.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await world.cluster.delete(Ref(NAMESPACE, "", world.namespace))
    failed = RecordEvent("Warning", "FailedCreate", "Error creating: {error}")
    with pytest.raises(Forbidden) as raised:
        await world.act(Together((Create(POD, world.pod("p")),), otherwise=failed))
    assert raised.value.namespace_terminating
    assert world.told.records == []
    await world.cluster.patch(Ref(CONFIG_MAP, world.namespace, "held"), {"metadata": {"finalizers": None}})


async def test_a_job_that_went_first_still_lets_its_pods_go(world: World) -> None:
    snapshots: list[Snapshot] = []

    def decide(snapshot: Snapshot, _now: datetime) -> Plan:
        snapshots.append(snapshot)
        if snapshot.body is not None:
            return Plan()
        left = [child.body for child in snapshot.children[POD.id] if child.body]
        return Plan((Together(tuple(off(body) for body in left)),))

    lane = world.lanes["reconcile"]
    controllers = {JOB.id: Controller(JOB, decide, children=(POD,))}
    readings = Readings(world.client, Keys("test"))
    reconciler = Reconciler(
        controllers=controllers,
        observer=Observer(controllers=controllers, store=world.store, readings=readings, stale=10.0),
        actor=world.actor,
        decisions=DecisionLog(world.client, Keys("test")),
        clock=lambda: datetime.now(UTC),
        deadline=30.0,
    )
    await lane.open()
    keeper = LeaseKeeper(lane, world.notify, lease=15.0)
    consumer = Consumer(keeper, reconciler.handle, world.notify, batch=16, work=60.0)
    refs = [ref_of(POD, await world.cluster.create(POD, world.pod(f"p{number}"))) for number in range(3)]

    async def worked_off() -> bool:
        await lane.sweep()
        await consumer.consume()
        pods = [await world.cluster.get(ref) for ref in refs if await world.there(ref)]
        return not any(pod["metadata"].get("finalizers") for pod in pods)

    try:
        async with world.followed():
            await consumer.consume()
            await world.cluster.delete(ref_of(JOB, world.job), propagation="Background")
            await eventually(worked_off)
    finally:
        await keeper.close()
    assert [snapshot.body is None for snapshot in snapshots][-1]
