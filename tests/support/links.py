"""A connection that a test cuts: a relay on loopback between a process and a server.

It passes bytes both ways, late, one way only or not at all. What it holds back it neither acknowledges to the peer's
program nor resets, as a network does that drops packets; `cut` resets, as one does that rejects them.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from tests.support.ports import free_port


class Way(Enum):
    """A direction, from the process that the test is about."""

    OUT = "out"
    IN = "in"


BOTH = frozenset(Way)


class Link:
    """One relay. port: where the process connects to; `target`: host and port of the server."""

    def __init__(self, target: tuple[str, int], loop: asyncio.AbstractEventLoop) -> None:
        self.target = target
        self.port = free_port()
        self._loop = loop
        self._passing = dict.fromkeys(Way, asyncio.Event())
        self._delay = 0.0
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Begins to listen; called on the relay's loop."""
        self._passing = {way: asyncio.Event() for way in Way}
        for event in self._passing.values():
            event.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    # What tests do, from any thread

    def drop(self, ways: frozenset[Way] = BOTH) -> None:
        """From now on nothing arrives in these directions; connections stay open, and new ones are accepted."""
        self._call(self._drop, ways)

    def delay(self, seconds: float) -> None:
        """From now on everything arrives so much later."""
        self._call(setattr, self, "_delay", seconds)

    def cut(self) -> None:
        """Resets all connections, and new ones too."""
        self._call(self._cut)

    def heal(self) -> None:
        """Passes everything again; what was held back arrives now."""
        self._call(self._heal)

    def _call(self, work, *args) -> None:  # type: ignore[no-untyped-def]
        done = threading.Event()

        def call() -> None:
            work(*args)
            done.set()

        self._loop.call_soon_threadsafe(call)
        done.wait()

    # On the loop

    def _drop(self, ways: frozenset[Way]) -> None:
        for way in ways:
            self._passing[way].clear()

    def _heal(self) -> None:
        self._refusing, self._delay = False, 0.0
        for event in self._passing.values():
            event.set()

    def _cut(self) -> None:
        self._refusing = True
        for writer in self._writers:
            _reset(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _reset(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self.target)
        except OSError:
            _reset(writer)
            return
        self._writers |= {writer, server_writer}
        tasks = {
            asyncio.ensure_future(self._relay(reader, server_writer, Way.OUT)),
            asyncio.ensure_future(self._relay(server_reader, writer, Way.IN)),
        }
        self._tasks |= tasks
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks -= tasks
        self._writers -= {writer, server_writer}

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._passing[way].wait()
                writer.write(data)
                await writer.drain()
        # The end of a connection does not pass a network that drops packets either.
        await self._passing[way].wait()
        with contextlib.suppress(OSError):
            writer.close()

    async def close(self) -> None:
        """Ends everything."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            _reset(writer)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    if (sock := writer.get_extra_info("socket")) is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


class Relay:
    """Links on one loop, in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._links: list[Link] = []

    def link(self, host: str, port: int) -> Link:
        """Returns a new open link to this server."""
        link = Link((host, port), self._loop)
        asyncio.run_coroutine_threadsafe(link.open(), self._loop).result()
        self._links.append(link)
        return link

    def start(self) -> None:
        """Begins to relay."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all links."""
        for link in self._links:
            asyncio.run_coroutine_threadsafe(link.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def relay() -> Iterator[Relay]:
    """A running relay."""
    made = Relay()
    made.start()
    try:
        yield made
    finally:
        made.stop()
