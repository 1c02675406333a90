"""A claim that takes long continues in the background: the next one is made, and the number of those is bounded."""

import asyncio

import pytest

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.support.tables import cases
from workers.runtime.consumer import Consumer
from workers.runtime.lane_runners import LaneRunner
from workers.runtime.leases import LeaseKeeper


def key(number):
    return f"scaledjobs.keda.sh/default/{number}"


class WorkerRig:
    """A lane whose keys are worked off when the test says so. begun: keys whose work has begun."""

    def __init__(self, lane, **options):
        self.lane, self.begun, self.free = lane, [], asyncio.Event()
        self.keeper = LeaseKeeper(lane, self.notify, lease=30.0)
        self.consumer = Consumer(self.keeper, self.handle, self.notify, batch=1, work=60.0, **options)

    async def notify(self, notifications):
        pass

    async def handle(self, claim, keeper):
        self.begun += [lease.key for lease in claim.leases]
        await self.free.wait()
        await keeper.settle_all([(lease, Done()) for lease in claim.leases])

    async def leased(self):
        return (await self.lane.stats()).leased


@pytest.fixture
async def worker(fake_redis):
    lane = Lane(fake_redis, "poll", Keys("test"), lease=30.0)
    await lane.open()
    rigs = []

    async def build(keys, **options):
        rigs.append(worker := WorkerRig(lane, **options))
        await lane.mark(map(key, range(keys)))
        return worker

    yield build
    for each in rigs:
        await each.consumer.close(0.0)
        await each.keeper.close()


async def test_a_notification_continues_while_its_earlier_claims_are_under_way(worker):
    worker = await worker(5, linger=0.001)
    assert await worker.consumer.consume() == 5
    assert sorted(worker.begun) == [key(number) for number in range(5)]
    assert await worker.leased() == 5, "they are ours as long as it takes"
    assert len(worker.keeper._held) == 5
    worker.free.set()
    while worker.consumer._lingering:
        await asyncio.sleep(0)
    assert await worker.leased() == 0
    assert not worker.keeper._held


@cases(
    ("more than so many", 5, {"linger": 0.001, "lingering": 3}, 4),
    ("no time to linger", 2, {}, 1),
)
async def test_what_may_not_continue_in_the_background_is_waited_for(keys, options, begun, worker):
    worker = await worker(keys, **options)
    notified = asyncio.create_task(worker.consumer.consume())
    while len(worker.begun) < begun:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert (len(worker.begun), notified.done()) == (begun, False)
    worker.free.set()
    assert await notified == keys


async def test_background_claims_are_cancelled_when_the_process_ends_and_their_leases_expire(worker):
    worker = await worker(3, linger=0.001)
    await worker.consumer.consume()
    await worker.consumer.close(0.0)
    assert not worker.keeper._held
    assert await worker.leased() == 3, "nobody said what became of them: they expire"


async def test_what_is_in_hand_when_the_process_is_told_to_stop_is_finished(worker):
    worker = await worker(3, linger=0.001)
    runner = LaneRunner("poll", worker.consumer, slots=4)
    runner.start(1)
    while len(worker.begun) < 3:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(runner.stop(60.0))
    # A claim that is under way by then may still take something.
    for _ in range(50):
        await asyncio.sleep(0)
    await worker.lane.mark([key(3)])
    for _ in range(50):
        await asyncio.sleep(0)
    assert not stopping.done()
    worker.free.set()
    await stopping
    stats = await worker.lane.stats()
    assert (stats.leased, stats.ready) == (0, 1), "and nothing more is claimed"


async def test_an_error_of_a_claim_in_the_background_is_logged(worker, caplog, monkeypatch):
    worker = await worker(1, linger=0.001)

    async def refuse(_):
        raise ConnectionError("the broker is away")

    await worker.consumer.consume()
    monkeypatch.setattr(worker.keeper, "settle_all", refuse)
    worker.free.set()
    while worker.consumer._lingering:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "a claim in the background could not be settled" in caplog.text
