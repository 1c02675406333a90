"""What a process's garbage collector looks at once the process is ready."""

import gc
from collections.abc import Iterator

import pytest

from workers.runtime import garbage_collection


@pytest.fixture
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    # What the process has frozen stays so, with what other tests have left (tests/conftest.py).
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collector")
def test_what_is_there_is_left_alone_and_what_comes_is_looked_at_seldom() -> None:
    stays, there = [[number] for number in range(5000)], gc.get_freeze_count()
    garbage_collection.begin()
    assert gc.get_freeze_count() > there + len(stays)
    before = gc.get_stats()[0]["collections"]
    kept = [[number] for number in range(garbage_collection.YOUNG // 2)]
    assert gc.get_stats()[0]["collections"] == before
    kept += [[number] for number in range(garbage_collection.YOUNG)]
    assert gc.get_stats()[0]["collections"] > before
    assert kept
