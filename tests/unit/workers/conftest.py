"""Brokers and rigs of the workers' tests."""

import pytest

from tests.unit.workers.acting import ActorRig
from tests.unit.workers.reconciling import WorkerRig, nothing


@pytest.fixture(params=["fake", "real"])
def client(request):
    """A client of a broker in memory, then of a real one: what only runs on the former proves little."""
    return request.getfixturevalue(f"{request.param}_redis")


@pytest.fixture
async def rig(fake_redis):
    """An actor with everything it acts on, in memory."""
    rig = ActorRig(fake_redis)
    rig.own(status={})
    for lane in rig.lanes.values():
        await lane.open()
    return rig


@pytest.fixture
def worker(fake_redis):
    """A factory: a worker with one ScaledJob, whose informer is up to date unless `follow` is false."""

    async def build(decide=nothing, *, follow=True, spec=None, **more):
        worker = WorkerRig(fake_redis, decide, **more)
        await worker.lane.open()
        worker.own(spec=spec or {})
        if follow:
            await worker.follow()
        return worker

    return build
