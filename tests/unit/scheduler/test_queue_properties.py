"""The keyed work queue keeps its invariants through any sequence of calls (in-memory server)."""

import fakeredis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.asyncio import Redis

from tests.unit.scheduler.machine import QueueMachine

SETTINGS = settings(
    max_examples=60, stateful_step_count=50, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


class OnFakeServer(QueueMachine):
    async def connect(self) -> Redis:
        return fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,))


def test_the_queue_equals_its_model_after_any_sequence_of_calls() -> None:
    run_state_machine_as_test(OnFakeServer, settings=SETTINGS)
