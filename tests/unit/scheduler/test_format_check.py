"""The format of the broker's data as processes meet it: adopted, refused, and raised while they run."""

import pytest

from penstock._broker_format import FORMAT, RESTORING, FormatRefused
from scheduler.format_check import check_format
from scheduler.keys import Keys
from tests.support.tables import for_each

KEYS = Keys("test")
NEWER = FORMAT + 1


async def test_data_without_a_format_gets_ours(fake_redis):
    await check_format(fake_redis, KEYS)
    assert await fake_redis.get(KEYS.format) == str(FORMAT).encode()
    await check_format(fake_redis, KEYS)


@for_each(0, 1, 2)
async def test_data_of_an_earlier_format_get_ours(found, fake_redis):
    await fake_redis.set(KEYS.format, found)
    await check_format(fake_redis, KEYS)
    assert await fake_redis.get(KEYS.format) == str(FORMAT).encode()


@for_each(NEWER, NEWER + 9, "red")
async def test_another_format_is_refused_and_stays(found, fake_redis):
    await fake_redis.set(KEYS.format, found)
    with pytest.raises(FormatRefused, match=f"has format {found}; this release reads 0, 1, 2 and {FORMAT}"):
        await check_format(fake_redis, KEYS)
    assert await fake_redis.get(KEYS.format) == str(found).encode()


async def test_a_format_of_a_wrong_type_is_set_aside(fake_redis):
    await fake_redis.hset(KEYS.format, "a", 1)
    await check_format(fake_redis, KEYS)
    assert await fake_redis.get(KEYS.format) == str(FORMAT).encode()


@for_each(NEWER, "red", RESTORING)
async def test_no_key_is_claimed_once_the_format_is_newer(found, lane, fake_redis):
    await lane.mark(["jobs.batch/default/a"])
    await fake_redis.set(KEYS.format, found)
    before = {key: await fake_redis.dump(key) for key in await fake_redis.keys()}
    with pytest.raises(FormatRefused):
        await lane.claim(1, notified=True)
    assert {key: await fake_redis.dump(key) for key in await fake_redis.keys()} == before


@for_each(None, 0, 1, 2, FORMAT)
async def test_keys_of_a_readable_format_are_claimed(found, lane, fake_redis):
    await lane.mark(["jobs.batch/default/a"])
    await (fake_redis.set(KEYS.format, found) if found is not None else fake_redis.delete(KEYS.format))
    assert len((await lane.claim(1)).leases) == 1
