"""The short way of a command through redis-py, for connections, pools and clients of `redis.asyncio`.

redis-py takes two locks and a timeout to lend a connection that is idle, one more timeout to hand bytes to a socket
that takes them at once, and keeps counts for a telemetry that is off. That is most of what a command costs:
docs/performance.md has the figures. Connecting, logging in, reading, retrying and everything unusual stay redis-py's.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, BlockingConnectionPool
from redis.exceptions import ConnectionError, DataError, ResponseError

#: Arguments that hiredis encodes as redis-py does. Of others (bool, None) redis-py says why they are refused.
_PLAIN = frozenset({str, bytes, int, float})

#: Commands that the server may answer late; what shared a round trip with them would wait, too.
_MAY_WAIT = frozenset(
    [
        "BLMOVE",
        "BLMPOP",
        "BLPOP",
        "BRPOP",
        "BRPOPLPUSH",
        "BZMPOP",
        "BZPOPMAX",
        "BZPOPMIN",
        "WAIT",
        "WAITAOF",
        "XREAD",
        "XREADGROUP",
    ]
)

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
            except BaseException:
                # Cancelled in the turn in which it was told of a free connection, it would take the news along.
                async with self._condition:
                    self._condition.notify()
                raise
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


class _Command:
    """A command that shares a round trip with others."""

    __slots__ = ("answer", "options", "words")

    def __init__(self, words: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.words = words
        self.options = options
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, answer: Any) -> None:
        """Hands the answer, or the error, to the caller who still waits."""
        if self.answer.done():
            return
        if isinstance(answer, BaseException):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class FastClient(Redis):
    """A client whose commands go through no telemetry. It has a pool, and no connection of its own.

    Commands of one turn of the event loop share a round trip, and reach the server in their order. What may wait on the
    server has a connection to itself.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Commands that came after the first one of this turn of the loop; None once the turn is over.
        self._turn: list[_Command] | None = None
        self._trips: set[asyncio.Task[None]] = set()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Returns the answer. Raises redis.exceptions.RedisError."""
        if args[0] not in _MAY_WAIT:
            if self._turn is not None:
                return await self._joined(self._turn, args, options)
            turn: list[_Command] = []
            self._turn = turn
            try:
                await asyncio.sleep(0)
            finally:
                self._turn = None
            if turn:
                command = _Command(args, options)
                turn.insert(0, command)
                return await command.answer
        pool = self.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]

        async def ask() -> Any:
            await connection.send_command(*args)
            return await self.parse_response(connection, args[0], **options)

        try:
            return await connection.retry.call_with_retry(ask, lambda _: connection.disconnect())
        finally:
            await pool.release(connection)

    def _joined(self, turn: list[_Command], words: tuple[Any, ...], options: dict[str, Any]) -> "asyncio.Future[Any]":
        """Returns the answer of a command that joins a turn. The second one lets all of them depart.

        It does so after the first one has gone on: that joins them then, unless it was cancelled.
        """
        command = _Command(words, options)
        if not turn:
            asyncio.get_running_loop().call_soon(self._depart, turn)
        turn.append(command)
        return command.answer

    def _depart(self, turn: list[_Command]) -> None:
        trip = asyncio.get_running_loop().create_task(self._trip(turn))
        self._trips.add(trip)
        trip.add_done_callback(self._trips.discard)

    async def _trip(self, commands: list[_Command]) -> None:
        """Asks for all of them, and again for those that a broken connection left without an answer."""
        left = deque(commands)
        ended: Exception = ConnectionError("the client was closed meanwhile")
        try:
            connection = await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]
            try:
                await connection.retry.call_with_retry(
                    lambda: self._ask_all(connection, left), lambda _: connection.disconnect()
                )
            finally:
                await self.connection_pool.release(connection)
        except Exception as error:
            ended = error
        finally:
            for command in left:
                command.settle(ended)

    async def _ask_all(self, connection: Any, left: deque[_Command]) -> None:
        packed: list[bytes] = []
        for command in tuple(left):
            try:
                packed += connection.pack_command(*command.words)
            except DataError as error:
                left.remove(command)
                command.settle(error)
        await connection.send_packed_command(packed)
        while left:
            command = left[0]
            try:
                answer = await self.parse_response(connection, command.words[0], **command.options)
            except ResponseError as error:
                answer = error
            left.popleft()
            command.settle(answer)


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
