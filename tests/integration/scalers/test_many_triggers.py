"""An object with very many triggers among a thousand ordinary ones: it is told so, and costs the others nothing."""

import sys
from types import FrameType
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis

from scalers.polling import as_completed
from scalers.sources.http import web as sources_web
from tests.integration.scalers.servers import count_writes
from tests.integration.scalers.world import World, build, redis_trigger, scaled_job
from tests.support.servers import answering
from workers.api.kinds import Object

OTHERS = 1000
#: Packages whose calls are counted: those of libraries differ from version to version.
OURS = ("scalers.", "workers.", "scheduler.", "penstock.")


async def polled(world: World, *more: Object) -> None:
    await world.apply(*more)
    async with world.polling() as polling:
        while (await world.poll.stats()).ready:
            await polling.once()


async def others(client: Redis, port: int) -> World:
    """A thousand objects with one list each, of which every tenth holds work."""
    world = await build(client, lease=60.0)
    await client.rpush("busy", 1, 2, 3)
    await world.apply(
        *(scaled_job(f"other-{n}", redis_trigger(port, "busy" if n % 10 == 0 else f"l{n}")) for n in range(OTHERS))
    )
    return world


async def writes_of(world: World, monkeypatch: pytest.MonkeyPatch, *more: Object) -> int:
    with monkeypatch.context() as patch:
        sent = count_writes(patch)
        await polled(world, *more)
        return len(sent)


async def test_ten_thousand_triggers_in_one_object(
    real_redis: Redis, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = await writes_of(await others(real_redis, port), monkeypatch)
    await real_redis.flushall()
    world = await others(real_redis, port)
    huge = scaled_job("huge", *(redis_trigger(port, "busy", listLength="1") for _ in range(10_000)))
    together = await writes_of(world, monkeypatch, huge)
    reading = await world.reading("huge")
    assert (reading.problem, reading.samples) == ("spec.triggers: there are 10000, at most 1000 are measured", ())
    assert together - alone <= 4, "round trips for one more object"
    for number in range(OTHERS):
        reading = await world.reading(f"other-{number}")
        assert [sample.value for sample in reading.samples] == [3.0 if number % 10 == 0 else 0.0]


async def test_as_many_triggers_as_may_be_are_one_more_question(
    real_redis: Redis, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await build(real_redis, lease=60.0)
    await real_redis.rpush("busy", 1, 2, 3)
    full = scaled_job("full", *(redis_trigger(port, f"l{n}" if n else "busy") for n in range(1000)))
    few = scaled_job("few", redis_trigger(port, "busy"))
    one = await writes_of(world, monkeypatch, few)
    assert await writes_of(world, monkeypatch, full) <= one, "its triggers are asked together"
    reading = await world.reading("full")
    assert [sample.value for sample in reading.samples] == [3.0, *[0.0] * 999]


class CountedCalls:
    """Calls of our own functions while open."""

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> "CountedCalls":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        self.calls += event == "call" and frame.f_globals.get("__name__", "").startswith(OURS)


async def test_a_poll_of_many_unchanged_objects_makes_few_round_trips_and_calls(
    real_redis: Redis, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a poll costs, counted: round trips of a claim, and calls of our own functions for each object."""
    world = await build(real_redis, lease=60.0)
    names = [f"l{number}" for number in range(200)]
    await world.apply(*(scaled_job(name, redis_trigger(port, name)) for name in names))
    async with world.polling() as polling:
        await polling.once()
        await world.deciding()
        sent = count_writes(monkeypatch)
        with CountedCalls() as counted:
            claim = await polling.again(*names)
    assert len(claim.leases) == len(names)
    assert len(sent) <= 8
    assert counted.calls / len(names) <= 110


async def test_a_poll_that_asks_a_question_of_its_own_makes_few_calls(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def five(request: web.BaseRequest) -> web.Response:
        asked.append(request.query["query"])
        result = [{"metric": {}, "value": [1, "5"]}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    asked: list[str] = []
    monkeypatch.setattr(sources_web, "SHARED", 0.0)
    # How many polls are concluded together depends on the time that answers take, and is not counted here.
    monkeypatch.setattr(as_completed, "GATHER", 60.0)
    world = await build(real_redis, lease=60.0)
    names = [f"l{number}" for number in range(100)]
    async with answering(five) as address:
        await world.apply(*(scaled_job(name, _prometheus(address, name)) for name in names))
        async with world.polling() as polling:
            await polling.once()
            await world.deciding()
            asked.clear()
            with CountedCalls() as counted:
                await polling.again(*names)
    assert sorted(asked) == sorted(names)
    assert counted.calls / len(names) <= 240


def _prometheus(address: str, query: str) -> Object:
    return {"type": "prometheus", "metadata": {"serverAddress": address, "query": query, "threshold": "1"}}
