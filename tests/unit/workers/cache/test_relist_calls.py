"""What one call of a script does for a relist: a bounded number of objects, however long the list is."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from tests.unit.workers.objects import job
from workers.api.kinds import JOB
from workers.cache import store
from workers.cache.store import ObjectVersion, Store, StoreLost


@pytest.fixture
async def objects_of_calls(fake_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The objects of each call that stores some."""
    sizes: list[int] = []
    call = store._SCRIPTS["apply"].__call__

    async def count(client: Redis, keys: Sequence[str | bytes], args: Sequence[str | bytes | int | float]) -> object:
        # Eight arguments come before those of the objects, which are eleven each (workers/lua/apply.lua).
        objects, rest = divmod(len(args) - 8, 11)
        assert rest == 0
        sizes.append(objects)
        return await call(client, keys, args)

    monkeypatch.setitem(store._SCRIPTS, "apply", count)
    return sizes


async def test_a_relist_stores_few_objects_a_call_and_a_burst_of_changes_more(
    fake_redis: Redis, objects_of_calls: list[int]
) -> None:
    kept = Store(fake_redis, Keys("test"), {})
    changes = [ObjectVersion(job(f"a-{number}", 1)) for number in range(420)]
    await kept.begin(JOB, 1)
    await kept.apply(JOB, changes, epoch=1)
    assert objects_of_calls == [200, 200, 20]
    objects_of_calls.clear()
    listing = await kept.begin(JOB, 1)
    await kept.apply(JOB, changes, listing=listing)
    assert Counter(objects_of_calls) == {50: 8, 20: 1}
    await kept.finish(listing, {"": "1"})
    assert len([entry async for entry in kept.scan(JOB)]) == 420
    assert not await fake_redis.exists(kept.keys.listed(JOB.id))


async def test_calls_that_are_sent_twice_for_a_lost_answer_bury_nothing(
    fake_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Store(fake_redis, Keys("test"), {})
    changes = [ObjectVersion(job(f"a-{number}", 1)) for number in range(3)]
    await kept.begin(JOB, 1)
    await kept.apply(JOB, changes, epoch=1)
    for script in ("begin", "apply", "absent"):
        monkeypatch.setitem(store._SCRIPTS, script, _sent_twice(store._SCRIPTS[script].__call__))
    listing = await kept.begin(JOB, 1)
    await kept.apply(JOB, changes, listing=listing)
    await kept.finish(listing, {"": "1"})
    assert [entry.gone async for entry in kept.scan(JOB)] == [False] * 3


async def test_a_relist_whose_names_are_gone_is_begun_again(fake_redis: Redis) -> None:
    kept = Store(fake_redis, Keys("test"), {})
    listing = await kept.begin(JOB, 1)
    await kept.apply(JOB, [ObjectVersion(job("a", 1))], listing=listing)
    await fake_redis.delete(kept.keys.listed(JOB.id))
    with pytest.raises(StoreLost):
        await kept.finish(listing, {"": "1"})
    assert [entry.gone async for entry in kept.scan(JOB)] == [False]


def _sent_twice(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def twice(client: Redis, keys: Sequence[str | bytes], args: Sequence[str | bytes | int | float]) -> Any:
        await call(client, keys, args)
        return await call(client, keys, args)

    return twice
