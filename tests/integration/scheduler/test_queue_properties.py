"""The keyed work queue keeps its invariants through any sequence of calls (real server)."""

from hypothesis.stateful import run_state_machine_as_test

from tests.unit.scheduler.machine import on_server
from tests.unit.scheduler.test_queue_properties import SETTINGS


def test_the_queue_does_what_its_model_says_whatever_is_called(redis_server: str) -> None:
    run_state_machine_as_test(on_server(redis_server), settings=SETTINGS)
