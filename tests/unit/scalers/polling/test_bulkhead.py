"""Whose turn it is: never more than the limit, fair among owners, and slow questions never have all turns."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalers.polling.bulkhead import AnswerHistory, AnswerOutcome, Bulkhead, BulkheadFull
from tests.support.tables import cases

pytestmark = pytest.mark.virtual_time

ANSWERED, NEW, SLOW = AnswerOutcome


class Server:
    """Asked with turns; nothing is answered until it is told to. log: whose turn it was."""

    def __init__(self, limit: int) -> None:
        self.bulkhead = Bulkhead(limit)
        self.log: list[str] = []
        self.under_way: list[tuple[str, AnswerOutcome, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, owner: str, outcome: AnswerOutcome = ANSWERED) -> asyncio.Task[None]:
        async def question() -> None:
            async with self.bulkhead.slot(owner, outcome):
                self.log.append(owner)
                entry = (owner, outcome, asyncio.Event())
                self.under_way.append(entry)
                try:
                    await entry[2].wait()
                finally:
                    self.under_way.remove(entry)

        self.tasks.append(task := asyncio.create_task(question()))
        await settle()
        return task

    async def answer(self, place: int = 0) -> None:
        self.under_way[place][2].set()
        await settle()

    async def finish(self) -> None:
        while self.under_way:
            await self.answer()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def number(self, outcome: AnswerOutcome) -> int:
        return sum(each == outcome for _, each, _ in self.under_way)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@cases(
    ("answered ones may have all turns", 8, [ANSWERED] * 20, {ANSWERED: 8}),
    ("new ones leave some", 8, [NEW] * 20, {NEW: 6}),
    ("slow ones leave half", 8, [SLOW] * 20, {SLOW: 4}),
    ("slow and new ones leave some together", 8, [SLOW] * 20 + [NEW] * 20, {SLOW: 4, NEW: 2}),
    ("in either order", 8, [NEW] * 20 + [SLOW] * 20, {NEW: 6}),
    ("all of them", 8, [SLOW, NEW] * 9 + [ANSWERED] * 9, {SLOW: 3, NEW: 3, ANSWERED: 2}),
    ("the fewest turns", 2, [SLOW] * 9 + [ANSWERED] * 9, {SLOW: 1, ANSWERED: 1}),
)
async def test_how_many_are_under_way(
    limit: int, outcomes: list[AnswerOutcome], under_way: dict[AnswerOutcome, int]
) -> None:
    server = Server(limit)
    for place, outcome in enumerate(outcomes):
        await server.ask(f"{place}", outcome)
    assert {each: server.number(each) for each in AnswerOutcome if server.number(each)} == under_way
    await server.finish()
    assert len(server.log) == len(outcomes)
    assert server.bulkhead.idle


async def test_one_that_asks_much_waits_for_those_that_ask_little() -> None:
    server = Server(1)
    for owner in ["greedy"] * 5 + ["a", "b"]:
        await server.ask(owner)
    await server.finish()
    assert server.log == ["greedy", "greedy", "a", "b", "greedy", "greedy", "greedy"]


async def test_slow_ones_get_their_turn_however_many_others_wait() -> None:
    server = Server(2)
    for place in range(6):
        await server.ask(f"{place}")
    await server.ask("slow", SLOW)
    await server.answer()
    await server.answer()
    assert "slow" in server.log
    await server.finish()


async def test_a_turn_that_does_not_come_in_time_is_none() -> None:
    server = Server(1)
    await server.ask("first")
    with pytest.raises(BulkheadFull):
        async with server.bulkhead.slot("late", SLOW, within=0.001):
            raise AssertionError
    await server.ask("last")
    await server.finish()
    assert server.log == ["first", "last"]
    assert server.bulkhead.idle


async def test_who_gives_up_waiting_loses_nobody_a_turn() -> None:
    server = Server(1)
    await server.ask("first")
    given_up = await server.ask("given up")
    await server.ask("last")
    given_up.cancel()
    await settle()
    await server.answer()
    assert server.log == ["first", "last"]
    await server.finish()
    assert server.bulkhead.idle


async def test_who_gives_up_in_the_moment_of_its_turn_passes_it_on() -> None:
    server = Server(1)
    await server.ask("first")
    given_up = await server.ask("given up")
    await server.ask("last")
    server.under_way[0][2].set()
    # Its turn has come once the first one is through, and it has not run since.
    while not server.bulkhead._in_use[ANSWERED] or server.under_way:
        await asyncio.sleep(0)
    given_up.cancel()
    await settle()
    assert server.log == ["first", "last"]
    await server.finish()
    assert server.bulkhead.idle


@given(
    limit=st.integers(2, 9),
    steps=st.lists(st.one_of(st.tuples(st.sampled_from("abc"), st.sampled_from(AnswerOutcome)), st.integers(0, 9))),
)
def test_the_limits_hold_and_everybody_has_a_turn(limit: int, steps: list[tuple[str, AnswerOutcome] | int]) -> None:
    async def run() -> None:
        server = Server(limit)
        for step in steps:
            if isinstance(step, tuple):
                await server.ask(*step)
            elif server.under_way:
                await server.answer(step % len(server.under_way))
            assert len(server.under_way) <= limit
            assert server.number(SLOW) <= max(1, limit // 2)
            assert server.number(SLOW) + server.number(NEW) < limit
        asked = sum(isinstance(step, tuple) for step in steps)
        await server.finish()
        assert len(server.log) == asked
        assert server.bulkhead.idle

    asyncio.run(run())


def test_what_was_not_asked_for_the_longest_time_is_new_again() -> None:
    history = AnswerHistory(limit=2)
    for asker, outcome in (("a", ANSWERED), ("b", SLOW), ("a", SLOW), ("c", ANSWERED)):
        history.record("server", asker, outcome)
    assert [history.outcome("server", asker) for asker in "abc"] == [SLOW, NEW, ANSWERED]
    assert history.outcome("another", "c") == NEW


def test_whether_a_server_answers_anybody() -> None:
    history = AnswerHistory(limit=2)
    assert not history.answers_any("server")
    history.record("server", "a", ANSWERED)
    history.record("server", "a", ANSWERED)
    assert history.answers_any("server")
    history.record("server", "a", SLOW)
    assert not history.answers_any("server")
    history.record("server", "b", ANSWERED)
    for asker in "cd":
        history.record("another", asker, SLOW)
    assert not history.answers_any("server"), "it is forgotten"
