"""The keyed work queue keeps its invariants through any sequence of calls (real server)."""

from typing import ClassVar

from hypothesis.stateful import run_state_machine_as_test
from redis.asyncio import Redis

from tests.unit.scheduler.machine import QueueMachine
from tests.unit.scheduler.test_queue_properties import SETTINGS


def test_the_queue_does_what_its_model_says_whatever_is_called(redis_server: str) -> None:
    class OnRealServer(QueueMachine):
        url: ClassVar[str] = redis_server

        async def connect(self) -> Redis:
            client: Redis = Redis.from_url(self.url)
            await client.flushall()
            return client

    run_state_machine_as_test(OnRealServer, settings=SETTINGS)
