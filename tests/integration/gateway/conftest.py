"""A running gateway."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from tests.support.gateway_rig import GatewayRig, gateway_rig


@pytest.fixture
async def rig(redis_url: str, real_redis: Redis) -> AsyncIterator[GatewayRig]:
    async with gateway_rig(redis_url, real_redis) as rig:
        yield rig
