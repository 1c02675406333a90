"""A task that waits for the broker ends when it is told to."""

import asyncio
import selectors
import sys
from collections.abc import Awaitable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis.asyncio as redis
import uvloop
from redis.asyncio.connection import AbstractConnection, Connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError

from scheduler.broker import clients, fast_path
from tests.support.conditions import eventually
from tests.support.redis_calls import commands_of
from tests.support.tables import cases, for_each


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancelled_call_is_cancelled_whatever_moment_it_is_in(redis_url: str, turns: int) -> None:
    async with clients.client(redis_url) as client:
        await client.ping()

        async def call_for_ever() -> None:
            while True:
                assert await client.eval("return ARGV[1]", 0, "mine") == b"mine"

        task = asyncio.create_task(call_for_ever())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done, "the cancellation was forgotten"
        assert task.cancelled()
        assert await client.eval("return ARGV[1]", 0, "next") == b"next"


@for_each(asyncio.new_event_loop, uvloop.new_event_loop)
def test_a_connection_that_was_closed_a_moment_before_its_use_is_opened_anew(loop: Any, redis_url: str) -> None:
    async def scenario() -> None:
        async with clients.client(redis_url, max_connections=1, retry=Retry(NoBackoff(), 1)) as client:
            await client.ping()
            pool = client.connection_pool
            usual = pool.get_connection

            async def closed() -> Any:
                connection = await usual()
                if not broken:
                    broken.append(connection)
                    connection._writer.transport.abort()
                    # The transport is closed in the next turn of the loop, before anything is read.
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                return connection

            for ask in (lambda: client.echo("a"), lambda: fast_path.together(client, [("ECHO", "a")])):
                broken: list[Any] = []
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(pool, "get_connection", closed)
                    assert await ask() in (b"a", [b"a"])
                assert broken

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


async def test_a_url_chooses_the_kind_of_connection(redis_url: str) -> None:
    for url, name in (("redis://h", "_Plain"), ("rediss://h", "_Tls")):
        async with clients.client(url) as client:
            assert client.connection_pool.connection_class.__name__ == name


async def test_more_calls_at_once_than_connections_wait_for_their_turn(redis_url: str) -> None:
    async with clients.client(redis_url, max_connections=4) as client:
        assert await asyncio.gather(*(client.echo(str(n)) for n in range(200))) == [str(n).encode() for n in range(200)]


async def test_commands_are_encoded_as_the_library_encodes_them(redis_url: str) -> None:
    command = ("CONFIG GET", "é", b"\xff", 7, 1.5, "a b", "")
    async with clients.client(redis_url) as client:
        connection = client.connection_pool.make_connection()
        assert b"".join(connection.pack_command(*command)) == b"".join(Connection.pack_command(connection, *command))
        with pytest.raises(DataError):
            await client.echo(None)


async def test_a_command_makes_less_than_half_of_redis_py_s_calls(redis_url: str) -> None:
    async with clients.client(redis_url) as ours, redis.from_url(redis_url, protocol=2) as theirs:
        one, other = await _calls(ours), await _calls(theirs)
        assert one < 0.5 * other, (one, other)


async def _calls(client: redis.Redis) -> int:
    """Returns how many functions of Python one command calls beside the event loop, on a connection that is open."""
    await client.ping()
    # Before Python 3.11.3 redis-py takes another package's time-outs for asyncio's.
    timeouts = find_spec("async_timeout")
    loop = (str(Path(asyncio.__file__).parent), selectors.__file__, (timeouts and timeouts.origin) or "no file")
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and not frame.f_code.co_filename.startswith(loop)

    sys.setprofile(count)
    try:
        await client.execute_command("EVAL", "return 1", 0)
    finally:
        sys.setprofile(None)
    return calls


