"""Out of reach is an API server that gives no answer for a while; a refusal is an answer."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.support.conditions import eventually
from tests.support.tables import for_each
from workers.errors import Forbidden, Unavailable
from workers.runtime import consumer as consumers
from workers.runtime.api_reach import ApiReach
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper

KEY = "jobs.batch/default/crunch"


class Server:
    """Answers as a test says."""

    def __init__(self):
        self.answers = lambda: None
        self.asked = self.lost = 0

    async def ask(self):
        self.asked += 1
        return self.answers()

    def lose(self):
        self.lost += 1

    @asynccontextmanager
    async def watched(self, clock):
        reach = ApiReach(self.ask, self.lose, every=0.001, patience=4.0, clock=clock)
        task = asyncio.create_task(reach.watch())
        try:
            yield reach
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def away():
    raise Unavailable("away")


def refused():
    raise Forbidden("no")


@for_each((away, 3.9, True), (away, 4.1, False), (refused, 100.0, True), (lambda: None, 100.0, True))
async def test_the_server_is_out_of_reach_after_a_while_without_an_answer(answers, after, there):
    server, now = Server(), 0.0
    async with server.watched(lambda: now) as reach:
        await eventually(lambda: server.asked)
        server.answers = answers
        now += after
        asked = server.asked
        await eventually(lambda: server.asked > asked + 2)
        assert (reach.there, server.lost) == (there, 0 if there else 1)
        server.answers = lambda: None
        await eventually(lambda: reach.there)


async def test_a_server_that_does_not_answer_in_time_is_said_to_be_out_of_reach(caplog):
    def late():
        raise TimeoutError

    server, now = Server(), 0.0
    async with server.watched(lambda: now):
        server.answers = late
        now += 5.0
        await eventually(lambda: server.lost)
    [record] = [record for record in caplog.records if "out of reach" in record.message]
    assert record.error == "no answer in time"


@pytest.fixture
async def keeper(fake_redis):
    lane = Lane(fake_redis, "reconcile", Keys("test"), lease=30.0)
    await lane.open()
    keeper = LeaseKeeper(lane, _nobody, lease=30.0)
    yield keeper
    await keeper.close()


async def _nobody(_notifications):
    pass


async def test_a_process_that_cannot_work_passes_notifications_on(keeper, monkeypatch):
    monkeypatch.setattr(consumers, "PASS_ON", 0)
    sent = {}

    async def notify(notifications):
        sent.update(notifications)

    await keeper.lane.mark([KEY])
    able = Consumer(keeper, None, notify, batch=4, work=1.0, able=lambda: False)
    assert await able.consume() == 0
    assert sent == {"reconcile": 1}
    assert (await keeper.lane.stats()).ready == 1


async def test_abandoned_work_ends_and_its_keys_wait_for_the_end_of_their_leases(keeper):
    await keeper.lane.mark([KEY])
    [lease] = (await keeper.lane.claim(1)).leases
    keeper.take([lease])
    began = asyncio.Event()

    async def endless():
        began.set()
        await asyncio.Event().wait()
        return Done()

    working = asyncio.create_task(keeper.work(lease, endless()))
    await began.wait()
    keeper.abandon()
    await asyncio.wait_for(working, 10)
    stats = await keeper.lane.stats()
    assert (stats.leased, stats.ready) == (1, 0)


async def test_a_process_that_hears_no_notifications_works_without_them(keeper, monkeypatch):
    monkeypatch.setattr(consumers, "DEAF", 0)
    monkeypatch.setattr("scheduler.queue.PATIENCE", 0)

    async def handle(claim, keeper):
        await keeper.settle_all([(lease, Done()) for lease in claim.leases])

    consumer = Consumer(keeper, handle, _nobody, batch=4, work=1.0)
    await keeper.lane.mark([KEY])
    sweeping = asyncio.create_task(consumer.sweep_forever(0.01))

    async def done():
        stats = await keeper.lane.stats()
        return (stats.ready, stats.leased) == (0, 0)

    await eventually(done)
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    await consumer.close(0.0)
