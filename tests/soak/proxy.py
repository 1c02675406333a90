"""A TCP proxy on loopback whose connections can be cut, refused, slowed down, held and left unanswered."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: Seconds that a server has for what arrives of a client that is gone.
LAST = 0.2


@dataclass
class Gate:
    """What is on its way one way. held: pieces that wait. holds: which do while it is closed."""

    holds: Callable[[bytes], bool] = bool
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    held: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.opened.set()

    async def pass_(self, data: bytes) -> bool:
        """Returns once the gate is open: True if the piece had to wait."""
        if self.opened.is_set() or not self.holds(data):
            return False
        self.held.append(data)
        await self.opened.wait()
        return True


@dataclass
class Proxy:
    """Passes connections on to a port of 127.0.0.1.

    delay: seconds that each piece waits. refusing: new ones end. mute: requests arrive, and answers are lost.
    """

    upstream: int
    delay: float = 0.0
    refusing: bool = False
    mute: bool = False
    port: int = 0
    _requests: Gate = field(default_factory=Gate)
    _answers: Gate = field(default_factory=Gate)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def start(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self) -> int:
        """Cuts every connection, as a network does that is gone. Returns the number of connections."""
        cut = list(self._open)
        for writer in cut:
            writer.transport.abort()
        return len(cut) // 2

    @contextmanager
    def hold_requests(self, holds: Callable[[bytes], bool]) -> Iterator[Gate]:
        """Holds such requests of present connections in the body; they arrive after it, whoever sent them."""
        held, self._requests = self._requests, Gate()
        held.holds = holds
        yield from _held(held)

    @contextmanager
    def hold_answers(self) -> Iterator[Gate]:
        """Holds all answers in the body, those to new connections as well."""
        yield from _held(self._answers)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        try:
            if not self.refusing:
                with contextlib.suppress(OSError):
                    there = await asyncio.open_connection("127.0.0.1", self.upstream)
                    self._open.add(there[1])
                    try:
                        await self._both(reader, there[1], there[0], writer)
                    finally:
                        self._open.discard(there[1])
                        there[1].transport.abort()
        except asyncio.CancelledError:
            pass
        finally:
            self._open.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _both(self, *ends: "asyncio.StreamReader | asyncio.StreamWriter") -> None:
        ways = [
            asyncio.create_task(self._pass(ends[0], ends[1], self._requests)),
            asyncio.create_task(self._pass(ends[2], ends[3], self._answers, answers=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: Gate, *, answers: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if answers and self.mute:
                    return
                if self.delay:
                    await asyncio.sleep(self.delay)
                waited = await gate.pass_(data)
                writer.write(data)
                await writer.drain()
                if waited and not answers:
                    await asyncio.sleep(LAST)


def _held(gate: Gate) -> Iterator[Gate]:
    gate.opened.clear()
    gate.held.clear()
    try:
        yield gate
    finally:
        gate.opened.set()