async def test_a_long_command_waits_until_the_socket_takes_it(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    send = Connection.send_packed_command

    async def slow(self: Connection, command: list[bytes], check_health: bool = True) -> None:
        waited.append(sum(map(len, command)))
        await send(self, command, check_health)

    async with clients.client(redis_url) as client:
        await client.ping()
        monkeypatch.setattr(Connection, "send_packed_command", slow)
        assert await client.echo("short") == b"short"
        assert not waited
        assert await client.echo("x" * fast_path.AT_ONCE) == b"x" * fast_path.AT_ONCE
        assert len(waited) == 1


async def test_a_connection_that_was_idle_for_long_is_checked_first(redis_url: str) -> None:
    async with clients.client(redis_url, health_check_interval=10) as client:
        await client.ping()
        [connection] = client.connection_pool._available_connections
        async with commands_of(client) as counted:
            connection.next_health_check = 0
            await client.echo("after a while")
        assert counted == {"echo": 1, "ping": 1}


async def _killed(other: redis.Redis, name: str = "mine") -> int:
    """Ends the connections of a client, and returns how many there were."""
    found = [each["id"] for each in await other.client_list() if each["name"] == name]
    for id in found:
        await other.client_kill_filter(_id=id)
    return len(found)


async def _turns(*calls: Awaitable[Any]) -> list[Any]:
    """The answers of calls that begin in turns of their own."""
    tasks = []
    for each in calls:
        tasks.append(asyncio.ensure_future(each))
        for _ in range(3):
            await asyncio.sleep(0)
    return await asyncio.gather(*tasks)


async def test_connections_that_the_server_closed_are_opened_again(redis_url: str) -> None:
    async with redis.from_url(redis_url) as other, clients.client(redis_url, client_name="mine") as client:
        await _turns(*(client.ping() for _ in range(3)))
        assert await _killed(other) == 3
        assert await _turns(*(client.echo(str(n)) for n in range(3))) == [b"0", b"1", b"2"]
        assert await _killed(other) == 3
        assert await asyncio.gather(*(client.echo(str(n)) for n in range(3))) == [b"0", b"1", b"2"], "in one round trip"
        assert await _killed(other) == 1


async def test_calls_of_one_turn_share_a_round_trip_in_their_order(redis_url: str) -> None:
    async with clients.client(redis_url) as client, commands_of(client) as counted:
        answers = await asyncio.gather(*(client.rpush("list", n) for n in range(50)), client.lrange("list", 0, -1))
        assert answers == [*range(1, 51), [b"%d" % n for n in range(50)]]
        assert len(client.connection_pool._available_connections) == 1
    assert counted == {"rpush": 50, "lrange": 1}


async def test_an_error_of_a_call_is_its_own(redis_url: str) -> None:
    async with clients.client(redis_url) as client:
        await client.set("text", "a")
        calls = (client.llen("text"), client.get("text"), client.set("text", True), client.echo("last"))
        mistyped, value, wrong, last = await asyncio.gather(*calls, return_exceptions=True)
        assert (value, last) == (b"a", b"last")
        assert isinstance(mistyped, ResponseError)
        assert isinstance(wrong, DataError)
        assert await client.echo("in step") == b"in step"


async def test_a_call_that_waits_on_the_server_delays_no_other(redis_url: str) -> None:
    async with clients.client(redis_url) as client:
        waiting = asyncio.create_task(client.blpop("later", timeout=60))
        assert await asyncio.gather(client.echo("a"), client.echo("b")) == [b"a", b"b"]
        assert not waiting.done()
        await client.rpush("later", "now")
        assert await waiting == (b"later", b"now")


@for_each(0, 1, 2)
@for_each(1, 2, 3, 4, 5, 6)
async def test_a_cancelled_call_takes_no_other_of_its_turn_along(moment: int, which: int, redis_url: str) -> None:
    async with clients.client(redis_url) as client:
        calls = [asyncio.create_task(client.echo(str(n))) for n in range(3)]
        for _ in range(moment):
            await asyncio.sleep(0)
        calls[which].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        others = [n for n in range(3) if n != which]
        assert [answers[n] for n in others] == [b"%d" % n for n in others]
        assert await client.echo("in step") == b"in step"


@cases(("they may be", 1, [1, 2, b"last"]), ("they may not be", 0, [1, RedisConnectionError, RedisConnectionError]))
async def test_of_calls_whose_connection_breaks_those_without_an_answer_are_asked_again_where(
    retries: int, expected: list[Any], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clients.client(redis_url, retry=Retry(NoBackoff(), retries)) as client:
        await client.ping()
        read, reads = AbstractConnection.read_response, 0

        async def breaking(self: AbstractConnection, *args: Any, **options: Any) -> Any:
            nonlocal reads
            reads += 1
            if reads == 2:
                await self.disconnect()
                raise RedisConnectionError("the connection broke")
            return await read(self, *args, **options)

        monkeypatch.setattr(AbstractConnection, "read_response", breaking)
        calls = (client.incr("once"), client.incr("twice"), client.echo("last"))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) if isinstance(each, Exception) else each for each in answers] == expected


async def test_every_call_of_a_turn_hears_that_the_broker_is_away() -> None:
    async with clients.client("redis://127.0.0.1:1") as client:
        answers = await asyncio.gather(*(client.echo(str(n)) for n in range(3)), return_exceptions=True)
        assert [type(each) for each in answers] == [RedisConnectionError] * 3


async def test_a_call_that_is_cancelled_while_others_wait_for_its_connection_lets_them_have_it(redis_url: str) -> None:
    async with clients.client(redis_url, max_connections=1) as client:
        blocked = asyncio.create_task(client.blpop("nothing", timeout=60))
        await eventually(lambda: len(client.connection_pool._in_use_connections) == 1)
        waiting = asyncio.create_task(client.echo("next"))
        for _ in range(3):
            await asyncio.sleep(0)
        blocked.cancel()
        assert await asyncio.wait_for(waiting, 10) == b"next"


async def test_a_call_that_gives_up_as_a_connection_comes_free_leaves_it_to_the_next(redis_url: str) -> None:
    async with clients.client(redis_url, max_connections=1, timeout=60.0) as client:
        pool = client.connection_pool
        taken = await pool.get_connection()
        first, second = (asyncio.create_task(pool.get_connection()) for _ in range(2))
        for _ in range(10):
            await asyncio.sleep(0)
        await pool.release(taken)
        first.cancel()
        done, _ = await asyncio.wait([second], timeout=30.0)
        assert done
        await pool.release(second.result())


async def test_answers_of_commands_that_share_a_round_trip_are_each_command_s_own(redis_url: str) -> None:
    async with clients.client(redis_url) as client:
        await client.set("text", "a")
        asked = [("GET", "text"), ("LLEN", "text"), ("XINFO GROUPS", "none"), ("ECHO", "last")]
        value, mistyped, missing, last = await fast_path.together(client, asked, refusals=True)
        assert (value, last) == (b"a", b"last")
        assert isinstance(mistyped, ResponseError)
        assert "WRONGTYPE" in str(mistyped)
        assert isinstance(missing, ResponseError)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await fast_path.together(client, asked)
        assert await client.echo("in step") == b"in step"
