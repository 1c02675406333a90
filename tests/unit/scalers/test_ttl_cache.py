"""Answers that are remembered for a short while."""

import asyncio

import pytest

from scalers.ttl_cache import TTLCache


class Oracle:
    """Answers with how often it was asked, when it is let."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self.let = asyncio.Event()
        self.let.set()
        self.error: Exception | None = None
        self.now = 0.0

    async def __call__(self) -> int:
        self.asked += 1
        answer = self.asked
        await self.let.wait()
        if self.error:
            raise self.error
        self.answered += 1
        return answer


@pytest.fixture
def oracle() -> Oracle:
    return Oracle()


@pytest.fixture
def recent(oracle: Oracle) -> TTLCache:
    return TTLCache(seconds=10, limit=3, clock=lambda: oracle.now)


async def test_an_answer_is_remembered_until_it_is_old(oracle: Oracle, recent: TTLCache) -> None:
    assert [await recent.get("a", oracle), await recent.get("a", oracle)] == [1, 1]
    oracle.now = 9.9
    assert await recent.get("a", oracle) == 1
    oracle.now = 10.0
    assert await recent.get("a", oracle) == 2


async def test_an_answer_may_say_how_long_it_lasts(oracle: Oracle, recent: TTLCache) -> None:
    await recent.get("a", oracle, seconds=lambda answer: 100.0 * answer)
    oracle.now = 99.0
    assert await recent.get("a", oracle) == 1
    oracle.now = 100.0
    assert await recent.get("a", oracle) == 2


async def test_who_needs_a_later_answer_asks_again_and_others_share_it(oracle: Oracle, recent: TTLCache) -> None:
    await recent.get("a", oracle)
    oracle.now = 5.0
    assert await recent.get("a", oracle, since=1.0) == 2
    assert await recent.get("a", oracle, since=4.0) == 2


async def test_many_who_ask_at_once_ask_once(oracle: Oracle, recent: TTLCache) -> None:
    assert await asyncio.gather(*(recent.get("a", oracle) for _ in range(50))) == [1] * 50


async def test_one_who_gives_up_takes_nothing_from_the_others(oracle: Oracle, recent: TTLCache) -> None:
    oracle.let.clear()
    first, second = (asyncio.create_task(recent.get("a", oracle)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    oracle.let.set()
    assert await second == 1
    assert first.cancelled()


async def test_the_last_who_gives_up_ends_the_question_where_that_is_wanted(oracle: Oracle, recent: TTLCache) -> None:
    for cache, ended in ((recent, 1), (TTLCache(seconds=10, limit=3, abandon=True), 0)):
        oracle.asked = oracle.answered = 0
        oracle.let.clear()
        waiting = [asyncio.create_task(cache.get("a", oracle)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        await asyncio.sleep(0)
        waiting.pop().cancel()
        await asyncio.sleep(0)
        again = asyncio.create_task(cache.get("a", oracle))
        oracle.let.set()
        assert await again == 2 - ended, "where it ended, later callers do not join it"
        assert (oracle.asked, oracle.answered) == (2 - ended, 1)


async def test_answers_that_are_old_are_not_kept(oracle: Oracle, recent: TTLCache) -> None:
    for oracle.now in (0.0, 3.0, 13.0):
        await recent.get(oracle.now, oracle)
    assert list(recent._answers) == [13.0]


async def test_a_question_outlives_its_time_while_it_is_open(oracle: Oracle, recent: TTLCache) -> None:
    oracle.let.clear()
    early = asyncio.create_task(recent.get("a", oracle))
    await asyncio.sleep(0)
    oracle.now = 11.0
    late = asyncio.create_task(recent.get("a", oracle))
    await asyncio.sleep(0)
    oracle.let.set()
    assert await early == await late == 1


async def test_other_questions_are_asked_by_themselves(oracle: Oracle, recent: TTLCache) -> None:
    assert await asyncio.gather(recent.get("a", oracle), recent.get("b", oracle)) == [1, 2]


async def test_a_question_that_is_open_too_early_is_not_shared(oracle: Oracle, recent: TTLCache) -> None:
    oracle.let.clear()
    early = asyncio.create_task(recent.get("a", oracle))
    await asyncio.sleep(0)
    oracle.now = 2.0
    late = asyncio.create_task(recent.get("a", oracle, since=1.0))
    await asyncio.sleep(0)
    oracle.let.set()
    assert (await early, await late) == (1, 2)
    assert await recent.get("a", oracle) == 2


async def test_a_late_answer_to_an_early_question_replaces_nothing(oracle: Oracle, recent: TTLCache) -> None:
    oracle.let.clear()
    early = asyncio.create_task(recent.get("a", oracle))
    await asyncio.sleep(0)
    oracle.now = 2.0

    async def quick() -> int:
        return 7

    assert await recent.get("a", quick, since=1.0) == 7
    oracle.let.set()
    assert await early == 1
    assert await recent.get("a", oracle) == 7


async def test_a_failure_is_told_to_all_and_not_remembered(oracle: Oracle, recent: TTLCache) -> None:
    oracle.error = ValueError("no")
    failures = await asyncio.gather(*(recent.get("a", oracle) for _ in range(2)), return_exceptions=True)
    assert [str(failure) for failure in failures] == ["no", "no"]
    assert oracle.asked == 1
    oracle.error = None
    assert await recent.get("a", oracle) == 2


async def test_no_answer_is_not_remembered(recent: TTLCache) -> None:
    asked = []

    async def nothing() -> None:
        asked.append(1)

    await recent.get("a", nothing)
    await recent.get("a", nothing)
    assert len(asked) == 2


async def test_only_so_many_are_remembered(oracle: Oracle, recent: TTLCache) -> None:
    for key in "abc":
        await recent.get(key, oracle)
    await recent.get("a", oracle)
    await recent.get("d", oracle)
    assert [await recent.get(key, oracle) for key in "acd"] == [1, 3, 4], "b was unused for longest"
    assert await recent.get("b", oracle) == 5
