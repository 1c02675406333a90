"""What tests of workers act on."""

import pytest

from tests.unit.workers.acting import World


@pytest.fixture
async def world(fake_redis):
    """An actor with everything it acts on, in memory."""
    world = World(fake_redis)
    for lane in world.lanes.values():
        await lane.open()
    return world
