"""Leases that a thread renews: they outlast a busy event loop, and end with one that stands still for good."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import redis as blocking
import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.conditions import eventually
from workers.runtime import leases
from workers.runtime.leases import LeaseKeeper, LeaseLost

KEYS = Keys("test")
KEY = "jobs.batch/default/crunch"
LEASE = 2.0


def beside(url: str) -> Callable[[], AbstractAsyncContextManager[Lane]]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Lane]:
        async with redis.Redis.from_url(url) as client:
            yield Lane(client, "reconcile", KEYS, lease=LEASE)

    return opened


async def notify(_notifications: Mapping[str, int]) -> None:
    """Nobody listens."""


@pytest.fixture
async def lane(real_redis: redis.Redis) -> Lane:
    lane = Lane(real_redis, "reconcile", KEYS, lease=LEASE)
    await lane.open()
    await lane.mark([KEY])
    return lane


async def test_a_lease_outlasts_a_busy_event_loop(redis_url: str, lane: Lane) -> None:
    keeper = LeaseKeeper(lane, notify, lease=LEASE, beside=beside(redis_url))
    [lease] = (await lane.claim(1)).leases
    keeper.take([lease])
    name = f"{lane.keys.tag}:lane:reconcile:leases"
    with blocking.Redis.from_url(redis_url) as client:
        first = client.zscore(name, KEY)
        # This loop stands still until the lease was renewed past its first end.
        while float(client.zscore(name, KEY)) < float(first) + LEASE * 1e6:
            pass
    keeper.check(lease)
    await keeper.close()


async def test_a_lease_ends_when_the_event_loop_stands_still_for_good(
    redis_url: str, lane: Lane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leases, "STALL", -1.0)
    keeper = LeaseKeeper(lane, notify, lease=LEASE, beside=beside(redis_url))
    [lease] = (await lane.claim(1)).leases
    keeper.take([lease])

    async def claimable() -> bool:
        await lane.sweep()
        return (await lane.stats()).ready == 1

    await eventually(claimable)
    with pytest.raises(LeaseLost):
        keeper.check(lease)
    assert "the event loop stands still; its leases are not renewed" in caplog.messages
    await keeper.close()


async def test_a_loop_that_turns_is_seen_to_turn_however_long_a_lease_is(
    redis_url: str, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "STALL", 0.2)
    keeper = LeaseKeeper(lane, notify, lease=4000.0, beside=beside(redis_url))
    seen: set[float] = set()

    async def turned() -> bool:
        seen.add(keeper._turn)
        return len(seen) > 2

    await eventually(turned)
    await keeper.close()
