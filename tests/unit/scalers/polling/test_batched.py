"""Reading one server: the second attempt, and what becomes of failures."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import pytest
from pydantic import SecretStr

from penstock.connections import Connections
from penstock.scaler import Measure, Scaler, SourceError, parameter
from scalers.polling.batched import LENIENCE, BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.redaction import QUOTE
from scalers.triggers.parse import SourceKey

pytestmark = pytest.mark.virtual_time


class Scripted(Scaler):
    """Answers what the test has written down, one entry per attempt."""

    script: ClassVar[list[list[float | Exception] | Exception]] = []
    clients: ClassVar[list[object]] = []
    asked: ClassVar[list[list[str]]] = []
    name: str = parameter("a")

    metric: ClassVar[str] = "scripted"
    target: ClassVar[float] = 1.0
    server: ClassVar[str] = "the server"

    @classmethod
    async def read(cls, scalers: Sequence["Scripted"], connections: Connections) -> list[float | Exception]:
        async def close(_: object) -> None:
            return None

        async with connections.use("the server", object, close) as client:
            cls.clients.append(client)
        cls.asked.append([scaler.name for scaler in scalers])
        answer = cls.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _blank() -> None:
    Scripted.script, Scripted.clients, Scripted.asked = [], [], []


SCALERS = [Scripted(name="a"), Scripted(name="b")]
SOURCE = SourceKey.of(SCALERS[0], None)


def sources(timeout: float = 5.0) -> BatchedReader:
    return BatchedReader(Connections(), CircuitBreakers(BreakerPolicy(threshold=1)), timeout=timeout)


async def test_values_become_measures() -> None:
    Scripted.script = [[1, 2.5]]
    assert await sources().read(SOURCE, SCALERS, 0) == [Measure(1), Measure(2.5)]


async def test_a_server_that_broke_off_is_asked_once_more_on_a_fresh_connection() -> None:
    Scripted.script = [SourceError("broken off"), [1, 2]]
    assert await sources().read(SOURCE, SCALERS, 0) == [Measure(1), Measure(2)]
    first, second = Scripted.clients
    assert first is not second


async def test_only_what_failed_is_asked_once_more_and_on_the_same_connection() -> None:
    Scripted.script = [[1, SourceError("busy")], [2]]
    assert await sources().read(SOURCE, SCALERS, 0) == [Measure(1), Measure(2)]
    assert Scripted.asked == [["a", "b"], ["b"]]
    first, second = Scripted.clients
    assert first is second


async def test_a_second_attempt_that_fails_whole_takes_nothing_from_what_was_measured() -> None:
    Scripted.script = [[1, SourceError("busy")], SourceError("broken off")]
    assert await sources().read(SOURCE, SCALERS, 0) == [Measure(1), "the server: broken off"]


async def test_a_third_attempt_is_not_made() -> None:
    Scripted.script = [SourceError("broken off"), SourceError("again")]
    assert await sources().read(SOURCE, SCALERS, 0) == ["the server: again"] * 2


async def test_one_failed_measure_does_not_open_the_breaker_of_the_server() -> None:
    Scripted.script = [[1, SourceError("wrong type")], [SourceError("wrong type")], [1, 2]]
    both = sources()
    assert await both.read(SOURCE, SCALERS, 0) == [Measure(1), "the server: wrong type"]
    assert await both.read(SOURCE, SCALERS, 0) == [Measure(1), Measure(2)]


async def test_a_failed_server_is_left_alone() -> None:
    Scripted.script = [SourceError("down"), SourceError("down")]
    both = sources()
    for _ in range(3):
        assert await both.read(SOURCE, SCALERS, 0) == ["the server: down"] * 2
    assert len(Scripted.asked) == 2


async def test_both_attempts_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def hang(*_: object) -> list[float | Exception]:
        nonlocal attempts
        attempts += 1
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Scripted, "read", hang)
    began = asyncio.get_running_loop().time()
    assert await sources(0.01).read(SOURCE, SCALERS, 0) == ["the server: no answer within 0.01 s"] * 2
    assert attempts == 1
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.01 * (1 + LENIENCE))


async def test_a_reason_is_short() -> None:
    Scripted.script = [SourceError("x" * 1000), SourceError("x" * 1000)]
    assert await sources().read(SOURCE, SCALERS, 0) == [f"the server: {'x' * 1000}"[:QUOTE]] * 2


def test_scalers_without_a_server_stand_alone() -> None:
    class Alone(Scripted):
        @property
        def server(self) -> None:  # type: ignore[override]
            return None

    assert SourceKey.of(Alone(), ("u", 0)) != SourceKey.of(Alone(), ("u", 1))
    assert SourceKey.of(SCALERS[0], ("u", 0)) == SourceKey.of(SCALERS[1], ("u", 1))


class Secretive(Scripted):
    password: SecretStr
    address: SecretStr = SecretStr("amqp://broker.example/")


async def test_what_goes_wrong_for_one_tells_nobodys_secret() -> None:
    asking = [
        Secretive(password=SecretStr("hush-one")),
        Secretive(password=SecretStr("hush-two"), address=SecretStr("amqp://u:a%2Fb@broker.example/")),
    ]
    said = "hush-one and hush-two of amqp://broker.example/ with a/b or a%2Fb"
    Secretive.script = [SourceError(said), SourceError(said)]
    answers = await sources().read(SourceKey.of(asking[0], None), asking, 0)
    assert answers == ["the server: *** and *** of amqp://broker.example/ with *** or ***"] * 2


async def test_polls_that_wait_for_one_server_side_by_side_see_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> list[float | Exception]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Scripted, "read", hang)
    asked = BatchedReader(Connections(), CircuitBreakers(BreakerPolicy(threshold=2)), timeout=0.05)
    # As claims that go on by themselves: each began a little later than the one before.
    await asyncio.gather(*(asked.read(SOURCE, SCALERS, 1000 * number) for number in range(20)))
    assert asked.open_breaker(SOURCE) is None
    await asked.read(SOURCE, SCALERS, 1_000_000)
    breaker = asked.open_breaker(SOURCE)
    assert breaker is not None
    assert breaker.failures == 2
    assert breaker.until >= 1_000_000 + 50_000 + 1_000_000, "from when it failed, not from when it was asked"


async def test_who_is_asked_alone_uses_the_same_connections() -> None:
    connections, used = Connections(), []

    class Alone(Scaler):
        """Asks for itself."""

        metric: ClassVar[str] = "alone"
        target: ClassVar[float] = 1.0
        server: ClassVar[str] = "the server"

        async def answer(self, connections: Connections) -> float:
            used.append(connections)
            return 1.0

    alone = BatchedReader(connections, CircuitBreakers(BreakerPolicy()), timeout=5.0)
    assert await alone.read(SourceKey.of(Alone(), None), [Alone()], 0) == [Measure(1)]
    assert used == [connections]
