"""Everything the mirror promises, once more on a real server."""

import pytest
import redis.asyncio as redis_async

from tests.unit.workers.cache.test_store import *  # noqa: F403
from tests.unit.workers.cache.test_store import World
from tests.unit.workers.cache.test_store_references import *  # noqa: F403


@pytest.fixture
async def world(real_redis: redis_async.Redis) -> World:
    return World(real_redis)
