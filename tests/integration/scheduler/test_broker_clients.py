"""A task that waits for the broker ends when it is told to."""

import asyncio
import sys
from types import FrameType

import pytest
import redis.asyncio as redis
from redis.asyncio.connection import Connection
from redis.exceptions import DataError, ResponseError

from scheduler.broker import clients, fast_path
from tests.support.conditions import eventually
from tests.support.redis_calls import commands_of


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
    """Returns how many functions of Python one command calls, on a connection that is open."""
    await client.ping()
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

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


async def test_connections_that_the_server_closed_are_opened_again(redis_url: str) -> None:
    async with redis.from_url(redis_url) as other, clients.client(redis_url, client_name="mine") as client:
        await asyncio.gather(*(client.ping() for _ in range(3)))
        for each in await other.client_list():
            if each["name"] == "mine":
                await other.client_kill_filter(_id=each["id"])
        assert await asyncio.gather(*(client.echo(str(n)) for n in range(3))) == [b"0", b"1", b"2"]
        assert len([each for each in await other.client_list() if each["name"] == "mine"]) == 3


async def test_a_call_that_is_cancelled_while_others_wait_for_its_connection_lets_them_have_it(redis_url: str) -> None:
    async with clients.client(redis_url, max_connections=1) as client:
        blocked = asyncio.create_task(client.blpop("nothing", timeout=60))
        await eventually(lambda: len(client.connection_pool._in_use_connections) == 1)
        waiting = asyncio.create_task(client.echo("next"))
        for _ in range(3):
            await asyncio.sleep(0)
        blocked.cancel()
        assert await asyncio.wait_for(waiting, 10) == b"next"


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
