"""Carrying out a change of replicas: fenced by the version that was observed, and told of."""

import pytest

from tests.unit.workers.acting import World
from workers.api.kinds import Kind, Ref
from workers.errors import Conflict, Forbidden
from workers.reconcile.plan import RecordEvent, Scale

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
POOL = Ref(DEPLOYMENT, "default", "pool")
THEN = RecordEvent("Normal", "Scaled", "from 1 to 4")
OTHERWISE = RecordEvent("Warning", "NotScaled", "because {error}")


@pytest.fixture
def world(fake_redis):
    world = World(fake_redis)
    body = {"metadata": {"name": "pool", "namespace": "default"}, "spec": {"replicas": 1}}
    world.version = world.cluster.add(DEPLOYMENT, body)["metadata"]["resourceVersion"]
    return world


def replicas(world):
    return world.cluster.objects[POOL]["spec"]["replicas"]


async def test_replicas_are_set_through_the_subresource_and_that_is_told(world):
    await world.act(Scale(POOL, 4, world.version, THEN, OTHERWISE))
    assert replicas(world) == 4
    assert ("patch scale", "pool") in world.cluster.log
    assert world.told.records == [("Scaled", "from 1 to 4")]


async def test_a_target_that_changed_meanwhile_is_left_alone_and_nothing_is_told(world):
    await world.cluster.patch(POOL, {"spec": {"replicas": 9}})
    with pytest.raises(Conflict):
        await world.act(Scale(POOL, 4, world.version, THEN, OTHERWISE))
    assert replicas(world) == 9
    assert world.told.records == []


async def test_a_refusal_is_told_in_the_servers_words(world):
    def refuse(verb, ref):
        raise Forbidden("you may not", status=403)

    world.cluster.refuse = refuse
    with pytest.raises(Forbidden):
        await world.act(Scale(POOL, 4, world.version, THEN, OTHERWISE))
    assert world.told.records == [("NotScaled", "because you may not")]
