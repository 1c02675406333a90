"""A question that is never answered is unknown by itself: what else the server was asked has its answers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from aiohttp import web

from penstock.parameters import Trigger
from penstock.scaler import Measure, Scaler
from scalers.polling.batched import BatchedReader
from scalers.sources.http.metrics_api import MetricsAPI
from scalers.triggers.parse import SourceKey
from tests.integration.scalers.servers import reading
from tests.support.servers import answering
from tests.support.tables import cases

#: Seconds that one answer may take here.
PATIENCE = 0.5

FIVE = Measure(5.0)


@pytest.fixture
async def sources() -> AsyncIterator[BatchedReader]:
    async with reading(PATIENCE, threshold=1, base=3600) as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, list[str]]]:
    """Answers at /fast, refuses at /broken, answers never at /slow; its URL, and the paths it was asked for."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/slow":
            await asyncio.Event().wait()
        return web.json_response({"v": 5}, status=500 if request.path == "/broken" else 200)

    async with answering(answer) as url:
        yield url, asked


class Waiting(Scaler):
    """Asks nobody: the default way of reading several."""

    slow: bool = False

    metric: ClassVar[str] = "waiting"
    target: ClassVar[float] = 1.0

    async def measure(self) -> float:
        """Five, or nothing for ever."""
        if self.slow:
            await asyncio.Event().wait()
        return 5.0


def probe(url: str, path: str) -> Any:
    return MetricsAPI.parse(
        Trigger(0, "t", metadata={"url": f"{url}/{path}", "valueLocation": "v", "targetValue": "1"})
    )


@cases(
    ("one is slow", ["fast", "slow"], [FIVE, "no answer within 0.5 s"], []),
    ("two are", ["slow", "fast", "slow"], ["no answer", FIVE, "no answer"], []),
    (
        "one is slow, and one is refused, which waits for nobody to be asked again",
        ["fast", "broken", "slow"],
        [FIVE, "answered 500", "no answer"],
        ["broken"],
    ),
)
async def test_who_is_slow_is_unknown_alone(
    paths: list[str],
    expected: list[Measure | str],
    twice: list[str],
    sources: BatchedReader,
    server: tuple[str, list[str]],
) -> None:
    url, asked = server
    probes = [probe(url, path) for path in paths]
    answers = await sources.read(SourceKey.of(probes[0], None), probes, 1)
    for answer, wanted in zip(answers, expected, strict=True):
        assert answer == wanted if isinstance(wanted, Measure) else isinstance(answer, str) and wanted in answer
    # The server works: it is asked again.
    assert sources.open_breaker(SourceKey.of(probes[0], None)) is None
    assert sorted(asked) == sorted(f"/{path}" for path in [*paths, *twice])


async def test_a_server_of_which_nothing_is_answered_is_left_alone(
    sources: BatchedReader, server: tuple[str, list[str]]
) -> None:
    probes = [probe(server[0], "slow"), probe(server[0], "slow")]
    answers = await sources.read(SourceKey.of(probes[0], None), probes, 1)
    assert all(isinstance(answer, str) and "no answer within 0.5 s" in answer for answer in answers)
    assert sources.open_breaker(SourceKey.of(probes[0], None)) is not None


async def test_side_by_side_is_so_wherever_a_scaler_says_nothing_else(sources: BatchedReader) -> None:
    probes = [Waiting(), Waiting(slow=True)]
    first, second = await sources.read(SourceKey.of(probes[0], "one"), probes, 1)
    assert first == FIVE
    assert second == "the source: no answer within 0.5 s"
