"""Writes that differ from kind to kind: where a status is kept, and children that several make for a third."""

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import POD, POD_GROUP, SCALED_JOB, Kind, Object, ref_of
from workers.cache.store import Store
from workers.decision.plan import Create, PatchStatus, Plan, RecordEvent
from workers.decision.snapshot import Snapshot
from workers.errors import AlreadyExists
from workers.handoff.claim_orders import ClaimOrders
from workers.reconcile.act import Actor


class Silent:
    def record(self, kind: Kind, regarding: Object, record: RecordEvent) -> None:
        """Nobody listens."""


async def notify(_notifications: object) -> None:
    """Nobody listens."""


def actor_of(client: redis_async.Redis, cluster: MemoryCluster, store: Store, lane: Lane) -> Actor:
    return Actor(
        cluster=cluster,  # type: ignore[arg-type]
        store=store,
        recorder=Silent(),  # type: ignore[arg-type]
        orders=ClaimOrders(client, Keys("test")),
        reconcile=lane,
        poll=lane,
        notify=notify,
        in_flight=1,
    )


@pytest.mark.parametrize("owner", ["web", "other", None])
async def test_a_child_that_another_made_for_the_same_owner_is_there(
    fake_redis: redis_async.Redis, owner: str | None
) -> None:
    cluster, lane = MemoryCluster(), Lane(fake_redis, "reconcile", Keys("test"))
    store = Store(fake_redis, Keys("test"), {})

    def group(of: str | None) -> Object:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": f"uid-{of}", "controller": True}
        return {"metadata": {"name": "g", "namespace": "default", "ownerReferences": [reference] if of else []}}

    cluster.add(POD_GROUP, group(owner))
    pod = cluster.add(POD, {"metadata": {"name": "p", "namespace": "default"}})
    act = actor_of(fake_redis, cluster, store, lane).act
    plan = Plan((Create(POD_GROUP, group("web")),))
    if owner == "web":
        await act(Snapshot(ref_of(POD, pod), pod), plan, lambda: None)
        assert await store.get(ref_of(POD_GROUP, group("web"))) is not None
    else:
        with pytest.raises(AlreadyExists, match="belongs to somebody else"):
            await act(Snapshot(ref_of(POD, pod), pod), plan, lambda: None)


@pytest.mark.parametrize(("kind", "verb"), [(SCALED_JOB, "patch status"), (POD_GROUP, "patch")])
async def test_a_status_is_written_where_its_kind_keeps_it(
    fake_redis: redis_async.Redis, kind: Kind, verb: str
) -> None:
    cluster, lane = MemoryCluster(), Lane(fake_redis, "reconcile", Keys("test"))
    store = Store(fake_redis, Keys("test"), {kind.id: (lane,)})
    actor = actor_of(fake_redis, cluster, store, lane)
    body = cluster.add(kind, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"a": 1}, "status": {"b": 2}})
    ref = ref_of(kind, body)
    await actor.act(Snapshot(ref, body), Plan((PatchStatus({"phase": "Pending"}),)), lambda: None)
    assert cluster.log == [(verb, "g")]
    entry = await store.get(ref)
    assert entry is not None
    assert entry.body is not None
    assert (entry.body["spec"], entry.body["status"]) == ({"a": 1}, {"phase": "Pending"})
