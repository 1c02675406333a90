"""Everything the store promises, once more on a real server."""

import pytest
import redis.asyncio as redis_async

from tests.unit.workers.cache.test_store import *  # noqa: F403
from tests.unit.workers.cache.test_store import StoreRig
from tests.unit.workers.cache.test_store_references import *  # noqa: F403


@pytest.fixture
async def rig(real_redis: redis_async.Redis) -> StoreRig:
    return StoreRig(real_redis)
