"""What tests of workers act on."""

import pytest

from tests.unit.workers.acting import ActorRig
from tests.unit.workers.reconciling import WorkerRig, nothing
from workers.api.kinds import SCALED_JOB


@pytest.fixture(params=["fake", "real"])
def client(request):
    """A client of a broker in memory, then of a real one: what only runs on the former proves little."""
    return request.getfixturevalue(f"{request.param}_redis")


@pytest.fixture
async def rig(fake_redis):
    """An actor with everything it acts on, in memory."""
    rig = ActorRig(fake_redis)
    for lane in rig.lanes.values():
        await lane.open()
    return rig


@pytest.fixture
def worker(fake_redis):
    """A factory: a house with one ScaledJob, followed by an informer."""

    async def build(decide=nothing, *, follow=True, spec=None, **more):
        worker = WorkerRig(fake_redis, decide, **more)
        await worker.lane.open()
        body = {"metadata": {"name": "work", "namespace": "default"}, "spec": spec or {}}
        worker.owner = worker.cluster.add(SCALED_JOB, body)
        if follow:
            await worker.follow()
        return worker

    return build
