"""What a slow question costs: itself, and its server only if that answers nobody."""

import asyncio
from typing import Any, ClassVar

import pytest

from penstock.connections import Connections
from penstock.scaler import Scaler, SourceError, Unreached, parameter
from scalers.polling.batched import BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.triggers.parse import SourceKey

pytestmark = pytest.mark.virtual_time

SECOND = 1_000_000


class Asked(Scaler):
    """Answers five, or as the test says: by name, what is done each time, the last one for ever."""

    script: ClassVar[dict[str, list[Any]]] = {}
    log: ClassVar[list[str]] = []
    name: str = parameter()

    metric: ClassVar[str] = "asked"
    target: ClassVar[float] = 1.0
    server: ClassVar[str] = "the server"

    @property
    def patience(self) -> float | None:
        return 0.5 if self.name.startswith("patient") else None

    async def answer(self, connections: Connections) -> float:
        self.log.append(self.name)
        # As over a network: everybody else who may ask does so meanwhile.
        for _ in range(5):
            await asyncio.sleep(0)
        told = self.script.get(self.name, [5])
        step = told.pop(0) if len(told) > 1 else told[0]
        if step == "slow":
            await asyncio.Event().wait()
        if isinstance(step, Exception):
            raise step
        return float(step)


SOURCE = SourceKey.of(Asked(name="a"), None)


@pytest.fixture(autouse=True)
def _blank() -> None:
    Asked.script, Asked.log = {}, []


class Asking:
    """Polls of questions, one a second by the clock that they are told."""

    def __init__(self, **policy: Any) -> None:
        self.sources = BatchedReader(Connections(), CircuitBreakers(BreakerPolicy(**policy)), timeout=0.1)
        self.now = 0

    async def poll(self, *names: str) -> list[str]:
        """What was said of each; "5" is an answer."""
        self.now += SECOND
        scalers = [Asked(name=name) for name in names]
        answers = await self.sources.read(SOURCE, scalers, self.now, [(name, 0) for name in names])
        return [answer if isinstance(answer, str) else f"{answer.value:g}" for answer in answers]

    def alone(self, name: str) -> bool:
        return self.sources.open_breaker(SOURCE, (name, 0)) is not None


SLOW = "the server: no answer within 0.1 s"


async def test_a_question_that_stays_slow_is_left_alone_and_its_server_is_not() -> None:
    Asked.script["slow"] = ["slow"]
    asking = Asking(threshold=3, base=3600)
    assert await asking.poll("quick") == ["5"]
    for _ in range(6):
        assert await asking.poll("slow") == [SLOW]
    assert Asked.log.count("slow") == 3
    assert asking.alone("slow")
    assert not asking.alone("quick")
    assert await asking.poll("quick") == ["5"]


async def test_a_question_that_is_left_alone_is_asked_again_in_time_and_may_be_quick_then() -> None:
    Asked.script["slow"] = ["slow", 7]
    asking = Asking(threshold=1, base=1.5)
    assert await asking.poll("quick", "slow") == ["5", SLOW]
    assert await asking.poll("slow") == [SLOW]
    assert Asked.log.count("slow") == 1
    assert await asking.poll("slow") == ["7"]
    assert not asking.alone("slow")


async def test_a_server_that_stops_answering_is_left_alone() -> None:
    asking = Asking(threshold=3, base=3600)
    names = ("a", "b", "c", "d")
    assert await asking.poll(*names) == ["5"] * 4
    Asked.script = {name: ["slow"] for name in names}
    for name in names[:3]:
        assert await asking.poll(name) == [SLOW]
    Asked.log.clear()
    assert await asking.poll("d") == [SLOW], "in the words of the last one that was asked"
    assert not Asked.log


async def test_what_was_too_slow_waits_for_a_turn_no_longer_than_for_an_answer() -> None:
    names = [f"{number}" for number in range(40)]
    Asked.script = {name: ["slow"] for name in names}
    asking = Asking(threshold=99)
    assert await asking.poll("quick", *names) == ["5", *[SLOW] * 40]
    Asked.log.clear()
    # Four at a time, for one turn's time or two: the others would be asked after ten.
    assert await asking.poll("quick", *names) == ["5", *[SLOW] * 40]
    assert 4 <= len(Asked.log) - 1 <= 12


