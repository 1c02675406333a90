"""A task that waits for the broker ends when it is told to."""

import asyncio

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import DataError

from scheduler.broker import clients


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
