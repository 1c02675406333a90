"""Bodies are read within a number of bytes and a time; one that is there already takes no timer."""

import asyncio
from typing import Any

import pytest

from scalers.gateway.body_reader import DROPPED, Disconnected, read_body
from scalers.gateway.overload import Load
from scalers.gateway.problem import RequestRefused
from scalers.gateway.push_request import RawHeaders
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


@cases(
    ("declared", LENGTH, 0),
    ("of unknown length", [(b"transfer-encoding", b"chunked")], 0),
    ("not sent yet", [*LENGTH, (b"expect", b"100-continue")], 2),
    ("far too large", [(b"content-length", b"%d" % (DROPPED + 1))], 2),
)
async def test_a_body_that_is_too_large_is_read_to_its_end_where_that_is_near(headers: RawHeaders, left: int) -> None:
    load, sender = Load(), Sender(START, END)
    with load.request() as held:
        with pytest.raises(RequestRefused) as caught:
            await read_body(sender.receive, headers, 4, held)
        assert (caught.value.problem.status, sender.messages.qsize(), load.bytes) == (413, left, 0)


async def test_a_body_that_is_too_large_and_slow_is_refused_as_too_large() -> None:
    with Load().request() as held, pytest.raises(RequestRefused) as caught:
        await read_body(Sender(START).receive, LENGTH, 4, held, seconds=0.01)
    assert caught.value.problem.status == 413
