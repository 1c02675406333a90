"""Reading and writing pipes and terminals beside the event loop, as long as a process works with them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

#: Bytes read at once.
BLOCK = 32 * 1024


async def pour(descriptor: int, ended: asyncio.Future[int], send: Callable[[bytes], Awaitable[None]]) -> None:
    """Sends what is written to a descriptor until its end, or until `ended` is done and nothing is left to be read.

    The second ends it although a process that has left its session still holds the other end.
    """
    os.set_blocking(descriptor, False)
    while True:
        # Asked first: what was written before the end can be read from now on.
        over = ended.done()
        try:
            data = os.read(descriptor, BLOCK)
        except BlockingIOError:
            if over:
                return
            await _ready(descriptor, ended, write=False)
        except OSError:
            # A terminal has no end: it fails when its last process has gone.
            return
        else:
            if not data:
                return
            await send(data)


async def feed(descriptor: int, data: bytes, ended: asyncio.Future[Any]) -> None:
    """Writes data as fast as it is taken. Raises BrokenPipeError if it is not taken any more."""
    os.set_blocking(descriptor, False)
    left = memoryview(data)
    while left:
        if ended.done():
            raise BrokenPipeError
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            await _ready(descriptor, ended, write=True)


async def _ready(descriptor: int, ended: asyncio.Future[Any], *, write: bool) -> None:
    """Waits until the descriptor can be read or written, or the process has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, ready.set)
    waiting = asyncio.ensure_future(ready.wait())
    try:
        await asyncio.wait((waiting, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        remove(descriptor)
        waiting.cancel()
