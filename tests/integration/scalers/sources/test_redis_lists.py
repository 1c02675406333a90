"""KEDA's `redis` trigger on a real server."""

from collections.abc import AsyncIterator, Sequence

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.sources.redis.lists import RedisLists
from tests.integration.scalers.servers import commands, count_writes, refusing, rejected, work_list
from tests.support.tables import cases


@pytest.fixture
async def user(real_redis: Redis) -> AsyncIterator[str]:
    """A user with a password, who may do everything but run scripts."""
    await real_redis.config_resetstat()
    await real_redis.execute_command("ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "+@all", "-eval", "-evalsha")
    yield "reader"
    await real_redis.execute_command("ACL", "DELUSER", "reader")


async def fill(client: Redis) -> None:
    await client.rpush("list", 1, 2, 3)
    await client.zadd("zset", {"a": 1, "b": 2})
    await client.sadd("set", 1)
    await client.hset("hash", mapping={"a": 1, "b": 2, "c": 3, "d": 4})
    await client.set("string", "x")
    await client.xadd("stream", {"a": 1})


KINDS = ["list", "zset", "set", "hash", "none", "string", "stream"]
LENGTHS = [3.0, 2.0, 1.0, 4.0, 0.0]


def assert_lengths(answers: Sequence[object]) -> None:
    assert list(answers[:5]) == LENGTHS
    for name, answer in zip(KINDS[5:], answers[5:], strict=True):
        assert isinstance(answer, SourceError)
        assert f": {name}: WRONGTYPE" in str(answer)


async def test_a_length_is_counted_by_the_type_of_its_key(
    real_redis: Redis, port: int, connections: Connections
) -> None:
    await fill(real_redis)
    assert_lengths(await RedisLists.read([work_list(port, name) for name in KINDS], connections))


async def test_a_server_that_refuses_scripts_is_asked_by_commands(
    real_redis: Redis, port: int, connections: Connections, user: str
) -> None:
    await fill(real_redis)
    scalers = [work_list(port, name, username=user, password="s3cret") for name in KINDS]
    assert_lengths(await RedisLists.read(scalers, connections))
    before, tried = await commands(real_redis), await rejected(real_redis, "eval")
    assert_lengths(await RedisLists.read(scalers, connections))
    after = await commands(real_redis)
    assert (tried, await rejected(real_redis, "eval")) == (1, 1), "scripts are not tried again"
    assert after["type"] - before["type"] == len(KINDS)


async def test_a_list_the_user_may_not_read_says_nothing_about_the_others(
    real_redis: Redis, port: int, connections: Connections
) -> None:
    await fill(real_redis)
    await real_redis.execute_command("ACL", "SETUSER", "narrow", "on", ">s3cret", "~list", "~set", "+@all")
    try:
        names = ["hash", "list", "set"]
        scalers = [work_list(port, name, username="narrow", password="s3cret") for name in names]
        forbidden, *allowed = await RedisLists.read(scalers, connections)
    finally:
        await real_redis.execute_command("ACL", "DELUSER", "narrow")
    assert allowed == [3.0, 1.0]
    assert isinstance(forbidden, SourceError)
    assert "hash" in str(forbidden)


async def test_a_thousand_lists_are_one_round_trip(
    real_redis: Redis, port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_redis.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.rpush(f"list{number}", *range(number % 7 + 1))
        await pipeline.execute()
    scalers = [work_list(port, f"list{number}") for number in range(1000)]
    await RedisLists.read(scalers[:1], connections)
    sent = count_writes(monkeypatch)
    before = await commands(real_redis)
    sent.clear()
    answers = await RedisLists.read(scalers, connections)
    assert len(sent) == 1, "one pipeline, sent at once"
    after = await commands(real_redis)
    assert answers == [float(number % 7 + 1) for number in range(1000)]
    assert (after["eval"] - before["eval"], after["evalsha"] - before.get("evalsha", 0)) == (0, 2), "500 a call"
    assert after.get("hello", 0) == before.get("hello", 0), "no new connection either"


async def test_two_objects_on_one_list_ask_for_it_once(real_redis: Redis, port: int, connections: Connections) -> None:
    await real_redis.rpush("work", 1, 2)
    same = work_list(port), work_list(port, listLength="9")
    before = await commands(real_redis)
    assert await RedisLists.read(same, connections) == [2.0, 2.0]
    after = await commands(real_redis)
    assert after["llen"] - before.get("llen", 0) == 1


async def test_the_database_is_chosen(real_redis: Redis, port: int, connections: Connections) -> None:
    async with Redis(port=port, db=3) as other:
        await other.rpush("work", 1, 2)
    assert await RedisLists.read([work_list(port, databaseIndex="3")], connections) == [2.0]
    assert await RedisLists.read([work_list(port)], connections) == [0.0]


@cases(
    ("wrong password", {"username": "reader", "password": "hunter2"}, "login refused"),
    ("no such database", {"databaseIndex": "9999"}, "out of range"),
)
async def test_a_server_that_refuses_is_an_error_without_secrets(
    metadata: dict[str, str], complaint: str, real_redis: Redis, port: int, connections: Connections, user: str
) -> None:
    with pytest.raises(SourceError, match=complaint) as caught:
        await RedisLists.read([work_list(port, **metadata)], connections)
    assert str(caught.value).startswith(f"127.0.0.1:{port}/")
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_server_that_is_not_there_is_an_error(connections: Connections) -> None:
    with pytest.raises(SourceError, match=r"refused|Connect call failed"):
        await RedisLists.read([work_list(refusing())], connections)


def test_no_text_of_a_scaler_or_server_shows_the_password() -> None:
    scaler = work_list(1, password="hunter2")
    client = scaler.server.client()
    assert "hunter2" not in f"{scaler} {scaler!r} {scaler.server} {scaler.server!r} {client!r}"
