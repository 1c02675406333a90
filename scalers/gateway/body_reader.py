"""Reads a request's body within a number of bytes and a time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any

from scalers.gateway.overload import RequestLoad
from scalers.gateway.problem import RequestRefused, refused
from scalers.gateway.push_request import RawHeaders

Receive = Callable[[], Awaitable[Any]]

#: Seconds that a body may take.
SECONDS = 20.0
#: Bytes of a body that are read at most once it is too large. A sender that is still writing when the connection ends
#: loses the answer with it, and takes the refusal for a fault that will pass.
DROPPED = 16 << 20


class Disconnected(Exception):  # noqa: N818 - an event
    """The client is gone before its request was complete: there is no one to answer."""


async def read_body(
    receive: Receive, headers: RawHeaders, most: int, load: RequestLoad, *, seconds: float = SECONDS
) -> bytes:
    """Returns the body.

    Raises RequestRefused: 408 after so many seconds, or earlier if others need the bytes (`overload`), 413 for more
    than `most` bytes, once the body is read to its end if that is near; and Disconnected.
    """
    if (declared := _declared(headers)) > most:
        if declared <= DROPPED and not any(name == b"expect" for name, _ in headers):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await _drop(receive, 0)
        raise _too_large(most)
    reading = _read(receive, most, load)
    try:
        return await (_within(seconds, reading, load) if declared else reading)
    except TimeoutError:
        detail = f"the body did not arrive within {seconds:g} s"
        if load.gave_up:
            detail = f"the body took more than {load.load.grace:g} s while others had no room"
        raise refused(408, "too-slow", detail, closes=True) from None


async def _read(receive: Receive, most: int, load: RequestLoad) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            load.release()
            if message.get("more_body", False):
                await _drop(receive, size)
            raise _too_large(most)
        load.add(len(piece))
        if not message.get("more_body", False):
            return b"".join((*pieces, piece))
        pieces.append(piece)
        load.is_read()


async def _drop(receive: Receive, size: int) -> None:
    """Reads the rest of a body of which so many bytes have come, unless it is far too large. Raises Disconnected."""
    more = True
    while more and size <= DROPPED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        size += len(message.get("body", b""))
        more = message.get("more_body", False)


async def _within(seconds: float, work: Coroutine[Any, Any, bytes], load: RequestLoad) -> bytes:
    """Returns what the work returns; raises TimeoutError after so many seconds, or once the load gives the body up.

    Work that need not wait costs no timer: most bodies come together with their heads.
    """
    try:
        awaited = work.send(None)
    except StopIteration as done:
        found: bytes = done.value
        return found
    async with asyncio.timeout(seconds) as deadline:
        load.end = lambda: deadline.reschedule(0.0)
        return await _continued(work, awaited)


@coroutine
def _continued(work: Coroutine[Any, Any, bytes], awaited: Any) -> Generator[Any, Any, bytes]:
    """Goes on with work that has begun, and waits for something."""
    try:
        yield awaited
        found: bytes = yield from work
        return found
    finally:
        work.close()


def _declared(headers: RawHeaders) -> int:
    """Returns the declared length; 0 without a body, 1 for one of unknown length."""
    given = dict(headers)
    if b"transfer-encoding" in given:
        return 1
    length = given.get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


def _too_large(most: int) -> RequestRefused:
    return refused(413, "too-large", f"the body has more than {most} bytes", closes=True)
