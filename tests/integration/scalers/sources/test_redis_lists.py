"""KEDA's `redis` trigger on a real server."""

from collections.abc import AsyncIterator, Sequence

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.parameters import SettingsError, Trigger
from penstock.scaler import SourceError
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.lists import RedisLists
from scalers.sources.tls import TLS
from tests.integration.scalers.servers import commands, count_writes, port_of, refusing, rejected, work_list


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    connections = Connections()
    yield connections
    await connections.close()


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
    real_redis: Redis, redis_url: str, connections: Connections
) -> None:
    await fill(real_redis)
    assert_lengths(await RedisLists.read([work_list(port_of(redis_url), name) for name in KINDS], connections))


async def test_a_server_that_refuses_scripts_is_asked_by_commands(
    real_redis: Redis, redis_url: str, connections: Connections, user: str
) -> None:
    await fill(real_redis)
    scalers = [work_list(port_of(redis_url), name, username=user, password="s3cret") for name in KINDS]
    assert_lengths(await RedisLists.read(scalers, connections))
    before, tried = await commands(real_redis), await rejected(real_redis, "eval")
    assert_lengths(await RedisLists.read(scalers, connections))
    after = await commands(real_redis)
    assert (tried, await rejected(real_redis, "eval")) == (1, 1), "scripts are not tried again"
    assert after["type"] - before["type"] == len(KINDS)


async def test_a_list_the_user_may_not_read_says_nothing_about_the_others(
    real_redis: Redis, redis_url: str, connections: Connections
) -> None:
    await fill(real_redis)
    await real_redis.execute_command("ACL", "SETUSER", "narrow", "on", ">s3cret", "~list", "~set", "+@all")
    try:
        names = ["hash", "list", "set"]
        scalers = [work_list(port_of(redis_url), name, username="narrow", password="s3cret") for name in names]
        forbidden, *allowed = await RedisLists.read(scalers, connections)
    finally:
        await real_redis.execute_command("ACL", "DELUSER", "narrow")
    assert allowed == [3.0, 1.0]
    assert isinstance(forbidden, SourceError)
    assert "hash" in str(forbidden)


async def test_a_thousand_lists_are_one_round_trip(
    real_redis: Redis, redis_url: str, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_redis.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.rpush(f"list{number}", *range(number % 7 + 1))
        await pipeline.execute()
    scalers = [work_list(port_of(redis_url), f"list{number}") for number in range(1000)]
    await RedisLists.read(scalers[:1], connections)
    sent = count_writes(monkeypatch)
    before = await commands(real_redis)
    sent.clear()
    answers = await RedisLists.read(scalers, connections)
    assert len(sent) == 1, "one pipeline, sent at once"
    after = await commands(real_redis)
    assert answers == [float(number % 7 + 1) for number in range(1000)]
    assert (after["eval"] - before["eval"], after["evalsha"] - before.get("evalsha", 0)) == (1, 999)
    assert after.get("hello", 0) == before.get("hello", 0), "no new connection either"


async def test_two_objects_on_one_list_ask_for_it_once(
    real_redis: Redis, redis_url: str, connections: Connections
) -> None:
    await real_redis.rpush("work", 1, 2)
    same = work_list(port_of(redis_url)), work_list(port_of(redis_url), listLength="9")
    before = await commands(real_redis)
    assert await RedisLists.read(same, connections) == [2.0, 2.0]
    after = await commands(real_redis)
    assert after["llen"] - before.get("llen", 0) == 1


async def test_the_database_is_chosen(real_redis: Redis, redis_url: str, connections: Connections) -> None:
    async with Redis(port=port_of(redis_url), db=3) as other:
        await other.rpush("work", 1, 2)
    assert await RedisLists.read([work_list(port_of(redis_url), databaseIndex="3")], connections) == [2.0]
    assert await RedisLists.read([work_list(port_of(redis_url))], connections) == [0.0]


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        pytest.param({"username": "reader", "password": "hunter2"}, "login refused", id="wrong password"),
        pytest.param({"databaseIndex": "9999"}, "out of range", id="no such database"),
    ],
)
async def test_a_server_that_refuses_is_an_error_without_secrets(
    real_redis: Redis,
    redis_url: str,
    connections: Connections,
    user: str,
    metadata: dict[str, str],
    complaint: str,
) -> None:
    with pytest.raises(SourceError, match=complaint) as caught:
        await RedisLists.read([work_list(port_of(redis_url), **metadata)], connections)
    assert str(caught.value).startswith(f"127.0.0.1:{port_of(redis_url)}/")
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_server_that_is_not_there_is_an_error(connections: Connections) -> None:
    with pytest.raises(SourceError, match=r"refused|Connect call failed"):
        await RedisLists.read([work_list(refusing())], connections)


