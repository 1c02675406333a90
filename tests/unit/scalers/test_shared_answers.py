"""Answers that callers share: an open question is asked once, its answer is kept for a while, a failure is not."""

import asyncio

import pytest

from scalers.shared_answers import SharedAnswers

pytestmark = pytest.mark.virtual_time


class Server:
    """Answers how often it was asked, after a while. fails: raises instead."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.asked = self.ended = 0
        self.fails = False

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await asyncio.sleep(self.seconds)
        self.ended += 1
        if self.fails:
            raise ValueError("no")
        return number


def shared(**more: float) -> SharedAnswers[int]:
    return SharedAnswers(seconds=2.0, clock=asyncio.get_running_loop().time, **more)


async def test_equal_questions_side_by_side_are_asked_once() -> None:
    answers, server = shared(), Server()
    assert await asyncio.gather(*(answers.get("a", server) for _ in range(5))) == [1] * 5
    assert server.asked == 1


async def test_other_questions_are_asked_by_themselves() -> None:
    answers, server = shared(), Server()
    assert sorted(await asyncio.gather(answers.get("a", server), answers.get("b", server))) == [1, 2]


async def test_an_answer_is_kept_from_its_asking_on() -> None:
    answers, server = shared(), Server()
    assert await answers.get("a", server) == 1
    await asyncio.sleep(0.9)
    assert await answers.get("a", server) == 1
    await asyncio.sleep(0.2)
    assert await answers.get("a", server) == 2


async def test_an_answer_that_is_out_of_date_is_not_kept_for_longer() -> None:
    answers, server = shared(), Server()
    for number in range(5):
        await answers.get(number, server)
        await asyncio.sleep(3)
    assert len(answers._asked) == 1


async def test_a_failure_is_that_of_all_who_waited_and_is_not_kept() -> None:
    answers, server = shared(), Server()
    server.fails = True
    found = await asyncio.gather(*(answers.get("a", server) for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in found] == ["no"] * 3
    server.fails = False
    assert await answers.get("a", server) == 2


async def test_a_caller_that_gives_up_leaves_the_answer_to_the_others() -> None:
    answers, server = shared(), Server()
    waiting = [asyncio.create_task(answers.get("a", server)) for _ in range(2)]
    await asyncio.sleep(0.5)
    waiting[0].cancel()
    assert await waiting[1] == 1


async def test_the_last_caller_that_gives_up_ends_the_question() -> None:
    answers, server = shared(), Server()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await answers.get("a", server)
    await asyncio.sleep(1.0)
    assert (server.asked, server.ended) == (1, 0)
    assert await answers.get("a", server) == 2, "and nobody joins it later"


async def test_a_question_outlives_its_time_while_it_is_open() -> None:
    answers, server = shared(), Server(seconds=5.0)
    first = asyncio.create_task(answers.get("a", server))
    await asyncio.sleep(4.0)
    assert await answers.get("a", server) == await first == 1


async def test_the_oldest_answer_gives_way() -> None:
    answers, server = shared(limit=2), Server(seconds=0.1)
    for key in ("a", "b", "c", "b", "a"):
        await answers.get(key, server)
    assert server.asked == 4
