"""EventJobs on a real server: the one in memory has no digests in Lua."""

import pytest
import redis.asyncio as redis

from tests.support.event_jobs import PolledEventJob


@pytest.fixture
def client(real_redis: redis.Redis) -> redis.Redis:
    return real_redis


@pytest.fixture
def job(client: redis.Redis) -> PolledEventJob:
    return PolledEventJob(client)