def parse(**metadata: str) -> RedisLists:
    return RedisLists.parse(Trigger(1, "redis", metadata={"listName": "work", **metadata}))


@pytest.mark.parametrize(
    ("metadata", "server"),
    [
        pytest.param({"address": "a:1"}, RedisServer("a", 1), id="address"),
        pytest.param({"address": "a:1, b:2"}, RedisServer("a", 1), id="the first of several"),
        pytest.param({"addresses": "a:1"}, RedisServer("a", 1), id="its plural"),
        pytest.param({"host": "h", "port": "6379"}, RedisServer("h", 6379), id="host and port"),
        pytest.param({"host": "h", "port": "2", "address": "a:1"}, RedisServer("a", 1), id="address before host"),
        pytest.param({"address": "[::1]:6379"}, RedisServer("::1", 6379), id="IPv6 address"),
        pytest.param({"host": "::1", "port": "6379"}, RedisServer("::1", 6379), id="IPv6 host"),
        pytest.param(
            {"address": "a:1", "username": "u", "password": "p", "databaseIndex": "4"},
            RedisServer("a", 1, 4, "u", "p"),
            id="login and database",
        ),
        pytest.param(
            {"address": "a:1", "enableTLS": "true", "unsafeSsl": "true"},
            RedisServer("a", 1, tls=TLS(verify=False)),
            id="TLS without checks",
        ),
    ],
)
def test_where_the_server_is(metadata: dict[str, str], server: RedisServer) -> None:
    assert parse(**metadata).server == server


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        pytest.param({}, "address: is required, or host and port", id="no address"),
        pytest.param({"address": "redis.example"}, "address: must be host:port", id="no port"),
        pytest.param({"address": "a:many"}, "address: must be host:port", id="port is no number"),
        pytest.param({"address": "a:70000"}, "address: must be host:port", id="port too high"),
        pytest.param({"host": "h"}, "host: as many hosts as ports", id="host without port"),
        pytest.param({"address": "a:1", "listLength": "many"}, "listLength: must be a whole number", id="length"),
        pytest.param({"address": "a:1", "listLength": "-1"}, "listLength: input should be greater", id="negative"),
        pytest.param({"address": "a:1", "enableTLS": "yes"}, "enableTLS: must be true or false", id="TLS"),
        pytest.param({"address": "a:1", "listName": ""}, "listName: is required", id="no list"),
        pytest.param({"address": "a:1", "listLenght": "5"}, "did you mean listLength", id="misspelled"),
    ],
)
def test_wrong_settings_name_the_trigger_and_the_parameter(metadata: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=rf"trigger 1 \(redis\): .*{complaint}"):
        parse(**metadata)


def test_host_password_and_user_may_come_from_the_environment() -> None:
    names = {"hostFromEnv": "H", "portFromEnv": "P", "passwordFromEnv": "W", "usernameFromEnv": "U"}
    trigger = Trigger(
        0,
        "redis",
        metadata={"listName": "work", **names},
        environment={"H": "h", "P": "1", "W": "s3cret", "U": "u"},
    )
    assert RedisLists.parse(trigger).server == RedisServer("h", 1, 0, "u", "s3cret")


def test_the_numbers_of_a_trigger() -> None:
    scaler = parse(address="a:1", listLength="20", activationListLength="3")
    assert (scaler.metric, scaler.target, scaler.activation, scaler.watched) == ("redis-work", 20, 3, ("work",))
    assert (parse(address="a:1").target, parse(address="a:1").activation) == (5, 0)


def test_no_text_of_a_scaler_or_server_shows_the_password() -> None:
    scaler = parse(address="a:1", password="hunter2")
    client = scaler.server.client()
    assert "hunter2" not in f"{scaler} {scaler!r} {scaler.server} {scaler.server!r} {client!r}"
