"""Polls side by side: each is handed out when it is complete, and nothing that fails is lost."""

import asyncio
from typing import Any

import pytest

from scalers.polling.as_completed import GATHER, PollRound

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def work() -> Any:
    work = PollRound()
    yield work
    await work.close()


async def test_complete_polls_are_handed_out_while_others_go_on(work: PollRound) -> None:
    polls: list[Any] = ["first", "second"]
    go_on = asyncio.Event()

    async def one_by_one() -> None:
        work.complete(polls[0])
        await go_on.wait()
        work.complete(polls[1])

    work.start(one_by_one())
    found = []
    async for complete in work.completed():
        found.append(complete)
        go_on.set()
    assert found == [["first"], ["second"]]


async def test_polls_that_are_complete_soon_after_one_another_are_handed_out_together(work: PollRound) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def take(poll: Any, seconds: float) -> None:
        await asyncio.sleep(seconds)
        work.complete(poll)

    for poll, seconds in (("a", 1.0), ("b", 1.0 + GATHER / 2), ("c", 1.0 + 3 * GATHER), ("d", 9.0)):
        work.start(take(poll, seconds))
    found = [(complete, loop.time() - began) async for complete in work.completed()]
    # Nothing is waited for once all work has ended.
    assert found == [(["a", "b"], 1.0 + GATHER), (["c"], pytest.approx(1.0 + 4 * GATHER)), (["d"], 9.0)]


async def fail() -> None:
    raise ValueError("nobody foresaw this")


async def test_an_error_is_raised_while_others_go_on(work: PollRound) -> None:
    async def for_ever() -> None:
        await asyncio.Event().wait()

    work.start(for_ever())
    work.start(fail())
    with pytest.raises(ValueError, match="nobody foresaw this"):
        _ = [polls async for polls in work.completed()]


async def test_an_error_of_the_last_one_is_raised_though_it_comes_while_polls_are_concluded(work: PollRound) -> None:
    poll: Any = "complete"

    async def complete() -> None:
        work.complete(poll)

    work.start(complete())
    completed = work.completed()
    assert await anext(completed) == ["complete"]
    work.start(fail())
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(ValueError, match="nobody foresaw this"):
        await anext(completed)


async def test_what_goes_on_ends_with_the_round() -> None:
    work, ended = PollRound(), []

    async def for_ever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    work.start(for_ever("work"))
    work.start_background(for_ever("aside"))
    await asyncio.sleep(0)
    await work.close()
    assert sorted(ended) == ["aside", "work"]
