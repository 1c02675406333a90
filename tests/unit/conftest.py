"""Tests that are marked ``virtual_time`` run on a loop whose clock jumps."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.support.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": VirtualTimeLoop if item.get_closest_marker("virtual_time") else asyncio.new_event_loop}
