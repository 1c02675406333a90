"""Bodies are read within a number of bytes and a time; one that is there already takes no timer."""

import asyncio
from typing import Any

import pytest

from scalers.gateway.body_reader import Disconnected, read_body
from scalers.gateway.overload import Load
from scalers.gateway.problem import RequestRefused
from tests.support.tables import cases

LENGTH = [(b"content-length", b"6")]
END = {"type": "http.request", "body": b"def", "more_body": False}
START = {"type": "http.request", "body": b"abc", "more_body": True}


class Sender:
    """A client whose messages come when a test puts them. ended: a wait for one has ended."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.ended = False
        for message in messages:
            self.messages.put_nowait(message)

    async def receive(self) -> dict[str, Any]:
        try:
            return await self.messages.get()
        finally:
            self.ended = True


async def read(sender: Sender, seconds: float = 20.0) -> bytes:
    with Load().request() as held:
        return await read_body(sender.receive, LENGTH, 10, held, seconds=seconds)


async def test_a_body_that_is_there_takes_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a timer was made")

    monkeypatch.setattr(asyncio, "timeout", refuse)
    assert await read(Sender(START, END)) == b"abcdef"


async def test_a_body_that_comes_later_is_awaited() -> None:
    sender = Sender(START)
    reading = asyncio.create_task(read(sender))
    while not sender.ended:
        await asyncio.sleep(0)
    sender.messages.put_nowait(END)
    assert await reading == b"abcdef"


async def test_a_body_that_does_not_come_is_refused() -> None:
    sender = Sender()
    with pytest.raises(RequestRefused) as caught:
        await read(sender, 0.01)
    assert (caught.value.problem.status, caught.value.problem.closes, sender.ended) == (408, True, True)


async def test_a_request_that_is_cancelled_waits_no_longer() -> None:
    sender = Sender()
    reading = asyncio.create_task(read(sender))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert sender.ended


@cases(("later", True), ("at once", False))
async def test_a_client_that_goes_is_no_error_of_the_gateway(late: bool) -> None:
    gone = {"type": "http.disconnect"}
    sender = Sender(START) if late else Sender(START, gone)
    reading = asyncio.create_task(read(sender))
    while not sender.ended:
        await asyncio.sleep(0)
    sender.messages.put_nowait(gone)
    with pytest.raises(Disconnected):
        await reading
