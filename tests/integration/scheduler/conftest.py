"""The broker that beats share."""

from collections.abc import Iterator

import pytest
import redis


@pytest.fixture
def broker(redis_server: str) -> Iterator[redis.Redis]:
    """A synchronous client of the real server, which is empty before and after the test."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
        yield client
        client.flushall()
