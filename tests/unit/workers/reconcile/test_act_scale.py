"""Carrying out a change of replicas: fenced by the version that was observed, and told of."""

import pytest

from tests.unit.workers.acting import ActorRig
from workers.api.kinds import Kind, Ref
from workers.decision.plan import RecordEvent, Scale
from workers.errors import Conflict, Forbidden

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
POOL = Ref(DEPLOYMENT, "default", "pool")
THEN = RecordEvent("Normal", "Scaled", "from 1 to 4")
OTHERWISE = RecordEvent("Warning", "NotScaled", "because {error}")


@pytest.fixture
def rig(fake_redis):
    rig = ActorRig(fake_redis)
    body = {"metadata": {"name": "pool", "namespace": "default"}, "spec": {"replicas": 1}}
    rig.version = rig.cluster.add(DEPLOYMENT, body)["metadata"]["resourceVersion"]
    return rig


def replicas(rig):
    return rig.cluster.objects[POOL]["spec"]["replicas"]


async def test_replicas_are_set_through_the_subresource_and_an_event_is_recorded(rig):
    await rig.act(Scale(POOL, 4, rig.version, THEN, OTHERWISE))
    assert replicas(rig) == 4
    assert ("patch scale", "pool") in rig.cluster.log
    assert rig.recorder.records == [("Scaled", "from 1 to 4")]


async def test_a_target_that_changed_meanwhile_is_left_alone_without_an_event(rig):
    await rig.cluster.patch(POOL, {"spec": {"replicas": 9}})
    with pytest.raises(Conflict):
        await rig.act(Scale(POOL, 4, rig.version, THEN, OTHERWISE))
    assert replicas(rig) == 9
    assert rig.recorder.records == []


async def test_a_refusal_is_recorded_in_the_servers_words(rig):
    rig.cluster.refuse_with(Forbidden("you may not", status=403))
    with pytest.raises(Forbidden):
        await rig.act(Scale(POOL, 4, rig.version, THEN, OTHERWISE))
    assert rig.recorder.records == [("NotScaled", "because you may not")]
