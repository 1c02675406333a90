"""What tests of workers act on."""

import pytest

from tests.unit.workers.acting import World
from tests.unit.workers.reconciling import House, nothing
from workers.api.kinds import SCALED_JOB


@pytest.fixture(params=["fake", "real"])
def client(request):
    """A client of a broker in memory, then of a real one: what only runs on the former proves little."""
    return request.getfixturevalue(f"{request.param}_redis")


@pytest.fixture
async def world(fake_redis):
    """An actor with everything it acts on, in memory."""
    world = World(fake_redis)
    for lane in world.lanes.values():
        await lane.open()
    return world


@pytest.fixture
def house(fake_redis):
    """A factory: a house with one ScaledJob, followed by an informer."""

    async def build(decide=nothing, *, follow=True, spec=None, **more):
        house = House(fake_redis, decide, **more)
        await house.lane.open()
        body = {"metadata": {"name": "work", "namespace": "default"}, "spec": spec or {}}
        house.owner = house.cluster.add(SCALED_JOB, body)
        if follow:
            await house.follow()
        return house

    return build
