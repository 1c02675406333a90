"""Notifications: one command each way, in the form in which Celery publishes and takes messages."""

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio as redis
from celery import Celery

from tests.support.redis_calls import commands_of
from workers.app import configuration
from workers.lanes import LANES, queue_key
from workers.runtime.notifier import Notifier
from workers.settings import Settings

TASK, QUEUE = LANES["poll"]


@pytest.fixture
def app(redis_url: str) -> Iterator[Celery]:
    app = Celery("notifications", set_as_current=False)
    app.config_from_object(configuration(Settings(broker=redis_url)))
    yield app
    app.close()


@pytest.fixture
def notifier(real_redis: redis.Redis) -> Notifier:
    return Notifier(real_redis, "penstock")


async def messages(client: redis.Redis) -> list[Any]:
    return [json.loads(text) for text in await client.lrange(queue_key("penstock", "poll"), 0, -1)]


def ids(message: Any) -> set[str]:
    """Returns the ids of a message, and takes them out of it."""
    headers, properties = message["headers"], message["properties"]
    return {
        *(headers.pop(name) for name in ("id", "root_id")),
        *(properties.pop(name) for name in ("correlation_id", "delivery_tag")),
    }


async def test_a_message_is_as_celery_publishes_it_with_ids_of_its_own(
    app: Celery, notifier: Notifier, real_redis: redis.Redis
) -> None:
    app.send_task(TASK, queue=QUEUE, ignore_result=True)
    await notifier.notify({"poll": 2})

    *ours, theirs = await messages(real_redis)

    found = [ids(message) for message in (*ours, theirs)]
    assert len(set.union(*found[:2])) == 2
    # Nothing replies to a notification.
    del theirs["properties"]["reply_to"]
    for message in (*ours, theirs):
        message["body"] = json.loads(base64.b64decode(message["body"]))
    assert ours == [theirs, theirs]


async def test_all_notifications_of_a_lane_are_one_command_and_take_no_thread(
    notifier: Notifier, real_redis: redis.Redis
) -> None:
    threads = threading.active_count()
    async with commands_of(real_redis) as commands:
        await notifier.notify({"poll": 3, "reconcile": 0})
    assert commands == {"lpush": 1}
    assert threading.active_count() == threads
    assert len(await messages(real_redis)) == 3


async def test_a_worker_takes_a_message_with_one_command_and_acknowledges_it_with_none(
    app: Celery, notifier: Notifier, real_redis: redis.Redis
) -> None:
    taken: list[Any] = []

    def take(_: Any, message: Any) -> None:
        message.ack()
        taken.append(message.headers["task"])

    app.amqp.queues.select([QUEUE])
    with app.connection_for_read() as connection, app.amqp.TaskConsumer(connection, callbacks=[take]):
        await notifier.notify({"poll": 1})
        async with commands_of(real_redis) as commands:
            connection.drain_events(timeout=10)
    assert taken == [TASK]
    assert commands == {"brpop": 1}


async def test_a_worker_that_ends_puts_nothing_back(app: Celery, notifier: Notifier, real_redis: redis.Redis) -> None:
    """The sweep replaces what it had; without the broker there would be no place for it but a file."""
    app.amqp.queues.select([QUEUE])
    taken: list[Any] = []
    with (
        app.connection_for_read() as connection,
        app.amqp.TaskConsumer(connection, callbacks=[lambda _, message: taken.append(message)]),
    ):
        await notifier.notify({"poll": 1})
        connection.drain_events(timeout=10)
    assert len(taken) == 1
    assert await messages(real_redis) == []


async def test_a_broker_that_is_away_drops_notifications() -> None:
    async with redis.Redis.from_url("redis://127.0.0.1:1", retry=None) as away:
        await Notifier(away, "penstock").notify({"poll": 1})
