"""A pool of Celery workers as a Deployment: scaled in while they are at work, and no task is lost or run twice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis.asyncio as redis
from celery import Celery

from deploy.demo.pool import manifest
from deploy.demo.pool.report import PoolSample, faults
from deploy.demo.pool.run import run
from deploy.demo.pool.work import QUEUE, TASK
from tests.support.house import House
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import DEPLOYMENT, Object, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


@pytest.fixture
def broker() -> Iterator[str]:
    with ValkeyServer(config={"save": ""}) as server:
        yield f"{server.connection_url}/0"


async def test_workers_that_are_scaled_in_finish_what_is_in_their_hands(cluster: Cluster, broker: str) -> None:
    """By hand through the scale subresource: out, in to nothing in the middle of the work, out again, and to zero."""
    # In the middle of the work nothing gets on: what was in hand ends, and the pool is to be filled again. That is seen
    # by the pool and not by what is done, of which a busy machine may show much at once.
    turns: Iterator[tuple[Callable[[PoolSample], bool], int]] = iter(
        [
            (lambda _: True, 3),
            (lambda sample: sample.done >= 4, 0),
            (lambda sample: (sample.wanted, sample.ready) == (0, 0), 2),
            (lambda sample: sample.done == 24, 0),
            (lambda _: False, 0),
        ]
    )
    come, size = next(turns)
    pool = Ref(DEPLOYMENT, manifest.NAMESPACE, manifest.NAME)
    asked: list[asyncio.Task[Object]] = []

    def drive(sample: PoolSample) -> None:
        nonlocal come, size
        for task in asked:
            assert not task.done() or task.exception() is None
        if come(sample):
            change = {"spec": {"replicas": size}}
            asked.append(asyncio.create_task(cluster.patch(pool, change, subresource="scale")))
            come, size = next(turns)

    sender = Celery(broker=broker)
    async with redis.Redis.from_url(broker) as store:
        await cluster.create(DEPLOYMENT, manifest.deployment(broker))
        seen = await run(
            cluster,
            store,
            lambda number: sender.send_task(TASK, (number, 0.7), queue=QUEUE),
            range(24),
            least=3,
            most=3,
            show=drive,
        )
    sender.close()
    await asyncio.gather(*asked)
    assert [sample.done for sample in seen.samples if sample.wanted == 0 and 4 <= sample.done < 24]
    assert faults(seen) == []
    assert seen.begun == seen.ended == dict.fromkeys(range(24), 1)