async def test_those_that_wait_for_a_turn_while_it_is_given_up_are_not_asked() -> None:
    asking = Asking(threshold=1, base=3600)
    names = [f"{number}" for number in range(40)]
    assert await asking.poll(*names) == ["5"] * 40
    Asked.script, Asked.log[:] = {name: ["slow"] for name in names}, []
    assert await asking.poll(*names) == [SLOW] * 40
    assert len(Asked.log) == 8


async def test_a_server_that_cannot_be_reached_is_left_alone_for_everybody() -> None:
    Asked.script["a"] = [Unreached("the server: refused")]
    asking = Asking(threshold=3, base=3600)
    assert await asking.poll("b") == ["5"]
    for _ in range(3):
        assert await asking.poll("a") == ["the server: refused"]
    assert Asked.log.count("a") == 6, "twice each time"
    assert await asking.poll("b") == ["the server: refused"]
    assert asking.alone("b")


async def test_one_tries_a_server_that_was_left_alone_and_when_it_answers_all_are_asked() -> None:
    names = [f"{number}" for number in range(20)]
    Asked.script = {name: [Unreached("the server: refused")] for name in names}
    asking = Asking(threshold=1, base=1.5)
    await asking.poll(*names)
    Asked.log.clear()
    assert await asking.poll(*names) == ["the server: refused"] * 20
    assert Asked.log == []
    asking.now += SECOND
    assert await asking.poll(*names) == ["the server: refused"] * 20
    assert Asked.log == ["0", "0"], "one tries, twice"
    Asked.script, asking.now = {}, asking.now + 3 * SECOND
    assert await asking.poll(*names) == ["5"] * 20


async def test_what_fails_in_one_moment_is_one_failure() -> None:
    names = [f"{number}" for number in range(4)]
    Asked.script = {name: [Unreached("the server: refused")] for name in names}
    asking = Asking(threshold=2, base=3600)
    await asking.poll(*names)
    assert not asking.alone("0")
    await asking.poll(*names)
    assert asking.alone("0")


async def test_a_slow_question_of_a_server_that_refuses_by_now_says_so_at_each_poll() -> None:
    Asked.script["a"] = ["slow", "slow", Unreached("the server: refused")]
    asking = Asking(threshold=2, base=1.5, probe=3.5)
    assert await asking.poll("quick") == ["5"]
    assert [await asking.poll("a") for _ in range(3)] == [[SLOW]] * 3
    assert [await asking.poll("a") for _ in range(6)] == [["the server: refused"]] * 6


async def test_a_question_that_is_refused_blames_nobody_else() -> None:
    Asked.script["wrong"] = [SourceError("the server: syntax")]
    asking = Asking(threshold=1)
    assert await asking.poll("wrong") == ["the server: syntax"]
    assert not asking.alone("wrong")


async def test_a_second_attempt_has_what_is_left_of_the_time_and_else_the_first_reason_holds() -> None:
    Asked.script["a"] = [SourceError("the server: busy"), "slow"]
    assert await Asking().poll("a") == ["the server: busy"]
    assert Asked.log == ["a", "a"]


async def test_each_is_told_when_it_is_answered_and_not_when_all_are() -> None:
    Asked.script["slow"] = ["slow"]
    asking, told = Asking(), asyncio.Queue[int]()
    asking.sources = BatchedReader(Connections(), CircuitBreakers(BreakerPolicy()), timeout=3600)
    scalers = [Asked(name=name) for name in ("slow", "quick")]
    reading = asyncio.create_task(
        asking.sources.read_each(SOURCE, scalers, 0, lambda place, _: told.put_nowait(place), [("s", 0), ("q", 0)])
    )
    assert await told.get() == 1
    assert not reading.done()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def test_what_gets_no_turn_says_why_though_its_last_failure_is_forgotten() -> None:
    names = ["patient 0", "patient 1", "patient 2", "patient 3", "slow"]
    Asked.script = {name: ["slow"] for name in names}
    asking = Asking(threshold=99)
    await asking.poll("quick", *names)
    asking.sources._single._slow = CircuitBreakers(BreakerPolicy(threshold=99))
    Asked.log.clear()
    assert (await asking.poll(*names))[4] == SLOW
    assert "slow" not in Asked.log
