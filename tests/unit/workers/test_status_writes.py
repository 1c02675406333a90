"""Where the status of a kind is kept: as a subresource of its own, or in the object as the rest of it."""

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.clusters import MemoryCluster
from workers.act import Actor
from workers.api.kinds import POD_GROUP, SCALED_JOB, Kind, Object, ref_of
from workers.mirror import Mirror
from workers.orders import Orders
from workers.plan import PatchStatus, Plan, Record
from workers.snapshot import Snapshot


class Silent:
    def record(self, kind: Kind, regarding: Object, record: Record) -> None:
        """Nobody listens."""


async def ring(_bells: object) -> None:
    """Nobody listens."""


@pytest.mark.parametrize(("kind", "verb"), [(SCALED_JOB, "patch status"), (POD_GROUP, "patch")])
async def test_a_status_is_written_where_its_kind_keeps_it(
    fake_redis: redis_async.Redis, kind: Kind, verb: str
) -> None:
    keys, cluster = Keys("test"), MemoryCluster()
    lane = Lane(fake_redis, "reconcile", keys)
    mirror = Mirror(fake_redis, keys, {kind.id: (lane,)})
    actor = Actor(
        cluster=cluster,  # type: ignore[arg-type]
        mirror=mirror,
        recorder=Silent(),  # type: ignore[arg-type]
        orders=Orders(fake_redis, keys),
        reconcile=lane,
        poll=lane,
        ring=ring,
        in_flight=1,
    )
    body = cluster.add(kind, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"a": 1}, "status": {"b": 2}})
    ref = ref_of(kind, body)
    await actor.act(Snapshot(ref, body), Plan((PatchStatus({"phase": "Pending"}),)), lambda: None)
    assert cluster.log == [(verb, "g")]
    entry = await mirror.get(ref)
    assert entry is not None
    assert entry.body is not None
    assert (entry.body["spec"], entry.body["status"]) == ({"a": 1}, {"phase": "Pending"})
