"""Submissions of many callers, carried out in batches."""

import asyncio

import pytest

from workers.client.request_limiter import Priority, context_of, requests
from workers.runtime.batcher import Batcher


async def test_what_arrives_while_a_batch_is_on_its_way_forms_the_next_batch():
    batches = []
    gate = asyncio.Event()

    async def carry(items):
        batches.append(list(items))
        await gate.wait()
        return [item * 10 for item in items]

    batcher = Batcher(carry)
    first = [asyncio.create_task(batcher.submit(item)) for item in (1, 2)]
    while not batches:
        await asyncio.sleep(0)
    later = [asyncio.create_task(batcher.submit(item)) for item in (3, 4, 5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*first, *later) == [10, 20, 30, 40, 50]
    assert batches == [[1, 2], [3, 4, 5]]


async def test_a_batch_has_the_context_of_none_who_submitted_to_it():
    async def carry(items):
        return [context_of("GET").priority for _ in items]

    with requests(Priority.START):
        assert await Batcher(carry).submit(1) == Priority.READ


async def test_a_batch_is_never_larger_than_the_limit():
    sizes = []

    async def carry(items):
        sizes.append(len(items))
        return items

    batcher = Batcher(carry, limit=2)
    await asyncio.gather(*(batcher.submit(item) for item in range(5)))
    assert sizes == [2, 2, 1]


async def test_a_failed_batch_fails_its_own_callers_only():
    async def carry(items):
        if "bad" in items:
            raise ValueError("refused")
        return items

    batcher = Batcher(carry, limit=1)
    bad, good = await asyncio.gather(batcher.submit("bad"), batcher.submit("good"), return_exceptions=True)
    assert isinstance(bad, ValueError)
    assert good == "good"


async def test_closing_waits_for_what_was_submitted():
    done = []

    async def carry(items):
        await asyncio.sleep(0)
        done.extend(items)
        return items

    batcher = Batcher(carry)
    submitted = asyncio.create_task(batcher.submit("last"))
    await asyncio.sleep(0)
    await batcher.close()
    assert done == ["last"]
    assert await submitted == "last"


async def test_a_caller_that_gave_up_does_not_break_the_batch():
    async def carry(items):
        await asyncio.sleep(0)
        return items

    batcher = Batcher(carry)
    leaving = asyncio.create_task(batcher.submit("leaving"))
    staying = asyncio.create_task(batcher.submit("staying"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == "staying"
    with pytest.raises(asyncio.CancelledError):
        await leaving
