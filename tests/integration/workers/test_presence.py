"""Signs of life on a real broker: who gives none is gone, and what is unknown is not gone."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import redis as blocking
import redis.asyncio as redis
from redis.exceptions import ConnectionError

from scheduler.broker import clients
from scheduler.keys import Keys
from tests.support.conditions import eventually
from workers.runtime.presence import Presence

KEYS = Keys("test")


def presence(url: str, client: redis.Redis) -> Presence:
    # A plain client loses a cancellation now and then (`scheduler/broker/clients.py`): the signs of life would not end.
    return Presence(client, lambda: clients.client(url), KEYS, every=0.02, lasts=0.5)


async def test_one_that_ends_is_gone_and_one_that_lives_is_not(redis_url: str, real_redis: redis.Redis) -> None:
    ours, theirs = presence(redis_url, real_redis), presence(redis_url, real_redis)
    async with ours.kept():
        async with theirs.kept():
            await eventually(lambda: real_redis.exists(KEYS.present(theirs.identity)))
            gone = asyncio.create_task(ours.until_gone(theirs.identity))
            # Everything is lost for a moment, and the sign comes back.
            await real_redis.flushall()
            await eventually(lambda: real_redis.exists(KEYS.present(theirs.identity)))
            assert not gone.done()
        await asyncio.wait_for(gone, 30)


async def test_it_looks_for_others_only_while_their_end_is_waited_for(redis_url: str, real_redis: redis.Redis) -> None:
    ours = presence(redis_url, real_redis)
    await real_redis.config_resetstat()

    async def commands() -> dict[str, int]:
        found = await real_redis.info("commandstats")
        return {name.removeprefix("cmdstat_"): each["calls"] for name, each in found.items()}

    async with ours.kept():
        await eventually(lambda: _at_least(commands, "set", 5))
        assert "mget" not in await commands()
        waiting = asyncio.create_task(ours.until_gone(ours.identity))
        await eventually(lambda: _at_least(commands, "mget", 2))
        waiting.cancel()


async def _at_least(commands: Callable[[], Awaitable[dict[str, int]]], name: str, calls: int) -> bool:
    return (await commands()).get(name, 0) >= calls


async def test_a_busy_event_loop_gives_signs_of_life(redis_url: str, real_redis: redis.Redis) -> None:
    ours = presence(redis_url, real_redis)
    with blocking.Redis.from_url(redis_url) as client:
        async with ours.kept():
            await eventually(lambda: real_redis.exists(KEYS.present(ours.identity)))
            client.delete(KEYS.present(ours.identity))
            # This loop stands still here.
            while not client.exists(KEYS.present(ours.identity)):
                pass


async def test_nobody_is_gone_while_the_broker_does_not_answer(
    redis_url: str, real_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def away(*_: object) -> None:
        nonlocal looks
        looks += 1
        raise ConnectionError("away")

    ours = presence(redis_url, real_redis)
    async with ours.kept():
        with monkeypatch.context() as broken:
            broken.setattr(real_redis, "mget", away)
            gone = asyncio.create_task(ours.until_gone("dead"))
            await eventually(lambda: looks > 5)
            assert not gone.done()
        await asyncio.wait_for(gone, 30)
