"""The short way of a command through redis-py, for connections, pools and clients of `redis.asyncio`.

redis-py takes two locks and a timeout to lend a connection that is idle, one more timeout to hand bytes to a socket
that takes them at once, and keeps counts for a telemetry that is off. That is most of what a command costs:
docs/performance.md has the figures. Connecting, logging in, reading, retrying and everything unusual stay redis-py's.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool
from redis.exceptions import ResponseError

#: Arguments that hiredis encodes as redis-py does. Of others (bool, None) redis-py says why they are refused.
_PLAIN = frozenset({str, bytes, int, float})

#: Bytes that are handed to the socket without waiting until they have left.
AT_ONCE = 64 * 1024


class FastConnection:
    """A mixin for connections, before all others: it encodes by hiredis, and sends short commands without a deadline.

    A socket that takes nothing is found out by the deadline of the answer.
    """

    def pack_command(self, *args: Any) -> list[bytes]:
        # The name of a command may consist of two words.
        if not _PLAIN.issuperset(map(type, args)) or (b" " if isinstance(args[0], bytes) else " ") in args[0]:
            return super().pack_command(*args)  # type: ignore[misc,no-any-return]
        return [hiredis.pack_command(args)]

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        writer: asyncio.StreamWriter | None = self._writer  # type: ignore[attr-defined]
        short = isinstance(command, list) and sum(map(len, command)) <= AT_ONCE
        if short and not (check_health and self._is_due()) and writer and _takes_all(writer):
            writer.writelines(command)  # type: ignore[arg-type]
        else:
            await super().send_packed_command(command, check_health)  # type: ignore[misc]

    def _is_due(self) -> bool:
        """Returns whether redis-py would check the connection's health before this command."""
        every: float = self.health_check_interval  # type: ignore[attr-defined]
        due: float = self.next_health_check  # type: ignore[attr-defined]
        return bool(every) and asyncio.get_running_loop().time() > due


class FastPool(BlockingConnectionPool):
    """A pool that lends an idle connection at once. A call that finds all taken waits, as in redis-py's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._waiting = 0

    async def get_connection(self, *_args: Any, **_options: Any) -> AbstractConnection:
        if self._waiting or not self.can_get_connection():
            self._waiting += 1
            try:
                return await super().get_connection()  # type: ignore[no-untyped-call,no-any-return]
            finally:
                self._waiting -= 1
        connection: AbstractConnection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            # With something unread it was left in the middle of an answer, or the server has closed it.
            if not connection.is_connected or await connection.can_read():
                await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: AbstractConnection) -> None:
        if self._waiting or connection.should_reconnect():  # type: ignore[no-untyped-call]
            await super().release(connection)
            return
        self._in_use_connections.remove(connection)
        self._available_connections.append(connection)


class FastClient(Redis):
    """A client whose commands go through no telemetry. It has a pool, and no connection of its own."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Returns the answer. Raises redis.exceptions.RedisError."""
        pool = self.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]

        async def ask() -> Any:
            await connection.send_command(*args)
            return await self.parse_response(connection, args[0], **options)

        try:
            return await connection.retry.call_with_retry(ask, lambda _: connection.disconnect())
        finally:
            await pool.release(connection)


def _takes_all(writer: asyncio.StreamWriter) -> bool:
    """Returns whether everything that was sent before has left, so that what follows waits for nothing."""
    return not writer.is_closing() and writer.transport.get_write_buffer_size() == 0


async def together(client: Redis, commands: Sequence[Sequence[Any]], *, refusals: bool = False) -> list[Any]:
    """Returns the answers to these commands, in one round trip.

    refusals: the answer to a refused command is its error; otherwise the first one is raised. Raises
    redis.exceptions.RedisError if the server is away.
    """
    pool = client.connection_pool
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]

    async def ask() -> list[Any]:
        await connection.send_packed_command(connection.pack_commands(commands))
        answers: list[Any] = []
        for command in commands:
            try:
                answers.append(await client.parse_response(connection, command[0]))
            except ResponseError as error:
                answers.append(error)
        return answers

    try:
        found: list[Any] = await connection.retry.call_with_retry(ask, lambda _: connection.disconnect())
    finally:
        await pool.release(connection)
    if not refusals and (refused := next((each for each in found if isinstance(each, ResponseError)), None)):
        raise refused
    return found
