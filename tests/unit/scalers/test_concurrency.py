"""Questions at the same time: all answers in order, or the first failure and nothing that goes on."""

import asyncio

import pytest

from penstock.errors import SourceError
from scalers.concurrency import side_by_side

pytestmark = pytest.mark.virtual_time


async def test_answers_come_in_the_order_of_the_questions() -> None:
    first = asyncio.Event()

    async def late() -> str:
        await first.wait()
        return "late"

    async def early() -> str:
        first.set()
        return "early"

    assert await side_by_side([late(), early()]) == ["late", "early"]
    assert await side_by_side(iter(())) == []


async def test_when_one_fails_none_of_the_others_goes_on() -> None:
    ended = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hangs")

    async def fail() -> None:
        raise SourceError("refused")

    with pytest.raises(SourceError, match="refused"):
        await side_by_side([hang(), fail(), hang()])
    assert ended == ["hangs", "hangs"]


async def test_who_is_cancelled_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    asking = asyncio.create_task(side_by_side([asyncio.Event().wait(), asyncio.Event().wait()]))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert asyncio.all_tasks() == before


async def test_who_asks_again_after_a_failure_is_still_timed_out_and_not_cancelled() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise SourceError("refused")

    async def hang() -> None:
        await asyncio.Event().wait()

    async def ask_twice() -> None:
        try:
            await side_by_side([fail()])
        except SourceError:
            await side_by_side([hang()])

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask_twice(), 0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await ask_twice()
