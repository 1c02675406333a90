"""Everything the store promises, once more on a real server."""

import pytest
import redis.asyncio as redis_async

from tests.unit.workers.cache.test_store import *  # noqa: F403
from tests.unit.workers.cache.test_store import StoreRig
from tests.unit.workers.cache.test_store_references import *  # noqa: F403


@pytest.fixture  # type: ignore[no-redef]
async def rig(real_redis: redis_async.Redis) -> StoreRig:
    """In place of the rig on a server in memory, which the tests bring along."""
    return StoreRig(real_redis)
