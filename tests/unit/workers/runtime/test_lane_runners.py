"""Notifications within a process: which slots they find, and what other processes get of them."""

import asyncio

import pytest
from redis.exceptions import ConnectionError

from tests.support.conditions import eventually
from tests.support.tables import for_each
from workers.client.request_limiter import Priority, RequestContext, context_of, requests
from workers.lanes import queue_key
from workers.runtime.lane_runners import InProcessNotifier, LaneRunner, take_messages


class Consumer:
    """Runs until it is let go, and counts."""

    def __init__(self):
        self.go_on = asyncio.Event()
        self.running = self.most = self.done = 0
        self.error = None
        self.context = None

    async def consume(self):
        self.context = context_of("GET")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go_on.wait()
            if self.error:
                raise self.error
            self.done += 1
        finally:
            self.running -= 1

    async def close(self, grace):
        """Has nothing in the background."""


@pytest.fixture
def consumer():
    return Consumer()


@pytest.fixture
async def runner(consumer):
    runner = LaneRunner("reconcile", consumer, slots=2)
    yield runner
    await runner.stop(0.0)


class Others:
    def __init__(self):
        self.sent = []

    async def __call__(self, notifications):
        self.sent.append(dict(notifications))


async def test_what_finds_no_free_slot_is_offered_to_other_processes(runner, consumer):
    others = Others()
    notifier = InProcessNotifier(others)
    notifier.add(runner)
    await notifier.notify({"reconcile": 1, "poll": 0})
    await eventually(lambda: consumer.running == 1)
    assert others.sent == []
    await notifier.notify({"reconcile": 3, "poll": 2})
    assert others.sent == [{"reconcile": 2, "poll": 2}]
    await eventually(lambda: consumer.running == 2)
    consumer.go_on.set()
    await eventually(lambda: consumer.done == 2 and runner.free == 2)


async def test_a_consumer_that_the_work_on_a_key_starts_inherits_neither_its_fence_nor_its_priority(runner, consumer):
    def lost():
        raise AssertionError("the lease of another key ran out")

    notifier = InProcessNotifier(Others())
    notifier.add(runner)
    with requests(Priority.START, lost):
        await notifier.notify({"reconcile": 1})
    await eventually(lambda: consumer.running == 1)
    assert consumer.context == RequestContext(Priority.READ)


@for_each(ConnectionError("away"), ValueError("a defect"))
async def test_a_consumer_that_fails_frees_its_slot(error, runner, consumer):
    consumer.error = error
    consumer.go_on.set()
    assert runner.start(1) == 0
    await eventually(lambda: runner.free == 2)
    consumer.error = None
    assert runner.start(1) == 0
    await eventually(lambda: consumer.done == 1)


async def test_a_message_of_another_process_starts_a_consumer(fake_redis, runner, consumer):
    consumer.go_on.set()
    taking = asyncio.create_task(take_messages(fake_redis, "test", [runner]))
    await fake_redis.lpush(queue_key("test", "reconcile"), b"{}", b"not even JSON")
    await eventually(lambda: consumer.done == 2)
    assert not await fake_redis.exists(queue_key("test", "reconcile"))
    taking.cancel()


async def test_without_a_free_slot_messages_are_left_to_other_processes(fake_redis, runner, consumer):
    assert runner.start(2) == 0
    taking = asyncio.create_task(take_messages(fake_redis, "test", [runner]))
    await fake_redis.lpush(queue_key("test", "reconcile"), b"{}")
    for _ in range(20):
        await asyncio.sleep(0)
    assert await fake_redis.llen(queue_key("test", "reconcile")) == 1
    consumer.go_on.set()
    await eventually(lambda: consumer.done == 3)
    assert consumer.most == 2
    taking.cancel()


async def test_a_stop_waits_for_what_runs_and_starts_nothing_more(runner, consumer):
    runner.start(1)
    await eventually(lambda: consumer.running == 1)
    stopping = asyncio.create_task(runner.stop(60.0))
    await asyncio.sleep(0)
    assert runner.start(1) == 1
    consumer.go_on.set()
    await stopping
    assert consumer.done == 1


async def test_a_stop_ends_what_takes_longer_than_its_grace(runner, consumer):
    runner.start(1)
    await eventually(lambda: consumer.running == 1)
    await runner.stop(0.01)
    assert (consumer.running, consumer.done) == (0, 0)
