"""KEDA's `redis-streams` trigger on a real server."""

from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.sources.redis.streams import RedisStreams
from tests.integration.scalers.servers import commands, count_writes, work_stream
from tests.support.tables import cases

LENGTH: dict[str, str] = {}
PENDING = {"consumerGroup": "group"}
LAG = {"consumerGroup": "group", "lagCount": "5"}


async def fill(client: Redis, *, group: bool = True) -> None:
    """Ten entries, of which three were given to a consumer, who acknowledged one of them."""
    for number in range(10):
        await client.xadd("work", {"n": number})
    if group:
        await client.xgroup_create("work", "group", id="0")
        await client.xgroup_create("work", "other", id="0")
        [[_, entries]] = await client.xreadgroup("group", "c", {"work": ">"}, count=3)
        await client.xack("work", "group", entries[0][0])


@cases(
    ("length", LENGTH, 10.0),
    ("pending: given and not acknowledged", PENDING, 2.0),
    ("lag: not given yet", LAG, 7.0),
    ("pending of another group", {**PENDING, "consumerGroup": "other"}, 0.0),
    ("lag of another group", {**LAG, "consumerGroup": "other"}, 10.0),
    ("lag of a group that is not there yet", {**LAG, "consumerGroup": "unborn"}, 10.0),
)
async def test_what_waits_is_counted(
    metadata: dict[str, str], count: float, real_redis: Redis, port: int, connections: Connections
) -> None:
    await fill(real_redis)
    assert await RedisStreams.read([work_stream(port, **metadata)], connections) == [count]


@cases(("length", LENGTH, 0.0), ("lag", LAG, 0.0))
async def test_a_stream_that_is_not_there_is_empty(
    metadata: dict[str, str], count: float, real_redis: Redis, port: int, connections: Connections
) -> None:
    assert await RedisStreams.read([work_stream(port, **metadata)], connections) == [count]


async def spoil(client: Redis) -> None:
    """Delete an entry that the group has not got yet: then nobody knows how many are left without counting."""
    await fill(client)
    entries = await client.xrange("work")
    await client.xdel("work", entries[5][0])


@cases(
    ("pending of a stream that is not there", None, PENDING, "NOGROUP"),
    ("pending of a group that is not there", "fill", {"consumerGroup": "unborn"}, "NOGROUP"),
    ("lag unknown", "spoil", LAG, "the server cannot tell the lag of group group"),
    ("length of a list", "list", LENGTH, "WRONGTYPE"),
    ("pending of a list", "list", PENDING, "WRONGTYPE"),
    ("lag of a list", "list", LAG, "WRONGTYPE"),
)
async def test_what_cannot_be_counted_is_unknown(
    before: str | None, metadata: dict[str, str], complaint: str, real_redis: Redis, port: int, connections: Connections
) -> None:
    if before == "list":
        await real_redis.rpush("work", 1)
    elif before:
        await {"fill": fill, "spoil": spoil}[before](real_redis)
    [answer] = await RedisStreams.read([work_stream(port, **metadata)], connections)
    assert isinstance(answer, SourceError)
    assert "work: " in str(answer)
    assert complaint in str(answer)


async def test_an_old_servers_lag_is_refused_in_words() -> None:
    """No such server is at hand: its answer has no member of that name."""
    question: Any = work_stream(1, **LAG).question
    answer = question.answer([[{"name": b"group", "pending": 2}], 10])
    assert str(answer) == "work: lagCount needs Redis 7.0 or newer, or Valkey"


async def test_many_streams_and_modes_are_one_round_trip(
    real_redis: Redis, port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(real_redis)
    scalers = [
        work_stream(port, name, **metadata)
        for name in ("work", "empty")
        for metadata in (LENGTH, LAG)
        for _ in range(100)
    ]
    await RedisStreams.read(scalers[:1], connections)
    sent = count_writes(monkeypatch)
    before = await commands(real_redis)
    sent.clear()
    answers = await RedisStreams.read(scalers, connections)
    assert len(sent) == 1
    after = await commands(real_redis)
    assert answers == [10.0] * 100 + [7.0] * 100 + [0.0] * 200
    assert after["xlen"] - before.get("xlen", 0) == 4, "each question once"


async def test_a_stream_the_user_may_not_read_says_nothing_about_the_others(
    real_redis: Redis, port: int, connections: Connections
) -> None:
    await fill(real_redis)
    await real_redis.execute_command("ACL", "SETUSER", "narrow", "on", ">s3cret", "~work", "+@all")
    try:
        login = {"username": "narrow", "password": "s3cret"}
        asked = [work_stream(port, "secret", **LAG, **login), work_stream(port, **LAG, **login)]
        refused, known = await RedisStreams.read(asked, connections)
    finally:
        await real_redis.execute_command("ACL", "DELUSER", "narrow")
    assert isinstance(refused, SourceError)
    assert known == 7.0


async def test_a_group_whose_name_is_no_text_says_nothing_about_the_others(
    real_redis: Redis, port: int, connections: Connections
) -> None:
    await fill(real_redis)
    await real_redis.xadd("odd", {"n": 1})
    await real_redis.xgroup_create("odd", b"\xff\xfe", id="0")
    asked = [work_stream(port, "odd", **LAG), work_stream(port, **LAG)]
    assert await RedisStreams.read(asked, connections) == [1.0, 7.0]


async def test_an_answer_of_another_form_is_of_its_stream_alone() -> None:
    link = AsyncMock()
    link.run.return_value = [[{"lag": 3}], 3, [{"name": b"group", "lag": 7}], 10]
    odd, known = [work_stream(1, name, **LAG).question for name in ("odd", "work")]
    refused, lag = await RedisStreams.ask(link, [odd, known])
    assert str(refused) == "odd: the answer is not one of a stream"
    assert lag == 7
