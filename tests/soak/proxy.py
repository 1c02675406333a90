"""A TCP proxy on loopback whose connections can be cut, refused, slowed down and left unanswered."""

import asyncio
import contextlib
from dataclasses import dataclass, field


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
            asyncio.create_task(self._pass(ends[0], ends[1])),
            asyncio.create_task(self._pass(ends[2], ends[3], answers=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if answers and self.mute:
                    return
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
