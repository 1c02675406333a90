"""A process that knows the children of an object, once more on a real server, whose scripts and streams are its own."""

import pytest
import redis.asyncio as redis_async

from tests.unit.workers.cache.test_observed_heads import (
    Stores,
    answers,
    beginning,
    crowd,
    test_all_children_are_read_where_the_log_does_not_tell,
    test_as_many_children_of_an_owner_that_was_made_again_are_not_taken_for_those_of_the_first,
    test_of_many_children_only_those_that_changed_are_sent,
    test_of_what_was_kept_only_the_head_is_sent,
    test_the_log_keeps_the_newest_entries_only,
)

__all__ = [
    "answers",
    "crowd",
    "test_all_children_are_read_where_the_log_does_not_tell",
    "test_as_many_children_of_an_owner_that_was_made_again_are_not_taken_for_those_of_the_first",
    "test_of_many_children_only_those_that_changed_are_sent",
    "test_of_what_was_kept_only_the_head_is_sent",
    "test_the_log_keeps_the_newest_entries_only",
]


@pytest.fixture
async def stores(real_redis: redis_async.Redis) -> Stores:
    """In place of those on a server in memory."""
    return await beginning(Stores(1 << 20, real_redis))
