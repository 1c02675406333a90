"""The guard against data of a newer release."""

import asyncio

import pytest
from redis.exceptions import ConnectionError

from penstock._broker_format import FORMAT, FormatRefused
from scheduler.keys import Keys
from tests.support.conditions import eventually
from workers.runtime.format_guard import FormatGuard

KEYS = Keys("test")


@pytest.fixture
def ended():
    return asyncio.Event()


@pytest.fixture
async def guard(fake_redis, ended):
    guard = FormatGuard(fake_redis, KEYS, end=ended.set, every=0.01, soon=0.01)
    watching = asyncio.create_task(guard.watch())
    yield guard
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_process_does_not_begin_on_data_of_a_newer_release(guard, fake_redis):
    await fake_redis.set(KEYS.format, FORMAT + 1)
    with pytest.raises(FormatRefused):
        await guard.begin()


async def test_a_process_ends_when_the_format_is_raised_under_it(guard, fake_redis, ended, caplog):
    await guard.begin()
    assert not ended.is_set()
    guard.tell()
    await fake_redis.set(KEYS.format, FORMAT + 1)
    await asyncio.wait_for(ended.wait(), 10)
    with pytest.raises(FormatRefused):
        guard.tell()
    [said] = [record.error for record in caplog.records if record.message == "this process ends"]
    assert f"has format {FORMAT + 1}" in said


async def test_a_broker_that_lost_its_data_gets_the_format_again(guard, fake_redis, ended):
    await guard.begin()
    await fake_redis.flushall()

    async def written() -> bool:
        return await fake_redis.get(KEYS.format) == str(FORMAT).encode()

    await eventually(written)
    assert not ended.is_set()


async def test_a_broker_that_is_away_at_first_is_checked_when_it_is_back(guard, fake_redis, ended, monkeypatch):
    async def away(*_, **__):
        raise ConnectionError("away")

    await fake_redis.set(KEYS.format, FORMAT + 1)
    with monkeypatch.context() as broken:
        broken.setattr(fake_redis, "evalsha", away)
        await guard.begin()
    await asyncio.wait_for(ended.wait(), 10)
